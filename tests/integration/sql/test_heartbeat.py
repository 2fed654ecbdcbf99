"""Heartbeats: leases that go on, and runs that a worker must let go of."""

from datetime import timedelta

from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, rows, run_all, session, value
from tests.helpers.queue import LEASE, add_runs, claim, finish, set_clock
from walagent.domain.run import Claim
from walagent.store import claiming


async def held_runs(conn: AsyncConnection, count: int = 3) -> list[Claim]:
    """Some runs in our hands."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), *[None] * count)
    return await claim(conn)


UPDATES = """
select pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid)
  from pg_class where oid = 'agent.run'::regclass
"""


async def test_a_heartbeat_extends_every_lease_of_the_worker(conn: AsyncConnection) -> None:
    """One statement for all of them, and nothing to let go of."""
    held = await held_runs(conn)
    await set_clock(conn, "20 seconds")
    assert await claiming.heartbeat(conn, "w1", held, LEASE) == {}
    await set_clock(conn, "45 seconds")
    await value(conn, "select agent_internal.tick()")
    assert set(await column(conn, "select state::text from agent.run")) == {"running"}
    await set_clock(conn, "51 seconds")
    await value(conn, "select agent_internal.tick()")
    assert set(await column(conn, "select state::text from agent.run")) == {"pending"}


async def test_a_heartbeat_adds_no_entry_to_an_index(conn: AsyncConnection) -> None:
    """A run whose model takes minutes would have dozens in each."""
    (held,) = await held_runs(conn, 1)
    async with conn.transaction():
        before = await rows(conn, UPDATES)
        assert await claiming.heartbeat(conn, "w1", [held], LEASE) == {}
        ((updated, hot),), ((updated_before, hot_before),) = await rows(conn, UPDATES), before
        assert (updated - updated_before, hot - hot_before) == (1, 1)


async def test_a_heartbeat_tells_what_the_worker_has_lost(conn: AsyncConnection) -> None:
    """Taken over, ended, pruned: not to be worked on; cancelled: to be ended."""
    taken, ended, pruned, cancelled, kept = held = await held_runs(conn, 5)
    await run_all(
        conn,
        f"update agent.run set lease = 2, worker = 'w2' where id = {taken.run_id};"
        f"delete from agent.run where id = {pruned.run_id};"
        f"select agent.cancel({cancelled.run_id})",
    )
    await finish(conn, ended)
    assert await claiming.heartbeat(conn, "w1", held, LEASE) == {
        taken.run_id: False,
        ended.run_id: False,
        pruned.run_id: False,
        cancelled.run_id: True,
    }
    assert kept.run_id not in await claiming.heartbeat(conn, "w1", held, LEASE)


async def test_a_heartbeat_extends_no_lease_of_another_worker(conn: AsyncConnection) -> None:
    """An old lease number extends nothing."""
    (held,) = await held_runs(conn, 1)
    await run_all(conn, "update agent.run set lease = 2")
    before = await value(conn, "select lease_expires_at from agent.run")
    await claiming.heartbeat(conn, "w1", [held], timedelta(hours=1))
    assert await value(conn, "select lease_expires_at from agent.run") == before


async def test_a_heartbeat_waits_for_no_write(conn: AsyncConnection, dsn: str) -> None:
    """A run in the middle of its own write-back is passed over; the others are extended."""
    writing, other = held = await held_runs(conn, 2)
    async with session(dsn) as worker:
        await run_all(worker, "begin")
        fence = "select agent_internal.begin_write(%s, %s)"
        await worker.execute(fence, [writing.run_id, writing.lease])
        await run_all(conn, "set lock_timeout = '1s'")
        await set_clock(conn, "20 seconds")
        assert await claiming.heartbeat(conn, "w1", held, LEASE) == {}
        await run_all(worker, "rollback")
    extended = (
        "select id from agent.run where lease_expires_at > agent_internal.now() + interval '25 s'"
    )
    assert await column(conn, extended) == [other.run_id]


async def test_a_worker_is_seen_while_it_beats(conn: AsyncConnection) -> None:
    """Registered, seen, gone; workers that were not seen for a day are forgotten."""
    await claiming.register_worker(conn, "w1", 10, "1.0")
    await run_all(conn, "update agent.worker set seen_at = seen_at - interval '1 hour'")
    await claiming.heartbeat(conn, "w1", [], LEASE)
    assert await value(conn, "select seen_at > now() - interval '1 minute' from agent.worker")
    await claiming.register_worker(conn, "w2", 10, "1.0")
    await run_all(conn, "update agent.worker set seen_at = seen_at - interval '2 days'")
    await claiming.register_worker(conn, "w3", 10, "1.0")
    await claiming.forget_worker(conn, "w3")
    assert await column(conn, "select name from agent.worker") == []
