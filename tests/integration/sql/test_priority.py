"""Priorities: whose run of a tenant starts first, and what waits for whom."""

import asyncio

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    message_of,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from tests.helpers.people import acting, application, person
from tests.helpers.queue import LEASE, add_runs, claim, finish, ids, park_for_approval
from walagent.store import claiming
from walagent.store.claiming import Turn

OF = "select priority from agent.run where id = %s"
CHECKPOINT = """
insert into agent.checkpoint (slot, system_id, timeline, plugin, commit_lsn, end_lsn)
values ('s', '1', 1, 'pgoutput', '0/0', '0/0')
"""


async def desk(conn: AsyncConnection, name: str = "desk", spec: str = "") -> int:
    """An attachment to queue runs for."""
    if not await value(conn, "select to_regclass('support_tickets') is not null"):
        await run_all(conn, DESK)
    return await attach(conn, f"name={name}" + (f", {spec}" if spec else ""))


async def one_by_one(conn: AsyncConnection, n: int) -> list[int]:
    """Claim, in turn, one run at a time."""
    turn = Turn()
    return [
        held.run_id
        for _ in range(n)
        for held in await claiming.claim_runs(conn, "w", 1, LEASE, turn=turn)
    ]


async def test_a_higher_priority_is_claimed_first(conn: AsyncConnection) -> None:
    """From whichever queue of the tenant, and with however many slots."""
    one, two = await desk(conn), await desk(conn, "other")
    low = await add_runs(conn, one, None, None, priority=-100)
    plain = await add_runs(conn, one, None, None)
    high = await add_runs(conn, two, None, None, priority=7)
    assert await one_by_one(conn, 3) == [*high, plain[0]]
    assert ids(await claim(conn, 2)) == sorted([plain[1], low[0]])
    assert ids(await claim(conn, 2)) == low[1:]


async def test_queues_of_one_priority_are_served_in_turn(conn: AsyncConnection) -> None:
    """A high run before does not change whose turn it is among the others."""
    queues = [await desk(conn, f"desk{n}") for n in range(4)]
    for queue in queues[1:]:
        await add_runs(conn, queue, *[None] * 6)
    turn, served = Turn(), list[int]()
    for _ in range(6):
        await add_runs(conn, queues[0], None, priority=5)
        held = await claiming.claim_runs(conn, "w", 2, LEASE, turn=turn)
        assert min(each.queue_id for each in held) == queues[0]
        served += [each.queue_id for each in held if each.queue_id != queues[0]]
    assert sorted(served[:3]) == sorted(served[3:]) == queues[1:]


async def test_a_tenant_does_not_come_before_another_by_priority(conn: AsyncConnection) -> None:
    """Tenants are served in turn, whatever the priorities of their runs are."""
    queue = await desk(conn)
    await value(conn, "select agent.create_tenant('acme')")
    await add_runs(conn, queue, *[None] * 4, tenant="acme", priority=1000)
    await add_runs(conn, queue, *[None] * 4)
    taken = await one_by_one(conn, 6)
    found = await rows(conn, "select id, tenant from agent.run where id = any (%s)", taken)
    tenants = dict(found)
    assert [tenants[run] == "acme" for run in taken] in ([True, False] * 3, [False, True] * 3)


async def test_capped_and_paused_queues_hold_back_no_lower_priority(conn: AsyncConnection) -> None:
    """What cannot start does not count, in however many queues it is."""
    for n in range(5):
        queue = await desk(conn, f"high{n}", "cap=1")
        await add_runs(conn, queue, None, None, priority=9)
    await value(conn, "select agent.pause('high4')")
    low = await add_runs(conn, await desk(conn, "low"), None, None)
    assert len(await one_by_one(conn, 4)) == 4
    assert await one_by_one(conn, 3) == low


async def test_a_run_is_raised_for_those_of_its_key_that_wait_for_it(conn: AsyncConnection) -> None:
    """So a change of a row does not wait behind a backfill by its key; it overtakes none either."""
    queue = await desk(conn)
    (filled,) = await add_runs(conn, queue, "a", priority=-100)
    await add_runs(conn, queue, "b", "c", "d", priority=-50)
    (change,) = await add_runs(conn, queue, "a")
    (held,) = await claim(conn, 1)
    assert held.run_id == filled
    assert await value(conn, OF, filled) == 0
    assert await value(conn, OF, change) == 0
    assert change not in await one_by_one(conn, 1)
    await finish(conn, held)
    assert ids(await claim(conn, 1)) == [change]


