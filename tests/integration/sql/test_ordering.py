"""Lanes: one run at a time for equal keys, in commit order, and nobody else waits."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.database import DESK, attach, column, run_all, session, value
from tests.helpers.queue import (
    NOTHING,
    add_runs,
    claim,
    finish,
    ids,
    one_run,
    park_for_approval,
    set_clock,
    states,
)
from walagent.domain.run import Claim, RunState
from walagent.store import claiming, runs


async def desk(conn: AsyncConnection, spec: str = "") -> int:
    """An attachment with ordering keys."""
    await run_all(conn, DESK)
    return await attach(conn, spec)


async def test_runs_of_one_ordering_key_are_worked_one_after_the_other(
    conn: AsyncConnection,
) -> None:
    """In the order in which they came; other ordering keys go on beside them."""
    a1, b1, a2, a3, b2 = await add_runs(conn, await desk(conn), "a", "b", "a", "a", "b")
    first = await claim(conn)
    assert ids(first) == [a1, b1]
    assert await claim(conn) == []
    await finish(conn, first[1])
    assert ids(await claim(conn)) == [b2]
    await finish(conn, first[0])
    (second,) = await claim(conn)
    assert second.run_id == a2
    await finish(conn, second)
    assert ids(await claim(conn)) == [a3]


async def test_runs_without_an_ordering_key_keep_no_order(conn: AsyncConnection) -> None:
    """They are worked side by side."""
    added = await add_runs(conn, await desk(conn), None, None, None)
    assert ids(await claim(conn)) == added


async def test_ordering_keys_of_other_attachments_are_other_ordering_keys(
    conn: AsyncConnection,
) -> None:
    """The same key of the same table, two agents: both work."""
    first = await desk(conn)
    second = await attach(conn, "name=second")
    added = await add_runs(conn, first, "a") + await add_runs(conn, second, "a")
    assert sorted(ids(await claim(conn))) == sorted(added)


# Which runs hold their ordering key.
HOLDS = {
    "pending": True,
    "running": True,
    "waiting_approval": True,
    "waiting_retry": True,
    "needs_review": True,
    "succeeded": False,
    "failed": False,
    "dead": False,
    "cancelled": False,
    "skipped": False,
}


async def test_every_state_holds_its_ordering_key_or_does_not(conn: AsyncConnection) -> None:
    """A new state needs a line in the table above."""
    labels = await column(conn, "select unnest(enum_range(null::agent.run_state))::text")
    assert labels == list(HOLDS)
    assert labels == list(RunState)


async def _in_state(conn: AsyncConnection, state: str) -> int:
    """An attachment with a run of key a that has started and is in *state*."""
    attached = await desk(conn)
    await add_runs(conn, attached, "a")
    await claim(conn)
    await run_all(
        conn,
        "set session_replication_role = replica;"  # also what no transition leads to
        f"update agent.run set state = '{state}',"
        f" lease_expires_at = case when '{state}' = 'running' then lease_expires_at end,"
        f" next_attempt_at = case when '{state}' = 'waiting_retry' then now() + '1 day' end,"
        f" finished_at = case when agent_internal.is_final('{state}') then now() end;"
        "reset session_replication_role",
    )
    return attached


@pytest.mark.few(4)
@pytest.mark.parametrize("state", HOLDS)
async def test_a_claim_takes_a_later_run_only_if_no_earlier_one_holds_the_ordering_key(
    conn: AsyncConnection, state: str
) -> None:
    """What came later may rest on what the earlier run will do."""
    (later,) = await add_runs(conn, await _in_state(conn, state), "a")
    assert (later in ids(await claim(conn))) is not HOLDS[state]


@pytest.mark.few(4)
@pytest.mark.parametrize("state", HOLDS)
async def test_a_run_is_inserted_as_claimed_only_if_none_holds_its_ordering_key(
    conn: AsyncConnection, state: str
) -> None:
    """The shortcut of intake passes over nobody."""
    attached = await _in_state(conn, state)
    await run_all(
        conn,
        "insert into agent.checkpoint (slot, system_id, timeline, plugin, commit_lsn, end_lsn)"
        " values ('s', '1', 1, 'pgoutput', '1/0', '1/0')",
    )
    run = {
        "attachment_id": attached,
        "attachment_version": 1,
        "commit_lsn": "1/8",
        "ordinal": 0,
        "change": {},
        "ordering_key": "a",
        "max_attempts": 1,
        "start": True,
    }
    started = await value(
        conn,
        "select agent_internal.ingest('s', 0, 1, '1/8', '1/9', %s, 'w', '30 s')",
        Jsonb([run]),
    )
    assert (started is not None) is not HOLDS[state]


@pytest.mark.parametrize("state", [RunState.WAITING_RETRY, RunState.NEEDS_REVIEW, RunState.PENDING])
async def test_a_run_that_waits_holds_its_ordering_key(
    conn: AsyncConnection, state: RunState
) -> None:
    """What came later may rest on what it will do."""
    await add_runs(conn, await desk(conn), "a", "a")
    (first,) = await claim(conn)
    await runs.park_run(conn, first, state, delay=60, spent=NOTHING)
    again = await claim(conn)
    assert ids(again) == ([first.run_id] if state is RunState.PENDING else [])


async def test_a_run_that_waits_for_a_person_holds_its_ordering_key(conn: AsyncConnection) -> None:
    """Until the person has decided."""
    await add_runs(conn, await desk(conn, "tools=[refund_user], approve=[refund_user]"), "a", "a")
    (first,) = await claim(conn)
    await park_for_approval(conn, first)
    assert await claim(conn) == []


@pytest.mark.parametrize("end", ["succeeded", "failed", "dead", "cancelled", "skipped"])
async def test_whatever_way_a_run_ends_its_ordering_key_goes_on(
    conn: AsyncConnection, end: str
) -> None:
    """A failure does not stop what came later, nor a cancellation, nor a lost worker."""
    first, second, third = await add_runs(conn, await desk(conn), "a", "a", "a")
    (held,) = await claim(conn)
    assert await column(conn, "select blocked_by from agent.run order by id") == [
        None,
        first,
        second,
    ]
    await finish(conn, held, RunState(end))
    assert await column(conn, "select blocked_by from agent.run order by id") == [
        None,
        None,
        second,
    ]
    assert ids(await claim(conn)) == [second]
    assert third == second + 1


async def test_a_cancelled_link_of_a_chain_lets_the_rest_go_on(conn: AsyncConnection) -> None:
    """The run after it stands behind the one before it."""
    first, second, third = await add_runs(conn, await desk(conn), "a", "a", "a")
    (held,) = await claim(conn)
    assert held.run_id == first
    await value(conn, "select agent.cancel(%s)", second)
    assert await claim(conn) == []
    await finish(conn, held)
    assert ids(await claim(conn)) == [third]


async def test_a_lost_worker_holds_an_ordering_key_no_longer_than_its_lease(
    conn: AsyncConnection,
) -> None:
    """The same run goes on first."""
    first, _ = await add_runs(conn, await desk(conn), "a", "a")
    await claim(conn)
    await set_clock(conn, "1 minute")
    await value(conn, "select agent_internal.tick()")
    assert ids(await claim(conn, worker="w2")) == [first]


async def test_a_retried_run_waits_for_the_one_that_is_being_worked(conn: AsyncConnection) -> None:
    """It is older, but it does not break in."""
    first, second = await add_runs(conn, await desk(conn), "a", "a")
    (held,) = await claim(conn)
    await finish(conn, held, RunState.FAILED, error={"reason": "x"})
    (running,) = await claim(conn)
    assert running.run_id == second
    await value(conn, "select agent.retry(%s)", first)
    assert await claim(conn) == []
    await finish(conn, running)
    assert ids(await claim(conn)) == [first]


async def test_a_retried_run_goes_before_those_that_have_not_started(conn: AsyncConnection) -> None:
    """Commit order counts again."""
    first, second, third = await add_runs(conn, await desk(conn), "a", "a", "a")
    (held,) = await claim(conn)
    await finish(conn, held, RunState.FAILED, error={"reason": "x"})
    await value(conn, "select agent.retry(%s)", first)
    (held,) = await claim(conn)
    assert held.run_id == first
    await finish(conn, held)
    for expected in (second, third):
        (held,) = await claim(conn)
        assert held.run_id == expected
        await finish(conn, held)


async def test_a_retried_run_and_one_that_waits_do_not_block_each_other(
    conn: AsyncConnection,
) -> None:
    """The run that has begun continues first, then the retried one."""
    first, second = await add_runs(conn, await desk(conn), "a", "a")
    await value(conn, "select agent.cancel(%s)", first)
    (held,) = await claim(conn)
    await park_for_approval(conn, held)
    await value(conn, "select agent.retry(%s)", first)
    assert await claim(conn) == []
    await run_all(conn, "select agent.approve(id) from agent.approval")
    (held,) = await claim(conn)
    assert held.run_id == second
    await finish(conn, held)
    assert ids(await claim(conn)) == [first]


async def test_runs_that_block_each_other_are_found_and_released(conn: AsyncConnection) -> None:
    """An earlier version could store such a circle: `check` reports it, a tick repairs it."""
    first, second, third = await add_runs(conn, await desk(conn), "a", "a", "a")
    await run_all(
        conn,
        "update agent.run set blocked_by = case id when 1 then 2 when 2 then 1 else 2 end,"
        " started_at = case id when 2 then now() end",
    )
    assert await column(conn, "select detail from agent.broken_invariant order by 1") == [
        f"run {first}",
        f"run {second}",
    ]
    await claiming.tick(conn)
    assert await column(conn, "select rule from agent.broken_invariant") == []
    for expected in (second, first, third):
        (held,) = await claim(conn)
        assert held.run_id == expected
        await finish(conn, held)


@dataclass(slots=True)
class Checker:
    """Watches from outside that no two runs of one ordering key are worked at once, and in which
    order.
    """

    working: dict[tuple[int, str], int] = field(default_factory=dict)
    ended: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def starts(self, held: Claim, ordering_key: str) -> None:
        """A claim has come back."""
        key = (held.attachment_id, ordering_key)
        assert key not in self.working, (
            f"{held.run_id} beside {self.working[key]} in ordering_key {key}"
        )
        self.working[key] = held.run_id

    def lets_go(self, held: Claim, ordering_key: str, *, ends: bool) -> None:
        """A worker is about to end or park its run."""
        key = (held.attachment_id, ordering_key)
        del self.working[key]
        if ends:
            self.ended.setdefault(key, []).append(held.run_id)


@pytest.mark.slow
async def test_many_workers_never_work_two_runs_of_an_ordering_key_at_once(
    conn: AsyncConnection, dsn: str
) -> None:
    """Eight workers, twelve ordering keys, 400 runs that end, fail, wait and come again."""
    first = await desk(conn)
    second = await attach(conn, "name=second")
    chance = random.Random(20260101)
    ordering_keys = dict[int, str]()
    for attachment in (first, second):
        names = [chance.choice("abcdef") for _ in range(200)]
        ordering_keys |= dict(zip(await add_runs(conn, attachment, *names), names, strict=True))
    checker = Checker()
    left = len(ordering_keys)

    async def work(name: str) -> None:
        nonlocal left
        async with session(dsn) as own:
            while left:
                claims = await claim(own, chance.randint(1, 4), worker=name)
                for held in claims:
                    checker.starts(held, ordering_keys[held.run_id])
                for held in claims:
                    await asyncio.sleep(chance.random() * 0.004)
                    ends = chance.random() < 0.8
                    checker.lets_go(held, ordering_keys[held.run_id], ends=ends)
                    if ends:
                        state = chance.choice([RunState.SUCCEEDED, RunState.FAILED])
                        await finish(own, held, state)
                        left -= 1
                    else:
                        delay = chance.choice([0.0, 0.02])
                        await runs.park_run(
                            own, held, RunState.WAITING_RETRY, delay=delay, spent=NOTHING
                        )
                if not claims:
                    await claiming.tick(own)
                    await asyncio.sleep(0.002)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(f"w{n}") for n in range(8)))
    for key, order in checker.ended.items():
        assert order == sorted(order), key
    assert set(await states(conn)) <= {"succeeded", "failed"}
    assert await column(conn, "select * from agent.broken_invariant") == []
    assert (await one_run(conn, "attempt >= 1", min(ordering_keys)))[0]
