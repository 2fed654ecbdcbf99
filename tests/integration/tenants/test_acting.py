"""Connections on which each transaction acts as a principal."""

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import role, rows, run_all, session, value
from tests.helpers.people import application, person
from walagent.errors import WalagentError
from walagent.store.errors import translating
from walagent.store.sessions.acting import ActingConnection, identity_of_token
from walagent.store.sessions.connections import connect, open_pool

WHO = "select agent.current_tenant(), agent.current_principal()"


async def test_each_transaction_acts_and_nothing_is_left_of_it(
    conn: AsyncConnection, dsn: str
) -> None:
    """A statement of its own, a block, a savepoint, an explicit BEGIN, and another role."""
    token = await person(conn, "ada", "viewer", tenant="acme")
    async with application(conn, dsn) as app, role(conn, "nologin") as other:
        await run_all(
            conn, f"grant {other} to {app.info.user}; select agent.grant_viewer('{other}')"
        )
        place = app.info.dsn
        async with await connect(place, identity=identity_of_token(token)) as ours:
            assert await rows(ours, WHO) == [("acme", "ada")]
            async with ours.transaction():
                assert await rows(ours, WHO) == [("acme", "ada")]
                async with ours.transaction(force_rollback=True):
                    assert await rows(ours, WHO) == [("acme", "ada")]
            await ours.execute(f"set role {other}".encode())
            await ours.execute("begin transaction read only")
            assert await rows(ours, WHO + ", current_user") == [("acme", "ada", other)]
            await ours.rollback()
            assert await value(ours, "select current_user") == other
            await ours.execute("reset role")
            assert isinstance(ours, ActingConnection)
            ours.identity = None
            assert await rows(ours, WHO) == [(None, None)]
        async with (
            open_pool(place, size=2, application="x", identity=identity_of_token(token)) as pool,
            pool.connection() as pooled,
        ):
            assert await rows(pooled, WHO) == [("acme", "ada")]


async def test_a_revoked_token_stops_a_session(conn: AsyncConnection, dsn: str) -> None:
    """At its next transaction; the token is in no error, and no statement that others see."""
    token = await person(conn, "ada", tenant="acme")
    async with application(conn, dsn) as app:
        place = app.info.dsn
        async with await connect(place, identity=identity_of_token(token)) as ours:
            async with ours.transaction():
                await conn.execute("update agent.token set revoked_at = now()")
                assert await rows(ours, WHO) == [("acme", "ada")]
                seen = "select string_agg(query, '') from pg_stat_activity"
                assert token not in str(await value(conn, seen))
            with pytest.raises(WalagentError) as caught, translating():
                await ours.execute("select 1")
            assert caught.value.sqlstate == "WA018"
            assert token not in f"{caught.value!r} {caught.value.__cause__!r}"
            assert isinstance(ours, ActingConnection)
            assert token not in repr(ours.identity)


async def test_an_identity_that_is_copied_into_a_setting_is_nobody(
    conn: AsyncConnection, dsn: str
) -> None:
    """It belongs to one session and transaction."""
    token = await person(conn, "ada", tenant="acme")
    async with application(conn, dsn) as app:
        async with app.transaction():
            await app.execute("select agent.act_as(%s)", [token])
            copied = await value(app, "select current_setting('walagent.identity')")
        await app.execute("select set_config('walagent.identity', %s, false)", [copied])
        assert await rows(app, WHO) == [(None, None)]
        async with session(dsn, user=app.info.user) as other, other.transaction():
            await other.execute("select set_config('walagent.identity', %s, true)", [copied])
            assert await rows(other, WHO) == [(None, None)]
            with pytest.raises(psycopg.Error):
                await other.execute("select agent_internal.assume('acme', 'ada')")
