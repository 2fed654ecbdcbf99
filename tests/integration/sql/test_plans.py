"""Plans that a connection made while the tables were known to be empty, and keeps."""

from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, run_all, value
from tests.helpers.queue import NOTHING, add_runs, claim
from walagent.domain.run import RunState, StepKind
from walagent.message import Usage
from walagent.runs.recorder import Recorder
from walagent.store import runs
from walagent.store.runs import NewStep, Record
from walagent.store.sessions.connections import open_pool

REPLY = NewStep(0, StepKind.REPLY, {"text": "hello"}, Usage(100, output_tokens=10), 0.25)


async def test_no_plan_for_empty_tables_scans_the_steps(conn: AsyncConnection, dsn: str) -> None:
    """Until the next ANALYZE, such a plan would read all steps for each run that is claimed."""
    await run_all(conn, DESK)
    await run_all(conn, "analyze agent.step")
    attachment = await attach(conn, "")
    async with open_pool(dsn, size=1, application="worker") as pool:
        recorder = Recorder(pool)
        for _ in range(12):  # a generic plan is chosen after five
            await add_runs(conn, attachment, *[None] * 10)
            async with pool.connection() as worker:
                claims = await claim(worker, 10)
            for each in claims[:2]:
                async with pool.connection() as worker:
                    await runs.record_step(worker, each, REPLY)
            for each in claims[2:]:
                await recorder.record(Record(each, RunState.SUCCEEDED, NOTHING, "done", last=REPLY))
            async with pool.connection() as worker:
                await worker.execute("select pg_stat_force_next_flush()")
    assert await value(conn, "select count(*) from agent.step") == 120
    read = "select seq_tup_read from pg_stat_user_tables where relid = 'agent.step'::regclass"
    assert await value(conn, read) <= 120  # the count above
