"""Old runs go, in batches; nothing else does."""

from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, rows, run_all, value
from tests.helpers.queue import add_runs, claim, finish, set_clock
from walagent.run import RunState, StepKind
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
        "insert into agent.merged_change"
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
    for table in ("step", "merged_change", "approval"):
        assert await column(conn, f"select run_id from agent.{table}") == [held[2].run_id]
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
