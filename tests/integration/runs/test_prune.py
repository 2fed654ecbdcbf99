"""Old runs go, in batches; nothing else does."""

import asyncio
from datetime import timedelta

from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, rows, run_all, value
from tests.helpers.queue import add_runs, claim, finish, set_clock
from walagent.domain.run import RunState, StepKind
from walagent.runs import pruning
from walagent.store import runs
from walagent.store.runs import NewStep


async def test_only_runs_that_ended_long_ago_are_removed(conn: AsyncConnection) -> None:
    """With their steps, questions and merged changes; what waits stays, however old."""
    await run_all(conn, DESK)
    attachment = await attach(conn, "")
    await add_runs(conn, attachment, *[None] * 3)
    held = await claim(conn)
    for one in held:
        await runs.record_step(conn, one, NewStep(0, StepKind.NOTE, {}))
    await run_all(
        conn,
        "insert into agent_internal.merged_change"
        " select attachment_id, generation, commit_lsn, ordinal + 1, id, change from agent.run;"
        "insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at,"
        " state) select id, 'c', 't', '{}', '', 'x', now(), 'expired' from agent.run",
    )
    await finish(conn, held[0])
    await finish(conn, held[1], RunState.FAILED)
    await set_clock(conn, "10 days")
    await add_runs(conn, attachment, None)
    (late,) = await claim(conn)
    await finish(conn, late)
    assert await value(conn, "select agent.prune('30 days')") == 0
    assert await value(conn, "select agent.prune('9 days')") == 2
    left = [held[2].run_id, late.run_id]
    assert await column(conn, "select id from agent.run order by 1") == left
    for table in ("agent.step", "agent_internal.merged_change", "agent.approval"):
        assert await column(conn, f"select run_id from {table}") == [held[2].run_id]
    assert len(await rows(conn, "select * from agent.attachment_version")) == 1


async def test_a_batch_is_no_larger_than_asked_for(conn: AsyncConnection) -> None:
    """The oldest go first; a caller repeats until nothing is left."""
    await run_all(conn, DESK)
    added = await add_runs(conn, await attach(conn, ""), *[None] * 5)
    for one in await claim(conn):
        await finish(conn, one)
    await set_clock(conn, "1 day")
    assert await value(conn, "select agent.prune('1 hour', 2)") == 2
    assert await column(conn, "select id from agent.run order by 1") == added[2:]
    assert await value(conn, "select agent.prune('1 hour', 2)") == 2
    assert await value(conn, "select agent.prune('1 hour', 2)") == 1
    assert await value(conn, "select agent.prune('1 hour', 2)") == 0


WEEK = timedelta(days=7)
DECIDED = """
insert into agent.approval
       (run_id, call_id, tool, arguments, digest, run_as, expires_at, state, decided_by)
select id, 'c', 't', '{}', '', 'x', now(), 'rejected', 'ann' from agent.run where id = %s
"""
REVIEWED = """
insert into agent.step (run_id, seq, kind, content)
values (%s, 0, 'result', '{"call_id": "c", "reviewed_by": "ann"}')
"""


async def old_runs(conn: AsyncConnection, count: int) -> list[int]:
    """Runs that ended 30 days ago."""
    await run_all(conn, DESK)
    added = await add_runs(conn, await attach(conn, ""), *[None] * count)
    for one in await claim(conn, count):
        await finish(conn, one)
    await set_clock(conn, "30 days")
    return added


async def test_what_a_person_has_decided_is_kept_by_a_time_of_its_own(
    conn: AsyncConnection,
) -> None:
    """With the run around it; for ever, unless somebody says for how long."""
    approved, reviewed, plain = await old_runs(conn, 3)
    await conn.execute(DECIDED, [approved])
    await conn.execute(REVIEWED, [reviewed])
    assert await value(conn, "select agent.prune('7 days')") == 1
    assert await column(conn, "select id from agent.run order by 1") == [approved, reviewed]
    assert plain not in await column(conn, "select run_id from agent.step")
    keep = "select agent.prune('7 days', keep_decided => %s::interval)"
    assert await value(conn, keep, "31 days") == 0
    assert await value(conn, keep, "29 days") == 2


async def test_every_old_run_is_found_among_those_that_stay(conn: AsyncConnection) -> None:
    """Also behind whole batches of such as are kept; and the look ends where the young begin."""
    added = await old_runs(conn, 9)
    for kept in added[1:6]:
        await conn.execute(DECIDED, [kept])
    young = await add_runs(conn, await attach(conn, "name=young"), *[None] * 5)
    await conn.execute(
        "update agent.run set created_at = agent_internal.now() where id = any (%s)", [young]
    )
    assert await pruning.prune(conn, WEEK, None, batch=2) == 4
    assert await column(conn, "select id from agent.run order by 1") == [*added[1:6], *young]
    assert await rows(
        conn, "select * from agent_internal.prune_some('7 days', null, %s, 2)", added[-1]
    ) == [(0, None)]


async def test_a_run_that_somebody_holds_is_left_for_the_next_time(
    conn: AsyncConnection, dsn: str
) -> None:
    """Nobody waits."""
    first, second = await old_runs(conn, 2)
    async with await AsyncConnection.connect(dsn) as other:
        await other.execute("select from agent.run where id = %s for update", [first])
        async with asyncio.timeout(10):
            assert await pruning.prune(conn, WEEK, None) == 1
        await other.rollback()
    assert await column(conn, "select id from agent.run") == [first] != [second]
    assert await pruning.prune(conn, WEEK, None) == 1


async def test_workers_and_rows_of_backfills_that_are_gone_are_removed(
    conn: AsyncConnection,
) -> None:
    """Those that are there still stay."""
    await run_all(
        conn,
        "insert into agent.worker (name, seen_at)"
        " values ('dead', now() - interval '2 days'), ('alive', now() - interval '2 hours');"
        "insert into agent.backfill (attachment_id, version, state)"
        " values (1, 1, 'running'), (2, 1, 'done');"
        "insert into agent_internal.backfill_seen (attachment_id, key)"
        " values (1, 'a'), (2, 'b'), (3, 'c')",
    )
    await pruning.prune(conn, WEEK, None)
    assert await column(conn, "select name from agent.worker") == ["alive"]
    assert await column(conn, "select attachment_id from agent_internal.backfill_seen") == [1]
    await pruning.prune(conn, timedelta(hours=1), None)
    assert await column(conn, "select name from agent.worker") == []


async def test_what_goes_with_a_run_is_found_by_an_index(conn: AsyncConnection) -> None:
    """Else each run that is removed would read a whole table."""
    without = await column(
        conn,
        "select c.conrelid::regclass::text from pg_constraint c"
        "  where c.confrelid = 'agent.run'::regclass and c.contype = 'f'"
        "    and not exists (select from pg_index i where i.indrelid = c.conrelid"
        "                      and i.indpred is null and i.indkey[0] = c.conkey[1])",
    )
    assert without == []
