"""Claiming: in order, in turn, within caps, by many at once."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from psycopg import AsyncConnection, Error

from tests.helpers.calls import refund, tool_connection
from tests.helpers.database import DESK, attach, rows, run_all, session, value
from tests.helpers.queue import add_runs, claim, finish, ids, one_run, set_clock
from walagent.domain.run import RunState, StepKind
from walagent.message import ToolCall, Usage
from walagent.store import runs
from walagent.store.runs import NewStep


async def desk(conn: AsyncConnection, spec: str = "ordering_key=[]", name: str = "desk") -> int:
    """An attachment to queue runs for."""
    if not await value(conn, "select to_regclass('support_tickets') is not null"):
        await run_all(conn, DESK)
    return await attach(conn, f"name={name}, {spec}")


async def test_runs_are_claimed_in_the_order_in_which_they_came(conn: AsyncConnection) -> None:
    """First in, first out."""
    added = await add_runs(conn, await desk(conn), *[None] * 7)
    assert ids(await claim(conn, 3)) == added[:3]
    assert ids(await claim(conn, 3)) == added[3:6]
    assert ids(await claim(conn, 3)) == added[6:]
    assert ids(await claim(conn, 3)) == []


async def test_a_claim_brings_all_that_is_needed_to_start(conn: AsyncConnection) -> None:
    """The change, its merged ones, the steps so far: no further question to the database."""
    attachment = await desk(conn)
    (run_id,) = await add_runs(conn, attachment, "a", depth=2, cause_run=77)
    await run_all(
        conn,
        "insert into agent_internal.merged_change"
        " select attachment_id, 1, '0/999', n, id, jsonb_build_object('n', n)"
        "  from agent.run, generate_series(2, 1, -1) n",
    )
    (held,) = await claim(conn)
    assert (held.run_id, held.attachment_id, held.attachment_version) == (run_id, attachment, 1)
    assert (held.lease, held.attempt, held.max_attempts, held.depth) == (1, 1, 5, 2)
    assert held.changes == ({"op": "insert", "new": {"id": 0}}, {"n": 1}, {"n": 2})
    assert (held.reason, held.key, held.commit_lsn) == ("change", "0", "0/101")
    assert held.steps == ()
    usage = Usage(1, 20, 300, 4000)
    step = NewStep(0, StepKind.REPLY, {"parts": [], "stop": "end"}, usage, 0.5, 12)
    await runs.record_step(conn, held, step)
    await run_all(conn, "update agent.run set state = 'pending', lease_expires_at = null")
    (again,) = await claim(conn)
    assert again.steps == (step.recorded,)
    assert again.steps[0].tokens == 4321
    assert (again.lease, again.attempt) == (2, 2)
    assert again.started_at == held.started_at


async def test_a_claim_takes_no_more_than_there_are_slots(conn: AsyncConnection) -> None:
    """Whatever number of attachments has runs."""
    for name in "abc":
        await add_runs(conn, await desk(conn, name=name), *[None] * 5)
    for slots in (1, 2, 4):
        assert len(await claim(conn, slots)) == slots
    assert len(await claim(conn, 100)) == 15 - 7


async def test_attachments_are_served_in_turn(conn: AsyncConnection) -> None:
    """One that has a thousand runs does not let the others wait for them."""
    noisy = await desk(conn, name="noisy")
    quiet = [await desk(conn, name=f"quiet{n}") for n in range(3)]
    await add_runs(conn, noisy, *[None] * 200)
    for attachment in quiet:
        await add_runs(conn, attachment, None, None)
    served = [held.attachment_id for _ in range(8) for held in await claim(conn, 1)]
    assert Counter(served[:4]) == Counter([noisy, *quiet])
    assert Counter(served) == Counter({noisy: 2, **dict.fromkeys(quiet, 2)})


async def test_free_slots_go_to_who_has_runs(conn: AsyncConnection) -> None:
    """A turn that is not taken is not lost: the next claim gives it to another."""
    noisy, quiet = await desk(conn, name="noisy"), await desk(conn, name="quiet")
    await add_runs(conn, noisy, *[None] * 50)
    await add_runs(conn, quiet, None)
    taken = await claim(conn, 20)
    taken += await claim(conn, 20 - len(taken))
    assert Counter(held.attachment_id for held in taken) == Counter({noisy: 19, quiet: 1})


async def test_a_paused_attachment_is_passed_over(conn: AsyncConnection) -> None:
    """Its runs wait; when it is resumed, they are there."""
    attachment = await desk(conn)
    added = await add_runs(conn, attachment, None, None)
    await value(conn, "select agent.pause('desk')")
    assert await claim(conn) == []
    await value(conn, "select agent.resume('desk')")
    assert ids(await claim(conn)) == added


async def test_no_more_runs_than_the_cap_are_worked_at_once(conn: AsyncConnection) -> None:
    """Also not by many workers; ended ones make room."""
    attachment = await desk(conn, "ordering_key=[], cap=2")
    await add_runs(conn, attachment, *[None] * 5)
    first = await claim(conn, worker="w1")
    assert len(first) == 2
    assert await claim(conn, worker="w2") == []
    await finish(conn, first[0])
    assert len(await claim(conn, worker="w1")) == 1
    assert await claim(conn, worker="w2") == []


@pytest.mark.slow
async def test_the_cap_holds_under_many_claims_at_once(conn: AsyncConnection, dsn: str) -> None:
    """Eight workers claim and end as fast as they can; a checker counts what is running."""
    attachment = await desk(conn, "ordering_key=[], cap=3")
    await add_runs(conn, attachment, *[None] * 120)
    running, most, done = 0, 0, 0

    async def work(name: str) -> None:
        nonlocal running, most, done
        async with session(dsn) as own:
            while done < 120:
                claims = await claim(own, 4, worker=name)
                running += len(claims)
                most = max(most, running)
                for held in claims:
                    running -= 1  # before: once it is committed, another claim has the place
                    await finish(own, held)
                    done += 1
                await asyncio.sleep(0)

    async with asyncio.timeout(30):
        await asyncio.gather(*(work(f"w{n}") for n in range(8)))
    assert most <= 3
    assert await value(conn, "select count(*) from agent.run where state = 'succeeded'") == 120


async def test_every_run_is_claimed_once_by_many_claimers(conn: AsyncConnection, dsn: str) -> None:
    """No run is taken twice, none is left behind."""
    attachments = [await desk(conn, name=name) for name in "abc"]
    added = [run for a in attachments for run in await add_runs(conn, a, *[None] * 100)]
    taken = list[int]()

    async def work(name: str) -> None:
        async with session(dsn) as own:
            misses = 0
            while misses < 5:
                claims = await claim(own, 7, worker=name)
                taken.extend(ids(claims))
                misses = 0 if claims else misses + 1
                await asyncio.sleep(0.001 * misses)

    await asyncio.gather(*(work(f"w{n}") for n in range(8)))
    assert sorted(taken) == sorted(added)


async def test_a_row_with_many_changes_does_not_hold_up_the_others(conn: AsyncConnection) -> None:
    """A thousand changes of one row stand before one change of another: both rows are worked."""
    attachment = await desk(conn, "")
    hot = await add_runs(conn, attachment, *["hot"] * 1000)
    (cold,) = await add_runs(conn, attachment, "cold")
    first = await claim(conn, 10)
    assert hot[0] in ids(first)
    assert cold in ids(first + await claim(conn, 10))


async def test_no_more_runs_are_claimed_than_their_model_has_room_for(
    conn: AsyncConnection,
) -> None:
    """They stay in the queue, in their order, and the slots go to others."""
    limited, other = await desk(conn, name="limited"), await desk(conn, name="other")
    first = await add_runs(conn, limited, *[None] * 5)
    second = await add_runs(conn, other, *[None] * 5)
    assert ids(await claim(conn, 4, limits={limited: 0})) == second[:4]
    assert ids(await claim(conn, 4, limits={limited: 2})) == [*first[:2], second[4]]
    assert ids(await claim(conn, 4, limits={limited: 0, other: 0})) == []
    assert ids(await claim(conn, 4)) == first[2:]


async def test_a_run_that_is_being_collected_is_not_claimed(conn: AsyncConnection) -> None:
    """Until its time has come."""
    attachment = await desk(conn)
    (run_id,) = await add_runs(conn, attachment, "a")
    await run_all(
        conn, "update agent.run set not_before = agent_internal.now() + interval '1 minute'"
    )
    assert await claim(conn) == []
    await set_clock(conn, "2 minutes")
    await value(conn, "select agent_internal.tick()")
    assert ids(await claim(conn)) == [run_id]


async def test_a_worker_that_lost_the_lease_commits_nothing(
    conn: AsyncConnection, dsn: str
) -> None:
    """Promise 4: none of the ways to write for a run works with a lease that ran out."""
    attachment = await desk(conn, "tools=[refund_user]")
    await add_runs(conn, attachment, None)
    (old,) = await claim(conn, lease=timedelta(seconds=1))
    await set_clock(conn, "1 minute")
    await value(conn, "select agent_internal.tick()")
    (new,) = await claim(conn, worker="w2")
    assert (new.run_id, new.lease, new.attempt) == (old.run_id, 2, 2)
    call = ToolCall("c", "refund_user", {"amount": 1})
    step = NewStep(0, StepKind.REPLY, {"parts": [], "stop": "end"})
    async with session(dsn) as late:
        for write in (
            runs.record_step(late, old, step),
            runs.finish_run(
                late, old, RunState.SUCCEEDED, result="x", error=None, spent=runs.Spent(0, None)
            ),
            finish(late, old, last=step),
            runs.park_run(late, old, RunState.WAITING_RETRY, spent=runs.Spent(0, None)),
            runs.ask_approval(late, old, 0, call, "postgres", 60, runs.Spent(0, None)),
            late.execute("select agent_internal.begin_write(%s, %s)", [old.run_id, old.lease]),
        ):
            with_lease = None
            try:
                await write
            except Exception as error:  # noqa: BLE001 - its code is looked at
                with_lease = getattr(error, "sqlstate", None)
            assert with_lease == "WA001"
        async with tool_connection(conn, dsn) as tools:
            with pytest.raises(Error) as caught:
                await refund(tools, old)
            assert caught.value.sqlstate == "WA001"
    assert await rows(conn, "select * from agent.step") == []
    assert await rows(conn, "select * from refund") == []
    assert await one_run(conn, "state::text, worker, lease", new.run_id) == ("running", "w2", 2)
