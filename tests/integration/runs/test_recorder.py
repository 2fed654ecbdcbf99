"""Records of many runs, which share a transaction while one is on its way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, rows, run_all, until, value
from tests.helpers.queue import NOTHING, add_runs, claim, states
from walagent.domain.run import Claim, RunState, StepKind
from walagent.errors import DatabaseLostError, LeaseLostError, StepTakenError, WalagentError
from walagent.message import Usage
from walagent.runs.recorder import Recorder
from walagent.store import runs
from walagent.store.runs import NewStep, Record, Spent
from walagent.store.sessions.connections import Pool, open_pool

REPLY = NewStep(0, StepKind.REPLY, {"text": "hello"}, Usage(100, output_tokens=10), 0.25)


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[Pool]:
    """Connections as a worker has them."""
    async with open_pool(dsn, size=4, application="recorder") as opened:
        yield opened


def ending(claim: Claim, last: NewStep = REPLY) -> Record:
    """The end of a run with its last reply."""
    return Record(claim, RunState.SUCCEEDED, NOTHING, "done", last=last)


async def claimed(conn: AsyncConnection, count: int) -> list[Claim]:
    """So many runs, claimed."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), *map(str, range(count)))
    return await claim(conn)


@asynccontextmanager
async def no_steps(conn: AsyncConnection) -> AsyncIterator[None]:
    """Let each statement that records a step wait."""
    async with conn.transaction():
        await conn.execute("lock table agent.step in share mode")
        yield


WAITS = "select exists (select from pg_locks where not granted)"


async def commits(conn: AsyncConnection) -> int:
    """Transactions that have written a step."""
    return await value(conn, "select count(distinct xmin::text) from agent.step")


async def test_what_is_ready_meanwhile_shares_the_next_transaction(
    conn: AsyncConnection, pool: Pool
) -> None:
    """The first goes at once; all that become ready before it has committed go with the second."""
    claims = await claimed(conn, 20)
    recorder = Recorder(pool)
    async with no_steps(conn):
        waiting = [asyncio.create_task(recorder.record(ending(claims[0])))]
        await until(conn, WAITS)
        waiting += [asyncio.create_task(recorder.record(ending(each))) for each in claims[1:]]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
    assert await asyncio.gather(*waiting) == [False] * 20
    assert await states(conn) == ["succeeded"] * 20
    assert await commits(conn) == 2
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_one_that_is_refused_raises_why_and_the_others_are_recorded(
    conn: AsyncConnection, pool: Pool
) -> None:
    """A lost lease, a step that is there already, a value that cannot be stored."""
    blocker, lost, taken, bad, worse, *fine = await claimed(conn, 7)
    await run_all(conn, f"update agent.run set lease = lease + 1 where id = {lost.run_id}")
    await runs.record_step(conn, taken, REPLY)
    recorder = Recorder(pool)
    unstorable = [
        Record(each, RunState.SUCCEEDED, Spent(tokens, None), last=REPLY)
        for each, tokens in ((bad, 1 << 63), (worse, 1 << 70))  # too large for bigint; for JSON
    ]
    records = [ending(blocker), ending(lost), ending(taken), *unstorable, *map(ending, fine)]
    async with no_steps(conn):
        waiting = [asyncio.create_task(recorder.record(record)) for record in records]
        await until(conn, WAITS)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert outcomes[0] is False
    assert isinstance(outcomes[1], LeaseLostError)
    assert isinstance(outcomes[2], StepTakenError)
    assert isinstance(outcomes[3], WalagentError)
    assert isinstance(outcomes[4], WalagentError)
    assert outcomes[5:] == [False, False]
    assert await states(conn) == ["succeeded", *["running"] * 4, "succeeded", "succeeded"]


async def test_a_record_whose_task_was_cancelled_before_it_was_sent_is_not_written(
    conn: AsyncConnection, pool: Pool
) -> None:
    """The run was abandoned; the others of its group do not notice."""
    first, abandoned, fine = await claimed(conn, 3)
    recorder = Recorder(pool)
    async with no_steps(conn):
        waiting = [asyncio.create_task(recorder.record(ending(first)))]
        await until(conn, WAITS)
        waiting += [
            asyncio.create_task(recorder.record(ending(each))) for each in (abandoned, fine)
        ]
        await asyncio.sleep(0)
        waiting[1].cancel()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["bool", "CancelledError", "bool"]
    assert await states(conn) == ["succeeded", "running", "succeeded"]


async def test_a_lost_connection_is_raised_to_all_of_its_group(
    conn: AsyncConnection, pool: Pool
) -> None:
    """Nobody knows whether they were recorded: each caller repeats, and finds out."""
    claims = await claimed(conn, 5)
    recorder = Recorder(pool)
    async with no_steps(conn):
        waiting = [asyncio.create_task(recorder.record(ending(each))) for each in claims]
        await until(conn, WAITS)
        await column(
            conn,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'recorder' and state = 'active'",
        )
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {DatabaseLostError}
    assert await asyncio.gather(*(recorder.record(ending(each)) for each in claims)) == [False] * 5
    assert await states(conn) == ["succeeded"] * 5


@pytest.mark.parametrize("held", ["its own row", "the run that it blocks"])
async def test_a_transaction_of_a_person_holds_up_one_run_and_no_other(
    conn: AsyncConnection, pool: Pool, held: str
) -> None:
    """A row can stay locked for minutes, and all runs of the process record together."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), "a", "a", "b", "c", "d")
    first, *others = await claim(conn)
    assert len(others) == 3
    locked = first.run_id if held == "its own row" else first.run_id + 1
    recorder = Recorder(pool)
    async with conn.transaction():
        await conn.execute("select from agent.run where id = %s for update", [locked])
        waiting = asyncio.create_task(recorder.record(ending(first)))
        await until(conn, WAITS)
        async with asyncio.timeout(5):
            for _ in range(2):
                done = [recorder.record(ending(each)) for each in others[:2]]
                assert await asyncio.gather(*done) == [False] * len(done)
                others = others[2:]
        assert not waiting.done()
    assert await waiting is True
    assert await states(conn) == ["succeeded", "pending", *["succeeded"] * 3]
    assert (
        await value(conn, "select blocked_by from agent.run where id = %s", first.run_id + 1)
        is None
    )


async def test_a_call_that_budgets_count_is_settled_alone(
    conn: AsyncConnection, pool: Pool
) -> None:
    """Its budget's row is shared with other processes, and can be locked."""
    (held,) = await claimed(conn, 1)
    await run_all(conn, "insert into agent.budget (name, max_cost) values ('b', 10)")
    await value(
        conn,
        "select agent_internal.reserve(_run => %s, _lease => %s, _call => 0, _model => 'fake',"
        " _tokens => 1000, _cost => 1)",
        held.run_id,
        held.lease,
    )
    end = Record(held, RunState.SUCCEEDED, NOTHING, "done", last=REPLY, reserved=True)
    assert await Recorder(pool).record(end) is False
    spent = "select spent_cost::float8, reserved_cost::float8 from agent.budget_overview"
    assert await rows(conn, spent) == [(0.25, 0)]
    assert await rows(conn, "select * from agent.broken_invariant") == []
