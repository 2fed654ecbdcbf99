"""The schemas of pgAgentOS: whose they are, and who acts by them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, refused, role, rows, run_all, session, value
from tests.helpers.people import person
from walagent.errors import PreconditionError
from walagent.store.install.compat import install_pgagentos, remove_pgagentos

SCHEMA = "create schema aos_auth; comment on schema aos_auth is 'walagent database pgagentos';"
DEFINERS = """
select p.oid::regprocedure::text
  from pg_proc p join pg_roles r on r.oid = p.proowner
 where p.pronamespace::regnamespace::text ~ '^aos_' and p.prosecdef and r.rolsuper
"""


@asynccontextmanager
async def creator(conn: AsyncConnection, dsn: str) -> AsyncIterator[tuple[str, AsyncConnection]]:
    """A member that can create schemas, and its session."""
    async with role(conn) as eve:
        database = conn.info.dbname
        await run_all(
            conn,
            f"grant create on database {database} to {eve}; select agent.grant_member('{eve}')",
        )
        async with session(dsn, user=eve) as own:
            yield eve, own
        await run_all(conn, f"revoke create on database {database} from {eve}")


async def test_a_schema_of_somebody_else_is_not_used(conn: AsyncConnection, dsn: str) -> None:
    """Its owner could exchange a table that functions of walagent read."""
    async with creator(conn, dsn) as (eve, own):
        await run_all(own, SCHEMA)
        with pytest.raises(PreconditionError, match=f'"aos_auth" belongs to role "{eve}"') as found:
            await install_pgagentos(conn)
        assert "drop schema aos_auth cascade" in found.value.hint.replace('"', "")
        assert await remove_pgagentos(conn) == []
        await run_all(conn, "drop schema aos_auth cascade")
        await install_pgagentos(conn)
        await refused(own, "create table aos_auth.x ()", state="42501")


async def test_what_somebody_else_left_in_a_schema_is_not_used(
    conn: AsyncConnection, dsn: str
) -> None:
    """The owner of a table can exchange what its triggers execute, and who may read it."""
    async with creator(conn, dsn) as (eve, own):
        await run_all(conn, f"{SCHEMA} grant create, usage on schema aos_auth to {eve}")
        await run_all(own, "create table aos_auth.membership ()")
        with pytest.raises(PreconditionError, match=r"table aos_auth.membership belongs to"):
            await install_pgagentos(conn)


async def test_no_function_has_the_rights_of_a_superuser(conn: AsyncConnection, dsn: str) -> None:
    """They belong to the role of walagent's own, to which row-level security applies."""
    await install_pgagentos(conn)
    assert await column(conn, DEFINERS) == []
    await run_all(conn, "alter function aos_auth.tenants() owner to current_user")
    named = "select function::text from agent_internal.misowned_functions()"
    assert await column(conn, named) == ["aos_auth.tenants()"]
    await run_all(conn, "select agent_internal.restrict_definers()")
    assert await column(conn, named) == []
    del dsn


