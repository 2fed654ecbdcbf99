"""What acts for a login or a token gives code of others nothing that these do not have."""

from contextlib import AsyncExitStack

import pytest
from psycopg import AsyncConnection, errors
from psycopg.conninfo import make_conninfo

from tests.helpers.database import role, run_all, session, value
from tests.helpers.people import person
from walagent.errors import PreconditionError
from walagent.guard.outlet import open_outlet
from walagent.guard.read_limits import ReadLimits
from walagent.store.sessions.acting import identity_of_token
from walagent.store.sessions.connections import connect, open_pool
from walagent.store.sessions.tool_connections import open_tool_connections
from walagent.store.tool_calls import read_as
from walagent.store.trampolines import make_trampoline

READ = "select agent_internal.read_as_member(%s, 'select 1', '')"
MAKE = "select agent_internal.make_trampoline_of_member(%s)"
WHO = (
    "select pg_catalog.concat_ws('/', agent.current_tenant(), agent.current_principal(),"
    " agent.has_role('viewer'), agent.has_role('admin'))"
)


@pytest.mark.parametrize("statement", [READ, MAKE])
async def test_in_a_trial_nobody_reads_as_a_role_of_the_login(
    conn: AsyncConnection, statement: str
) -> None:
    """The session is that of who tries, often a superuser; the code in it is others'."""
    async with role(conn, "nologin") as name:
        await make_trampoline(conn, name)
        async with conn.transaction(force_rollback=True):
            await value(conn, statement, name)
        async with conn.transaction(force_rollback=True):
            await run_all(conn, "insert into agent_internal.trial default values")
            with pytest.raises(errors.InsufficientPrivilege):
                await value(conn, statement, name)


@pytest.mark.parametrize("statement", [READ, MAKE])
async def test_a_member_that_cannot_become_the_role_does_not_read_as_it(
    conn: AsyncConnection, dsn: str, statement: str
) -> None:
    """Since PostgreSQL 16 a membership can be without that."""
    if conn.info.server_version < 160000:
        pytest.skip("a member can become the role before PostgreSQL 16")
    async with role(conn, "nologin") as name, role(conn) as member:
        await make_trampoline(conn, name)
        await run_all(conn, f"select agent.grant_asker('{member}'); grant {name} to {member}")
        async with session(dsn, user=member) as login:
            async with login.transaction(force_rollback=True):
                await value(login, statement, name)
            await run_all(conn, f"grant {name} to {member} with set false, inherit false")
            with pytest.raises(errors.InsufficientPrivilege):
                await value(login, statement, name)


@pytest.mark.parametrize("derived", [True, False])
async def test_a_login_for_tools_is_nobody_whatever_its_name(
    conn: AsyncConnection, dsn: str, *, derived: bool
) -> None:
    """A request that is signed for nobody, or code that forgets who it acts for."""
    async with role(conn) as tools, role(conn, "nologin") as app, AsyncExitStack() as stack:
        await run_all(conn, f"select agent.grant_viewer('{app}')")
        await make_trampoline(conn, app)
        pool = await stack.enter_async_context(open_pool(dsn, size=1, application="test"))
        given = "" if derived else make_conninfo(dsn, user=tools)
        calls = await stack.enter_async_context(
            open_tool_connections(pool, lambda: dsn, tools_dsn=lambda: given)
        )
        async with calls.connection() as used:
            found = await read_as(used, app, WHO, None)
    assert "f/f" in str(found)
    assert "default" not in str(found)


async def test_a_question_has_the_scopes_of_its_token(conn: AsyncConnection, dsn: str) -> None:
    """A policy that asks for them shows no more than on the session of who asks."""
    token = await person(conn, "ann", "admin", scopes=("read", "post"))
    asked = "select agent.has_scope('approve')::text || agent.has_scope('post')::text as can"
    async with role(conn, "nologin") as reader, AsyncExitStack() as stack:
        await run_all(conn, f"select agent.grant_viewer('{reader}')")

        async def connecting() -> AsyncConnection:
            own = await connect(dsn, identity=identity_of_token(token))
            return await stack.enter_async_context(own)

        outlet = await open_outlet(stack, await connecting(), reader, connecting=connecting)
        assert outlet is not None
        found = [row async for row in outlet.stream(asked, ReadLimits(), "public")]
    assert "falsetrue" in str(found)


MORE = (
    "grant {0} to {1}",
    "grant select on salary to {1}",
    "grant select (what) on salary to {1}",
    "create policy hers on salary to {1} using (true)",
    "alter table salary owner to {1}",
)


@pytest.mark.parametrize("more", ["", *MORE])
async def test_a_login_that_reads_more_than_the_role_is_not_used_itself(
    conn: AsyncConnection, dsn: str, more: str
) -> None:
    """Code of the tables' owners would set its role back, and read all that it may."""
    async with role(conn) as ada, role(conn, "nologin") as reader, role(conn, "nologin") as other:
        await run_all(
            conn,
            f"create table salary (what text); grant {reader} to {ada};"
            f"grant usage on schema public to {ada}; {more.format(other, ada) or 'select'}",
        )
        try:
            async with session(dsn, user=ada) as login, AsyncExitStack() as stack:

                async def connecting() -> AsyncConnection:
                    return await stack.enter_async_context(session(dsn, user=ada))

                async def opened() -> object:
                    return await open_outlet(stack, login, reader, connecting=connecting)

                if not more:
                    assert await opened() is None
                    return
                with pytest.raises(PreconditionError, match="can read more than") as refused_:
                    await opened()
                assert f"select agent.grant_asker('{ada}')" in refused_.value.hint
                await run_all(conn, f"select agent.grant_asker('{ada}')")
                assert await opened() is not None
        finally:
            await run_all(conn, "drop table salary")