async def test_all_that_a_run_waits_for_is_raised(conn: AsyncConnection) -> None:
    """Also what waits for a retry or was marked as waiting before; it keeps what it was given."""
    queue = await desk(conn)
    chain = await add_runs(conn, queue, *["a"] * 4, priority=-100)
    (first,) = await claim(conn, 1)
    park = "select agent_internal.park_run(%s, %s, 'waiting_retry', '1 min', false, null, 0, 0)"
    await value(conn, park, first.run_id, first.lease)
    assert await claim(conn) == []
    other = await add_runs(conn, queue, *"bcd")
    (urgent,) = await add_runs(conn, queue, "a", priority=10)
    assert await one_by_one(conn, 1) == other[:1]
    assert [await value(conn, OF, run) for run in chain] == [10] * 4
    assert await rows(conn, "select * from agent.broken_invariant") == []
    await run_all(conn, "update agent.run set next_attempt_at = '2000-01-01' where id = 1")
    await value(conn, "select agent_internal.tick()")
    for run in [*chain, urgent]:
        (held,) = await claim(conn, 1)
        assert held.run_id == run
        await finish(conn, held)
    assert ids(await claim(conn)) == other[1:]


async def test_a_run_that_a_step_has_locked_is_raised_later(
    conn: AsyncConnection, dsn: str
) -> None:
    """The claim does not wait for it, and what waits for the run is not marked before."""
    queue = await desk(conn)
    (first, second) = await add_runs(conn, queue, "a", "a", priority=-100)
    (held,) = await claim(conn, 1)
    assert await claim(conn) == []  # which marks the second one
    (urgent,) = await add_runs(conn, queue, "a")
    async with session(dsn) as step:
        await step.execute("begin")
        await step.execute("select from agent.run where id = %s for no key update", [first])
        async with asyncio.timeout(10):
            assert await claim(conn) == []
        assert [await value(conn, OF, run) for run in (first, second)] == [-100, 0]
        assert await rows(conn, "select * from agent.broken_invariant") == []
        await step.execute("rollback")
    assert await claim(conn) == []
    assert [await value(conn, OF, run) for run in (first, second)] == [0, 0]
    await finish(conn, held)
    (held,) = await claim(conn)
    assert held.run_id == second
    await finish(conn, held)
    assert ids(await claim(conn)) == [urgent]


async def test_no_run_starts_as_it_is_inserted_before_a_higher_one(conn: AsyncConnection) -> None:
    """What waits has the slot, unless it cannot start or is of another tenant."""
    queue, other = await desk(conn), await desk(conn, "other")
    await value(conn, "select agent.create_tenant('acme')")
    await run_all(conn, CHECKPOINT)
    position = 0

    async def start(priority: int, tenant: str = "default") -> bool:
        nonlocal position
        position += 1
        run = {
            "attachment_id": queue,
            "attachment_version": 1,
            "commit_lsn": f"0/{position:X}0",
            "ordinal": 0,
            "change": {},
            "max_attempts": 5,
            "start": True,
            "tenant": tenant,
            "priority": priority,
        }
        ingest = "select agent_internal.ingest('s', 0, 1, %s, %s, %s, 'w', '1 hour')"
        at = f"0/{position:X}F"
        return bool(await value(conn, ingest, at, at, Jsonb([run])))

    assert await start(0)
    await add_runs(conn, other, None, priority=5)
    assert not await start(0)
    assert await start(5)
    assert await start(0, "acme")
    await value(conn, "select agent.pause('other')")
    assert await start(0)


async def test_a_priority_is_pinned_when_the_run_is_inserted(conn: AsyncConnection) -> None:
    """Changing the attachment changes its next runs."""
    queue = await desk(conn, spec="priority=-7")
    assert await value(conn, "select definition -> 'priority' from agent.attachment") == -7
    await add_runs(conn, queue, None)
    await run_all(conn, "update agent.attachment set priority = 8")
    assert await rows(conn, "select priority from agent.run") == [(0,)]
    assert await value(conn, "select max(version) from agent.attachment_version") == 2


