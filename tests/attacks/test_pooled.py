"""Identities behind a pooler that shares a session between the transactions of its clients."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from psycopg import AsyncConnection, Error

from tests.helpers.database import value
from tests.helpers.people import application, person
from tests.helpers.pooler import pgbouncer

WHO = "select concat_ws('/', agent.current_tenant(), agent.current_principal())"
BACKEND = "select pg_backend_pid()"


@asynccontextmanager
async def clients(
    app: AsyncConnection, folder: Path
) -> AsyncIterator[tuple[AsyncConnection, AsyncConnection]]:
    """Two clients of one pool, of which the second gets the session that the first one had."""
    with pgbouncer(app.info.dsn, folder, mode="transaction") as through:
        async with (
            await AsyncConnection.connect(through, autocommit=True, prepare_threshold=None) as one,
            await AsyncConnection.connect(through, autocommit=True, prepare_threshold=None) as two,
        ):
            assert await value(one, BACKEND) == await value(two, BACKEND)
            yield one, two


async def test_the_next_client_of_a_session_is_nobody(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """However the transaction before it ended: committed, rolled back, failed, with savepoints."""
    ann = await person(conn, "ann", "viewer", tenant="acme")
    ben = await person(conn, "ben", "admin", tenant="zeta")
    async with application(conn, dsn) as app, clients(app, tmp_path) as (one, two):
        before = await value(two, WHO)
        for end in ("commit", "rollback", "savepoint a; release a; commit"):
            await one.execute("begin")
            await one.execute("select agent.act_as(%s)", [ann])
            assert await value(one, WHO) == "acme/ann"
            await one.execute(end.encode())
            assert await value(two, WHO) == before
        await one.execute("begin")
        await one.execute("select agent.act_as(%s)", [ann])
        with pytest.raises(Error):
            await one.execute("select 1 / 0")
        await one.execute("rollback")
        assert await value(two, WHO) == before
        # A savepoint that is rolled back takes its identity with it, and no other.
        await one.execute("begin")
        await one.execute("select agent.act_as(%s)", [ann])
        await one.execute("savepoint a")
        await one.execute("select agent.act_as(%s)", [ben])
        assert await value(one, WHO) == "zeta/ben"
        await one.execute("rollback to a")
        assert await value(one, WHO) == "acme/ann"
        await one.execute("commit")
        # A statement of its own is a transaction.
        await two.execute("select agent.act_as(%s)", [ben])
        assert await value(two, WHO) == before


async def test_an_identity_that_is_kept_is_worthless(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """In the setting of the shared session: those who follow are nobody, and not its principal."""
    ann = await person(conn, "ann", "viewer", tenant="acme")
    ben = await person(conn, "ben", tenant="zeta")
    async with application(conn, dsn) as app, clients(app, tmp_path) as (one, two):
        await one.execute("begin")
        await one.execute("select agent.act_as(%s)", [ann])
        kept = await value(one, "select current_setting('walagent.identity')")
        await one.execute("select set_config('walagent.identity', %s, false)", [kept])
        await one.execute("commit")
        assert await value(two, WHO) == ""
        assert await value(two, "select count(*) from agent.thread") == 0
        await two.execute("begin")
        await two.execute("select agent.act_as(%s)", [ben])
        assert await value(two, WHO) == "zeta/ben"
        await two.execute("commit")
        assert await value(one, WHO) == ""