ENDS = {
    "revoked": "select agent.revoke_token(id) from agent.token",
    "expired": "update agent.token set expires_at = now() - interval '1 s'",
    "deleted": "delete from agent.token",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_who_joined_acts_as_long_as_the_token(
    conn: AsyncConnection, dsn: str, end: str
) -> None:
    """And with its scopes."""
    await person(conn, "ann", "admin", tenant="acme")
    await install_pgagentos(conn)
    async with role(conn) as eve:
        await run_all(conn, f"delete from agent.token; select agent.grant_member('{eve}')")
        token = await value(
            conn,
            "select token from agent.create_token("
            "'ann', '', '{read}', now() + interval '1 h', 'acme')",
        )
        async with session(dsn, user=eve) as own:
            await value(own, "select aos_auth.join_tenant(%s)::text", token)
            assert await rows(own, "select display_name from aos_auth.principal") != []
            assert not await value(own, "select aos_auth.is_admin()")
            async with own.transaction():
                await value(own, "select aos_auth.current_tenant()::text")
                assert await value(own, "select agent.current_principal()::text") == "ann"
                assert await value(own, "select agent.has_scope('read')")
                assert not await value(own, "select agent.has_scope('post')")
            await run_all(conn, end)
            await refused(own, "select aos_auth.current_tenant()", state="42501")
            await run_all(own, "reset aos.tenant_id")
            async with own.transaction():
                await value(own, "select aos_auth.current_principal()::text")
                assert await value(own, "select agent.current_principal()::text") == eve


@pytest.mark.parametrize("purpose", ["link", "session"])
async def test_a_cookie_ties_no_login(conn: AsyncConnection, dsn: str, purpose: str) -> None:
    """The token of a session of the console, or of a link to it, is not for another login."""
    token = await person(conn, "ann", "admin", tenant="acme")
    await install_pgagentos(conn)
    await run_all(conn, f"update agent.token set purpose = '{purpose}'")
    async with role(conn) as eve:
        await run_all(conn, f"select agent.grant_member('{eve}')")
        async with session(dsn, user=eve) as own:
            join = "select aos_auth.join_tenant(%s)"
            assert "session or link" in str(await refused(own, join, token, state="42501"))
    assert await rows(conn, "select login from aos_auth.membership") == []


async def test_who_joined_before_tokens_were_kept_joins_again(
    conn: AsyncConnection, dsn: str
) -> None:
    """Which token it was is not known; who inserted the tenant stays."""
    await install_pgagentos(conn)
    async with role(conn) as boss, role(conn) as eve:
        await run_all(
            conn,
            f"""
            select agent.create_principal('{boss}', login => '{boss}');
            select agent.grant_role('{boss}', 'admin');
            select agent.grant_member('{boss}'), agent.grant_member('{eve}')
            """,
        )
        async with session(dsn, user=boss) as own:
            await run_all(own, "insert into aos_auth.tenant (name) values ('acme')")
        await run_all(
            conn,
            f"""
            alter table aos_auth.membership drop column token;
            insert into aos_auth.membership (login, tenant, principal)
            values ('{eve}', 'acme', '{boss}')
            """,
        )
        await install_pgagentos(conn)
        assert await column(conn, "select login::text from aos_auth.membership") == [boss]
        await run_all(conn, "update agent.principal set login = null")


TRIED = {
    "enter": "select aos_auth.enter()",
    "current_tenant": "select aos_auth.current_tenant()::text",
    "set_tenant": "select aos_auth.set_tenant(tenant_id) from aos_auth.tenant",
    "tenants": "select string_agg(name, ',') from aos_auth.tenant",
    "own_tenants": "select string_agg(principal, ',') from aos_auth.own_tenants()",
    "principals": "select string_agg(name, ',') from aos_auth.principal",
    "insert_tenant": "insert into aos_auth.tenant (name) values ('eves')",
    "join_tenant": "select aos_auth.join_tenant('{token}')::text",
    "log_event": "select aos_core.log_event('x')",
    "threads": "select string_agg(title, ',') from aos_agent.conversation",
    "start": "insert into aos_agent.conversation (agent_id) values (gen_random_uuid())",
}
TRAP = """
create table eves.loot (what text);
create function eves.fires() returns trigger language plpgsql as $$
declare
    r text;
begin
    execute '{tried}' into r;
    insert into eves.loot values (concat('got ', r));
    insert into eves.loot values (concat('is ', agent.current_tenant(), agent.current_principal()));
    return old;
exception when others then
    insert into eves.loot values ('refused ' || sqlstate);
    return old;
end $$;
create table eves.child (id int references public.parent on delete cascade);
insert into eves.child values (1);
create trigger fires before delete on eves.child for each row execute function eves.fires();
"""


@pytest.mark.parametrize("tried", TRIED.values(), ids=TRIED)
async def test_code_of_others_does_not_enter(conn: AsyncConnection, dsn: str, tried: str) -> None:
    """A trigger below a cascade is not the person whose statement it was, nor ties its login."""
    token = await person(conn, "mallory", "admin", tenant="trap")
    async with role(conn) as eve, role(conn) as ann:
        await run_all(
            conn,
            f"""
            select agent.grant_member('{eve}'), agent.grant_member('{ann}');
            select agent.create_principal('{ann}', login => '{ann}');
            select agent.grant_role('{ann}', 'admin');
            create table public.parent (id int primary key); insert into public.parent values (1);
            grant references on public.parent to {eve};
            grant usage on schema public to {eve}, {ann};
            grant select, delete on public.parent to {ann};
            create schema eves authorization {eve}
            """,
        )
        await install_pgagentos(conn)
        async with session(dsn, user=ann) as hers, session(dsn, user=eve) as own:
            await run_all(hers, "insert into aos_auth.tenant (name) values ('canary')")
            async with hers.transaction():
                await value(hers, "select aos_auth.current_tenant()::text")
                await value(hers, "select agent.open_thread('canary')::text")
            await run_all(own, TRAP.format(tried=tried.format(token=token).replace("'", "''")))
            await run_all(hers, "delete from public.parent")
        loot = [str(each) for each in await column(conn, "select what from eves.loot")]
        assert loot
        assert not [each for each in loot if "canary" in each or each == f"is canary{ann}"]
        assert not [each for each in loot if each.startswith("is ") and each != "is "]
        assert await column(conn, "select tenant from aos_auth.membership") == ["canary"]
        assert await column(conn, "select name from agent.tenant where name = 'eves'") == []
        await run_all(
            conn,
            "update agent.principal set login = null;"
            "drop schema eves cascade; drop table public.parent",
        )


async def test_nothing_on_the_path_of_the_installer_is_called(
    conn: AsyncConnection, dsn: str
) -> None:
    """Functions of who can create some in `public` are not bound by the views."""
    trap = """
    create function public.to_jsonb(text[]) returns jsonb language sql return 'null'::jsonb;
    create function public.count() returns bigint language sql return 0
    """
    await run_all(conn, trap)
    async with session(dsn, options="-c search_path=public,pg_catalog") as other:
        await install_pgagentos(other)
    bound = """
    select count(*) from pg_depend d join pg_proc p on d.refobjid = p.oid
     where d.refclassid = 'pg_proc'::regclass and p.pronamespace = 'public'::regnamespace
    """
    assert await value(conn, bound) == 0
