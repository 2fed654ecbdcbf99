"""A statement that the server cannot cancel: it is waited for no longer than its limit allows."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import DEADLINE, run_all, until
from walagent.ask.plan import PlanStep, StepType
from walagent.ask.statements import Statements
from walagent.errors import DatabaseLostError, StatementRefusedError
from walagent.guard.query import Guard
from walagent.guard.read_limits import ReadLimits
from walagent.store.sessions.connections import connect

# PostgreSQL checks for no interrupt in translate(): 3 * 10^8 comparisons, some two seconds.
DEAF = """
select length(translate(a, b, ''))
  from (select string_agg(repeat('a', 1000), '') from generate_series(1, 150)) x (a),
       (select string_agg(repeat('b', 1000), '') from generate_series(1, 2)) y (b)
"""
LIMITS = ReadLimits(seconds=0.3)


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement outlasts it on any machine."""
    monkeypatch.setattr("walagent.guard.deadline.GRACE", 0.1)


@asynccontextmanager
async def gone(conn: AsyncConnection, pid: int) -> AsyncIterator[None]:
    """Wait at the end until a backend is gone, so that its database can be dropped."""
    try:
        yield
    finally:
        left = "select not exists (select from pg_stat_activity where pid = %s)"
        await until(conn, left, pid, deadline=180)


@pytest.mark.slow
@pytest.mark.usefixtures("short_grace")
async def test_a_statement_that_cannot_be_canceled_is_abandoned(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """The answer comes soon after the limit, and the connection is closed, not used again."""
    async with gone(conn, reader.info.backend_pid):
        started = time.monotonic()
        with pytest.raises(StatementRefusedError, match="timeout") as caught:
            await Guard(reader, limits=LIMITS).read(DEAF)
        assert time.monotonic() - started < 7
        assert caught.value.sqlstate == "57014"
        assert reader.closed


@pytest.mark.slow
@pytest.mark.usefixtures("short_grace")
async def test_who_cancels_does_not_wait_for_the_server(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """A person's Ctrl-C, or the timeout of a tool."""
    async with gone(conn, reader.info.backend_pid):
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await Guard(reader).read(DEAF)
        assert time.monotonic() - started < 5
        assert reader.closed


async def test_a_canceled_statement_keeps_its_connection(
    reader: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the server acts on the cancel request; a loaded machine takes its time."""
    monkeypatch.setattr("walagent.guard.deadline.GRACE", DEADLINE)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await Guard(reader).read("select count(*) from generate_series(1, 200000000)")
    assert list(await Guard(reader).read("select 1")) == [(1,)]


async def test_a_closed_connection_is_replaced(
    reader: AsyncConnection, conn: AsyncConnection, dsn: str
) -> None:
    """By one of its own; and without one, the database counts as lost."""
    opened: list[AsyncConnection] = []
    login = make_conninfo(dsn, user=reader.info.user)

    async def opening() -> Guard:
        opened.append(await connect(login))
        return Guard(opened[-1])

    statements = Statements([Guard(reader)], opening=opening, most=1)
    await reader.close()
    step = PlanStep(id="a", type=StepType.SQL, description="", tool_input={"query": "select 1"})
    assert list((await statements.carry_out(step, {})).rows) == [(1,)]
    assert list(await statements.read("select 2")) == [(2,)]
    assert len(opened) == 1
    await run_all(conn, f"select pg_terminate_backend({opened[0].info.backend_pid}, 5000)")
    assert list(await statements.read("select 3")) == [(3,)]
    await opened[1].close()
    without = Statements([Guard(reader)])
    with pytest.raises(DatabaseLostError):
        await without.read("select 4")
    with pytest.raises(DatabaseLostError):
        await without.carry_out(step, {})
