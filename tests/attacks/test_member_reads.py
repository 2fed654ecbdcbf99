"""What acts for a login or a token gives code of others nothing that these do not have."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from psycopg import AsyncConnection, errors
from psycopg.conninfo import make_conninfo

from tests.helpers.database import role, run_all, session, value
from tests.helpers.people import person
from walagent.domain.tenant import Actor
from walagent.errors import PreconditionError, WalagentError
from walagent.guard.outlet import open_outlet
from walagent.guard.read_limits import ReadLimits
from walagent.store.sessions.acting import identity_of_token
from walagent.store.sessions.connections import connect, open_pool
from walagent.store.sessions.tool_connections import open_tool_connections
from walagent.store.tool_calls import read_as
from walagent.store.trampolines import make_trampoline
from walagent.sync.role_sessions import RoleSessions

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


SALARIES = """
select agent.grant_asker('{ada}'); select agent.grant_asker('{bob}');
grant {analyst} to {ada}, {bob}; grant {salaries} to {ada};
create table salary (what text); insert into salary values ('much');
grant select on salary to {salaries};
create schema bobs authorization {bob}; set role {bob};
grant usage on schema bobs to public;
create table bobs.t (id int); insert into bobs.t values (1);
grant select on bobs.t to {analyst};
create function bobs.peek() returns boolean language plpgsql security definer as $$
begin
    perform pg_advisory_lock(7), {peek};
    return true;
end $$;
alter table bobs.t enable row level security;
create policy p on bobs.t using (bobs.peek()); reset role
"""
OF_BOBS = "select agent_internal.read_as_member(%s, 'select id from bobs.t', '')"
PEEKS = {
    "another role": (
        "agent_internal.read_as_member('{salaries}', 'select what from public.salary', '')",
        "cannot become role",
    ),
    "another trampoline": (
        "agent_internal.make_trampoline_of_member('{salaries}')",
        "cannot become role",
    ),
    "who asks": (
        (
            "set_config('walagent.identity', '', true),"
            " 1 / (select count(*) from agent.current_principal() p where p is not null)"
        ),
        "division by zero",
    ),
}


@pytest.mark.parametrize("peek", PEEKS)
async def test_the_policy_of_another_asker_has_nothing_of_the_person_who_asks(
    conn: AsyncConnection, dsn: str, peek: str
) -> None:
    """Bob may ask, as everybody, and owns a table that the analyst reads; ada asks about it."""
    async with (
        role(conn) as ada,
        role(conn) as bob,
        role(conn, "nologin") as analyst,
        role(conn, "nologin") as salaries,
    ):
        text, refusal = PEEKS[peek]
        names = {"ada": ada, "bob": bob, "analyst": analyst, "salaries": salaries}
        await run_all(conn, SALARIES.format(**names, peek=text.format(**names)))
        try:
            async with session(dsn, user=ada) as login:
                for name in (analyst, salaries):
                    await value(login, MAKE, name)
                with pytest.raises(errors.Error, match=refusal):
                    await value(login, OF_BOBS, analyst)
        finally:
            await run_all(conn, "drop table salary; drop schema bobs cascade")


@pytest.mark.parametrize("signs", [True, False])
async def test_code_beneath_a_question_sees_no_questions(
    conn: AsyncConnection, dsn: str, *, signs: bool
) -> None:
    """It acts for who asks, whose conversations are nothing for it."""
    async with role(conn) as ada, role(conn, "nologin") as analyst, AsyncExitStack() as stack:
        await run_all(
            conn,
            f"select agent.grant_asker('{ada}'); select agent.grant_asker('{analyst}');"
            f"grant {analyst} to {ada}; select agent.create_principal('ada', login => '{ada}')",
        )
        own = await stack.enter_async_context(session(dsn, user=ada))
        await value(own, "select agent_internal.ask('adas', 'What do I earn?')::text")
        assert await value(own, "select count(*) from agent.session") == 1

        async def connecting() -> AsyncConnection:
            token = await value(conn, "select token from agent.create_token('ada')")
            made = connect(dsn, identity=identity_of_token(token)) if signs else None
            if made is None:
                return await stack.enter_async_context(session(dsn, user=ada))
            return await stack.enter_async_context(await made)

        outlet = await open_outlet(stack, await connecting(), analyst, connecting=connecting)
        assert outlet is not None
        text = "select agent.current_principal() as who, count(*) as n from agent.session"
        found = [row async for row in outlet.stream(text, ReadLimits(), "public")]
    assert "ada" in str(found)
    assert "1" not in str(found).replace(ada, "")


async def test_a_trigger_below_a_statement_of_an_admin_administers_nothing(
    conn: AsyncConnection, dsn: str
) -> None:
    """Bob owns the table that a declared mutation writes; a token would outlive its caller's."""
    await person(conn, "ann", "admin")
    async with role(conn) as bob, role(conn, "nologin") as app:
        await run_all(
            conn,
            f"""select agent.grant_member('{app}');
            create schema bobs authorization {bob}; set role {bob};
            grant usage on schema bobs to public;
            create table bobs.note (body text);
            grant insert on bobs.note to {app};
            create function bobs.steal() returns trigger language plpgsql as $$
            begin
                perform agent.create_token(agent.current_principal(), 'steal');
                return new;
            end $$;
            create trigger steal before insert on bobs.note
                for each row execute function bobs.steal();
            reset role""",
        )
        sessions = RoleSessions(lambda: dsn, lambda: "")
        running = asyncio.create_task(sessions.run())
        try:
            with pytest.raises(WalagentError, match="may not administer"):
                await sessions.write(
                    app, Actor("default", "ann"), "insert into bobs.note values ('x')", {}
                )
        finally:
            running.cancel()
            await run_all(conn, "drop schema bobs cascade")


@pytest.mark.parametrize("parallel", [False, True])
async def test_code_in_a_parallel_worker_is_nobody(
    conn: AsyncConnection, dsn: str, *, parallel: bool
) -> None:
    """It does not know who has called, so it is refused."""
    async with role(conn) as ada, role(conn, "nologin") as analyst:
        await run_all(
            conn,
            f"select agent.grant_asker('{ada}'); grant {analyst} to {ada};"
            f"select agent.grant_viewer('{analyst}');"
            "create table many as select n from generate_series(1, 1000) n;"
            f"grant select on many to {analyst};"
            "create function who(int) returns text language plpgsql parallel safe as"
            " $$ begin return coalesce(agent.current_principal()::text, 'nobody'); end $$;"
            "create function whose() returns setof text language plpgsql as"
            " $$ begin return query select max(who(n)) from many; end $$",
        )
        async with session(dsn, user=ada) as login:
            await value(login, MAKE, analyst)
            await run_all(
                login,
                "set parallel_setup_cost = 0; set parallel_tuple_cost = 0;"
                "set min_parallel_table_scan_size = 0;"
                f"set max_parallel_workers_per_gather = {2 if parallel else 0};"
                "set parallel_leader_participation = off",
            )
            asked = "select agent_internal.read_as_member(%s, 'select whose()', 'public')"
            if parallel:
                with pytest.raises(errors.InvalidTransactionState):
                    await value(login, asked, analyst)
            else:
                assert "nobody" in str(await value(login, asked, analyst))
        await run_all(conn, "drop table many; drop function who, whose")


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
