"""Settings of a session, with and without a pooler between walagent and the server."""

import asyncio
import signal
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection, errors
from psycopg.conninfo import make_conninfo

from tests.helpers.database import role, run_all, value
from tests.helpers.pooler import ALIAS, pgbouncer
from tests.integration.cli.user import User, empty_database
from walagent.errors import PreconditionError
from walagent.store.errors import is_passing
from walagent.store.install.pooling import check_pooling
from walagent.store.sessions.connections import connect, open_pool

SETTINGS = "select current_setting('transaction_isolation')"


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_connection_reads_what_is_committed_whatever_the_default_is(
    conn: AsyncConnection, dsn: str, isolation: str
) -> None:
    """A default of the role or the database does not count, also after a tool was cleaned up."""
    async with role(conn, "login superuser") as name:
        await run_all(conn, f"alter role {name} set default_transaction_isolation = '{isolation}'")
        async with await connect(make_conninfo(dsn, user=name)) as own:
            assert await value(own, SETTINGS) == "read committed"
            await run_all(own, "set default_transaction_isolation = 'serializable'")
            await run_all(own, "reset all")
            assert await value(own, SETTINGS) == "read committed"
        async with (
            open_pool(make_conninfo(dsn, user=name), size=1, application="test") as pool,
            pool.connection() as own,
        ):
            assert await value(own, SETTINGS) == "read committed"


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_that_shares_sessions_is_refused(
    server: str, tmp_path: Path, mode: str
) -> None:
    """By what executes runs or holds locks, with what to use instead; `doctor` says it, too."""
    with empty_database(server) as dsn, pgbouncer(dsn, tmp_path, mode=mode) as through:
        user = User(tmp_path, through)
        for command in ("run", "worker", "init", "migrate", "doctor"):
            refusal = user.types(command)
            assert refusal.code == 3, refusal
            assert "pool_mode = session" in refusal.out + refusal.err


async def test_a_pooler_of_sessions_is_accepted(dsn: str, tmp_path: Path) -> None:
    """Each connection has a session of its own."""
    with pgbouncer(dsn, tmp_path, mode="session") as through:
        async with await connect(through) as conn:
            await check_pooling(conn, through)


@pytest.mark.slow
async def test_the_name_that_a_pooler_has_for_a_database_is_not_taken_for_its_name(
    server: str, tmp_path: Path
) -> None:
    """The slot belongs to the database, whatever the pooler calls it."""
    with empty_database(server) as dsn, pgbouncer(dsn, tmp_path, mode="session") as through:
        aliased = make_conninfo(through, dbname=ALIAS)
        User(tmp_path, aliased, {"DATABASE_REPLICATION_URL": dsn}).types("init").worked()
        with psycopg.connect(dsn) as conn:
            (login,) = conn.execute("select agent_internal.tools_login()").fetchone() or ("",)
        direct = {"DATABASE_TOOLS_URL": make_conninfo(dsn, user=login)}
        user = User(tmp_path, aliased, {"DATABASE_REPLICATION_URL": dsn, **direct})
        assert "belongs to database" not in user.types("doctor").out
        user.types("wal", "drop-slot", "--yes").worked()
        user.types("init", "--new-slot").worked()
        with user.starts("run", "--http", "off") as daemon:
            daemon.says('"reader.streaming"')
            daemon.ends(signal.SIGTERM)


@pytest.mark.slow
async def test_a_pooler_that_replaces_the_login_for_tools_is_named(
    server: str, tmp_path: Path
) -> None:
    """Tools would be executed as the user that the pooler names."""
    with empty_database(server) as dsn, pgbouncer(dsn, tmp_path, mode="session") as through:
        User(tmp_path, dsn).types("init").worked()
        user = User(tmp_path, through, {"DATABASE_REPLICATION_URL": dsn})
        for command in (("doctor",), ("run", "--http", "off")):
            refused = user.types(*command)
            assert refused.code == 3
            assert "a pooler replaces the user" in refused.out + refused.err


async def test_a_direct_connection_is_accepted(dsn: str) -> None:
    """No second connection is needed to see it."""
    async with await connect(dsn) as conn:
        await check_pooling(conn, "host=nowhere.invalid")
        assert conn.prepare_threshold == 5


async def test_nothing_is_prepared_by_name_behind_a_pooler(dsn: str, tmp_path: Path) -> None:
    """So that a command that only reads works through one."""

    async def read(conn: AsyncConnection, number: int) -> None:
        for _ in range(20):
            assert await value(conn, f"select {number} + %s", number) == 2 * number
            await asyncio.sleep(0)

    with pgbouncer(dsn, tmp_path, mode="transaction") as through:
        connections = [await connect(through) for _ in range(6)]
        await asyncio.gather(*(read(conn, n) for n, conn in enumerate(connections)))
        with pytest.raises(PreconditionError):
            await check_pooling(connections[0], through)
        for conn in connections:
            await conn.close()


async def test_a_pooler_that_rejects_settings_is_named(dsn: str, tmp_path: Path) -> None:
    """The daemon would otherwise wait for a server that is up."""
    with (
        pgbouncer(dsn, tmp_path, mode="transaction", options=False) as through,
        pytest.raises(PreconditionError) as caught,
    ):
        await connect(through)
    assert "PgBouncer" in caught.value.hint


async def test_a_lost_statement_of_the_driver_is_no_failure_of_a_run(conn: AsyncConnection) -> None:
    """The driver's statements are prepared again; one that a tool names is the tool's error."""
    for name, passing in (('"_pg3_7"', True), ("mine", False)):
        with pytest.raises(errors.InvalidSqlStatementName) as lost:
            await conn.execute(f"execute {name}".encode())
        assert is_passing(lost.value) is passing
        await run_all(conn, f"prepare {name} as select 1")
        with pytest.raises(errors.DuplicatePreparedStatement) as again:
            await run_all(conn, f"prepare {name} as select 1")
        assert is_passing(again.value) is passing


@pytest.mark.slow
async def test_a_connection_that_was_closed_while_it_rested_is_not_given_out(
    conn: AsyncConnection, dsn: str
) -> None:
    """Whoever closed it: a server, a pooler, a firewall."""
    async with open_pool(dsn, size=1, application="rested") as pool:
        async with pool.connection() as own:
            first = own.info.backend_pid
        await value(conn, "select pg_terminate_backend(%s, 5000)", first)
        await asyncio.sleep(2.1)
        async with pool.connection() as own:
            assert await value(own, "select pg_backend_pid()") != first


async def test_a_session_of_the_application_keeps_its_path(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Through a pooler, a command that lists has the session that the application has next."""
    await run_all(conn, "create table public.ticket (id bigint primary key)")
    with pgbouncer(dsn, tmp_path, mode="transaction") as through:
        User(tmp_path, through).types("agents", "list").worked()
        async with await AsyncConnection.connect(through, autocommit=True) as application:
            await application.execute("insert into ticket values (1)")
            assert await value(application, "show search_path") == '"$user", public'


@pytest.mark.parametrize(
    ("path", "schemas"), [("", []), ("public", ["public"]), ('"a,b",nowhere', ["a,b"])]
)
async def test_names_that_people_give_are_found_by_the_path_of_their_login(
    conn: AsyncConnection, dsn: str, path: str, schemas: list[str]
) -> None:
    """Of ours, none is: the session has another path."""
    await run_all(conn, 'create schema "a,b"')
    async with await connect(make_conninfo(dsn, options=f"-csearch_path={path}")) as own:
        assert await value(own, "show search_path") == "pg_catalog,pg_temp"
        assert await value(own, "select agent_internal.schemas_of_caller()::text[]") == schemas
