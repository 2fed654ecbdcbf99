"""What time does: leases, retries, collecting, approvals, and hints that a crash left wrong."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import (
    DESK,
    attach,
    column,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from tests.helpers.queue import (
    NOTHING,
    add_runs,
    claim,
    finish,
    ids,
    one_run,
    set_clock,
    states,
)
from walagent.domain.run import RunState
from walagent.store import claiming, runs
from walagent.store.claiming import Tick


async def desk(conn: AsyncConnection, spec: str = "") -> int:
    """An attachment."""
    await run_all(conn, DESK)
    return await attach(conn, spec)


async def test_a_lost_run_is_given_to_another_worker(conn: AsyncConnection) -> None:
    """When its lease has run out, and not before."""
    (run_id,) = await add_runs(conn, await desk(conn), None)
    await claim(conn)
    await set_clock(conn, "29 seconds")
    await claiming.tick(conn)
    assert await states(conn) == ["running"]
    await set_clock(conn, "31 seconds")
    await claiming.tick(conn)
    assert await one_run(conn, "state::text, attempt, lease_expires_at", run_id) == (
        "pending",
        1,
        None,
    )
    (held,) = await claim(conn, worker="w2")
    assert (held.run_id, held.lease, held.attempt) == (run_id, 2, 2)


async def test_a_run_that_kills_its_workers_is_dead_after_its_attempts(
    conn: AsyncConnection,
) -> None:
    """It is not tried for ever; the reason says so."""
    (run_id,) = await add_runs(conn, await desk(conn), None, max_attempts=2)
    for turn in (1, 2):
        assert len(await claim(conn)) == 1
        await set_clock(conn, f"{turn} minutes")
        await claiming.tick(conn)
    state, error, ended = await one_run(conn, "state::text, error, finished_at is not null", run_id)
    assert (state, ended) == ("dead", True)
    assert error == {"reason": "lost the worker of this run 2 times"}


async def test_a_lost_run_that_was_to_be_cancelled_is_cancelled(conn: AsyncConnection) -> None:
    """Nobody starts it again only to hear of the cancellation."""
    (run_id,) = await add_runs(conn, await desk(conn), None)
    await claim(conn)
    await value(conn, "select agent.cancel(%s, 'stop')", run_id)
    await set_clock(conn, "1 minute")
    await claiming.tick(conn)
    assert await one_run(conn, "state::text, error, cancel_requested", run_id) == (
        "cancelled",
        {"reason": "stop"},
        False,
    )


async def test_a_dead_run_lets_its_ordering_key_go_on(conn: AsyncConnection) -> None:
    """What stood behind it is no longer marked."""
    first, second = await add_runs(conn, await desk(conn), "a", "a", max_attempts=1)
    await claim(conn)
    assert await column(conn, "select blocked_by from agent.run order by id") == [None, first]
    await set_clock(conn, "1 minute")
    await claiming.tick(conn)
    assert await states(conn) == ["dead", "pending"]
    assert ids(await claim(conn)) == [second]


async def test_a_retry_comes_due(conn: AsyncConnection) -> None:
    """Not before its time."""
    await add_runs(conn, await desk(conn), None)
    (held,) = await claim(conn)
    await runs.park_run(conn, held, RunState.WAITING_RETRY, delay=10, spent=NOTHING)
    await set_clock(conn, "9 seconds")
    await claiming.tick(conn)
    assert await states(conn) == ["waiting_retry"]
    await set_clock(conn, "11 seconds")
    await claiming.tick(conn)
    assert await one_run(conn, "state::text, next_attempt_at", held.run_id) == ("pending", None)
    assert len(await claim(conn)) == 1


async def test_collecting_ends(conn: AsyncConnection) -> None:
    """The run is ready when its window has passed."""
    (run_id,) = await add_runs(conn, await desk(conn), None)
    await run_all(conn, "update agent.run set not_before = now() + interval '5 s'")
    await claiming.tick(conn)
    assert await claim(conn) == []
    await set_clock(conn, "6 seconds")
    await claiming.tick(conn)
    assert ids(await claim(conn)) == [run_id]


async def test_an_approval_that_nobody_gave_expires(conn: AsyncConnection) -> None:
    """The run goes on, and its steps say that it was not a refusal."""
    await add_runs(conn, await desk(conn, "tools=[refund_user], approve=[refund_user]"), None)
    (held,) = await claim(conn)
    await conn.execute(
        "select agent_internal.ask_approval(%s, %s, 0, 'c', 'refund_user', '{}', 'x', '1 hour',"
        " 0, 0)",
        [held.run_id, held.lease],
    )
    await set_clock(conn, "59 minutes")
    await claiming.tick(conn)
    assert await states(conn) == ["waiting_approval"]
    await set_clock(conn, "61 minutes")
    await claiming.tick(conn)
    assert await states(conn) == ["pending"]
    assert await rows(conn, "select state, decided_by from agent.approval") == [("expired", None)]
    decision = await value(conn, "select content from agent.step where kind = 'decision'")
    assert (decision["decision"], decision["call_id"]) == ("expired", "c")


async def test_tick_says_when_something_is_due_again(conn: AsyncConnection) -> None:
    """So a worker need not look more often than that."""
    attachment = await desk(conn)
    assert (await claiming.tick(conn)).due is None
    await add_runs(conn, attachment, None, None)
    first, _ = await claim(conn)
    await runs.park_run(conn, first, RunState.WAITING_RETRY, delay=100, spent=NOTHING)
    assert (await claiming.tick(conn)).due == pytest.approx(100, abs=5)
    await add_runs(conn, attachment, None)
    await run_all(
        conn,
        "update agent.run set not_before = now() + interval '20 s' where state = 'pending'",
    )
    assert (await claiming.tick(conn)).due == pytest.approx(20, abs=5)


async def test_only_one_worker_ticks_at_a_time(conn: AsyncConnection, dsn: str) -> None:
    """The others have nothing to add, and do not wait."""
    await add_runs(conn, await desk(conn), None)
    await claim(conn)
    await set_clock(conn, "1 hour")
    async with session(dsn) as other:
        await run_all(other, "begin; select agent_internal.tick()")
        assert await claiming.tick(conn) == Tick(done=False, due=None, ready=True)
        assert await states(conn) == ["running"]
        await run_all(other, "commit")
    await claiming.tick(conn)
    assert await states(conn) == ["pending"]


async def test_a_login_without_privileges_cannot_stop_ticks(
    conn: AsyncConnection, dsn: str
) -> None:
    """Advisory locks are open to all logins; the table that a tick locks is not."""
    await add_runs(conn, await desk(conn), None)
    await claim(conn)
    await set_clock(conn, "1 hour")
    async with role(conn) as name, session(dsn, user=name) as other:
        for lock in ("tick", "start", "budget"):
            await value(other, "select pg_advisory_lock(hashtext(%s))", f"walagent.{lock}")
        await refused(other, "select from agent_internal.lock for update", state="42501")
        async with other.transaction(force_rollback=True):
            await refused(other, "lock agent_internal.start_lock in share mode", state="42501")
        async with other.transaction(force_rollback=True):
            await refused(other, "lock agent_internal.tick_lock in share mode", state="42501")
        await claiming.tick(conn)
        assert await states(conn) == ["pending"]


async def test_a_tick_without_anything_due_writes_nothing(conn: AsyncConnection) -> None:
    """Else an idle server would write WAL every few seconds."""
    await add_runs(conn, await desk(conn), None)
    await claim(conn)
    async with conn.transaction():
        assert await claiming.tick(conn) == Tick(done=True, due=None, ready=False)
        assert await value(conn, "select pg_current_xact_id_if_assigned()") is None
    await set_clock(conn, "1 hour")
    assert await claiming.tick(conn) == Tick(done=True, due=None, ready=True)


async def test_blocks_that_a_crash_left_wrong_are_fixed(conn: AsyncConnection) -> None:
    """A block by a run that has ended or is gone."""
    attachment = await desk(conn, "cap=5")
    first, second, third = await add_runs(conn, attachment, "a", "a", "b")
    (held, _) = await claim(conn)
    assert held.run_id == first
    await finish(conn, held)
    await run_all(
        conn,
        f"update agent.run set blocked_by = {first} where id = {second};"
        f"update agent.run set state = 'pending', lease_expires_at = null, blocked_by = 999"
        f" where id = {third}",
    )
    assert await claim(conn) == []
    await claiming.tick(conn)
    assert ids(await claim(conn)) == [second, third]


async def test_tick_wakes_the_workers(conn: AsyncConnection, dsn: str) -> None:
    """Whoever listens hears that there is work."""
    await add_runs(conn, await desk(conn), None)
    await claim(conn)
    await set_clock(conn, "1 minute")
    async with session(dsn) as ears:
        await run_all(ears, "listen walagent_runs")
        await claiming.tick(conn)
        heard = [n.channel async for n in ears.notifies(timeout=5, stop_after=1)]
    assert heard == ["walagent_runs"]