@pytest.mark.parametrize("wrong", ["1001", "-1001", "high", "1.5"])
async def test_a_priority_of_an_attachment_has_limits(conn: AsyncConnection, wrong: str) -> None:
    """The error names the key and what is expected."""
    await run_all(conn, DESK)
    spec = f"model=fake, priority={wrong}"
    error = await refused(conn, "select agent.attach('support_tickets', %s)", spec, state="WA010")
    assert "priority: must be an integer from -1000 to 1000" in message_of(error)


async def test_an_operator_sets_the_priority_of_a_run_that_waits(conn: AsyncConnection) -> None:
    """It is audited; what it waits for comes along, and what waits for it is not left behind."""
    queue = await desk(conn)
    first, second, third = await add_runs(conn, queue, "a", "a", "a", priority=-100)
    (other,) = await add_runs(conn, queue, "b")
    assert await value(conn, "select agent.set_priority(%s, 50)", second) == 50
    assert [await value(conn, OF, run) for run in (first, second, third)] == [50, 50, -100]
    (held,) = await claim(conn, 1)
    assert held.run_id == first
    assert ids(await claim(conn, 1)) == [other]  # the second one is marked as waiting
    assert await value(conn, "select blocked_by from agent.run where id = %s", second) == first
    await value(conn, "select agent.set_priority(%s, 60)", third)
    assert [await value(conn, OF, run) for run in (first, second)] == [60, 60]
    audited = "select detail from agent.audit where action = 'run.prioritized' order by number"
    assert await rows(conn, audited) == [
        ({"from": -100, "to": 50},),
        ({"from": -100, "to": 60},),
    ]
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_run_keeps_the_priority_of_one_that_waits_for_it(conn: AsyncConnection) -> None:
    """Lowering it would let that one wait for a lower priority."""
    queue = await desk(conn)
    first, _ = await add_runs(conn, queue, "a", "a", priority=3)
    (held,) = await claim(conn, 1)
    assert await claim(conn) == []
    await park_for_approval(conn, held)
    assert await value(conn, "select agent.set_priority(%s, -5)", first) == 3
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_priority_is_refused_where_it_has_no_meaning(conn: AsyncConnection) -> None:
    """Of runs that are executed or have ended, that do not exist, and beyond the limits."""
    (run,) = await add_runs(conn, await desk(conn), "a")
    for wrong in (-2001, 2001, None):
        await refused(conn, "select agent.set_priority(%s, %s)", run, wrong, state="22023")
    await refused(conn, "select agent.set_priority(%s, 1)", run + 1, state="WA003")
    (held,) = await claim(conn)
    error = await refused(conn, "select agent.set_priority(%s, 1)", run, state="WA003")
    assert f"run {run} is running" in message_of(error)
    await finish(conn, held)
    await refused(conn, "select agent.set_priority(%s, 1)", run, state="WA003")


async def test_only_an_approver_sets_the_priority_of_a_run(conn: AsyncConnection) -> None:
    """As it cancels and retries."""
    (run,) = await add_runs(conn, await desk(conn), "a")
    async with role(conn) as name:
        for capability in ("viewer", "developer", "asker", "member"):
            await value(conn, f"select agent.grant_{capability}(%s)", name)
        async with as_role(conn, name):
            await refused(conn, "select agent.set_priority(%s, 1)", run, state="42501")
            await refused(conn, "update agent.run set priority = 1", state="42501")
        await value(conn, "select agent.grant_approver(%s)", name)
        async with as_role(conn, name):
            assert await value(conn, "select agent.set_priority(%s, 1)", run) == 1


async def test_an_approver_sets_no_priority_in_another_tenant(
    conn: AsyncConnection, dsn: str
) -> None:
    """A run of another tenant does not exist for it; in its own, it needs the role."""
    (run,) = await add_runs(conn, await desk(conn), "a")
    async with application(conn, dsn, "approver") as app:
        other = await person(conn, "ann", "approver", tenant="acme")
        viewer = await person(conn, "vic", "viewer")
        own = await person(conn, "bob", "approver")
        async with acting(app, other):
            await refused(app, "select agent.set_priority(%s, 1)", run, state="WA003")
        async with acting(app, viewer):
            await refused(app, "select agent.set_priority(%s, 1)", run, state="42501")
        async with acting(app, own):
            assert await value(app, "select agent.set_priority(%s, 1)", run) == 1
    assert await value(conn, OF, run) == 0
