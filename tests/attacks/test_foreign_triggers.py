"""A trigger of others acts as nobody in the session that fires it.

Since PostgreSQL 18, a trigger below the cascade of a foreign key is executed as the owner of its
table, at the end of the statement of who deletes: the statement of the foreign key is not among its
callers.
"""

import re

import pytest
from psycopg import AsyncConnection

from tests.attacks.test_maintenance import EVE, EVES
from tests.helpers.database import DESK, attach, column, role, rows, run_all, session, value
from tests.helpers.people import person
from tests.helpers.queue import add_runs
from tests.helpers.shapes import serving
from walagent.config import Replication
from walagent.config.sections import MutationEntry
from walagent.replication.bootstrap import ensure_slot

LATER = (
    "after delete or update on eves.child for each row execute function eves.fires()",
    "after delete or update on eves.child for each statement execute function eves.fires()",
    """after delete or update on eves.child initially deferred
       for each row execute function eves.fires()""",
)
CASCADES = ("delete from public.parent", "update public.parent set id = 2")
ACTS = """
drop trigger fires on eves.child;
truncate eves.loot;
grant usage on schema eves to public;
grant insert on eves.loot to public;
create or replace function eves.act() returns void language plpgsql as $$
begin
    perform eves.tried('select concat(''as '', current_user, '' for '', session_user)');
    perform eves.tried('select agent.create_principal(''mallory'')::text');
    perform eves.tried('select agent.grant_role(''mallory'', ''admin'')::text');
    perform eves.tried('select (agent.create_token(''mallory'')).token');
    perform eves.tried('insert into agent.saved_filter (name, query) values (''eves'', '''')');
    perform eves.tried('select concat(agent.current_tenant(), agent.current_principal())');
    perform eves.tried('select agent.has_role(''admin'')::text');
    perform eves.tried('select string_agg(r.change::text, '''') from agent.run r');
end $$;
"""
PERIOD = """
create table eves.p (id int4range, at int4range, primary key (id, at without overlaps));
insert into eves.p values ('[1,2)', '[1,9)');
create index on eves.p (id) where eves.f(1) = 1;
grant usage on schema eves to public;
grant references on eves.p to public;
truncate eves.loot;
"""
REFERS = """
create table public.c (id int4range, at int4range,
                       foreign key (id, period at) references eves.p (id, period at))
"""


async def prepare(conn: AsyncConnection, eve: str) -> str:
    """Attach an agent, with a run; return the name of the superuser."""
    await run_all(conn, DESK)
    await attach(conn, "")
    seen = {"op": "insert", "schema": "public", "table": "t", "new": {"issue": "CANARY"}}
    at = await value(conn, "select id from agent.attachment")
    await add_runs(conn, at, None, change=seen)
    await run_all(conn, EVE.format(eve=eve, capability="member", database=conn.info.dbname))
    return await value(conn, "select rolname::text from pg_roles where oid = 10")


async def taken(conn: AsyncConnection) -> list[str]:
    """What code of Eve's has found, and whom it has made; remove it."""
    loot = [str(each) for each in await column(conn, "select distinct what from eves.loot")]
    assert loot
    made = await column(conn, "select name::text from agent.principal where name = 'mallory'")
    saved = await column(conn, "select name from agent.saved_filter where name = 'eves'")
    await run_all(
        conn,
        "delete from agent.token; update agent.principal set login = null;"
        "drop schema eves cascade; drop table public.salary, public.parent cascade",
    )
    return [*made, *saved, *(each for each in loot if "CANARY" in each or each.endswith(": true"))]


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("way", CASCADES)
@pytest.mark.parametrize("who", ["superuser", "admin"])
async def test_a_trigger_below_a_cascade_is_nobody(
    conn: AsyncConnection, dsn: str, later: str, way: str, who: str
) -> None:
    """It makes no principal and no token, and reads no run.

    Before PostgreSQL 18 it is executed as who deletes, whose rights of the database are its own.
    """
    async with role(conn) as eve, role(conn) as admin:
        victim = await prepare(conn, eve)
        await run_all(
            conn,
            f"select agent.grant_member('{admin}');"
            f"select agent.create_principal('boss', login => '{admin}');"
            "select agent.grant_role('boss', 'admin');"
            f"grant select, update, delete on public.parent to {admin};"
            f"grant usage on schema public to {admin}",
        )
        kind = "constraint trigger" if "deferred" in later else "trigger"
        async with session(dsn, user=eve) as own:
            await run_all(own, EVES.replace("{victim}", victim))
            await run_all(own, f"{ACTS} create {kind} later {later}")
        async with session(dsn, **({} if who == "superuser" else {"user": admin})) as own:
            await run_all(own, way)
        as_eve = await value(conn, "select exists (select from eves.loot where what ~ %s)", eve)
        found = await taken(conn)
    if as_eve:
        assert found == []
    elif who == "admin":  # its own rights, but nothing is administered
        assert "mallory" not in found
    else:  # a superuser's own rights: it reads all tables
        assert [each for each in found if "CANARY" not in each] == []


async def test_the_check_of_a_period_is_code_of_others(conn: AsyncConnection, dsn: str) -> None:
    """It plans with the indexes of the table that is referred to."""
    if conn.info.server_version < 180000:
        pytest.skip("PERIOD came with PostgreSQL 18")
    await person(conn, "ann", "admin")
    async with role(conn) as eve:
        victim = await prepare(conn, eve)
        async with session(dsn, user=eve) as own:
            await run_all(own, EVES.replace("{victim}", victim) + PERIOD)
        await run_all(conn, REFERS)
        async with session(dsn) as own:
            await run_all(own, "insert into public.c values ('[1,2)', '[2,3)')")
        await run_all(conn, "drop table public.c")
        assert await taken(conn) == []


async def test_triggers_of_walagent_act_as_who_executes_the_statement(
    conn: AsyncConnection, dsn: str
) -> None:
    """In a block and a function, too; what they write in the audit names the caller."""
    await run_all(conn, DESK)
    me = await value(conn, "select session_user::text")
    policy = "insert into agent.policy (name, point, action) values ('{0}', 'tool', 'allow')"
    await run_all(
        conn,
        f"{policy.format('plain')};"
        f"do $$ begin {policy.format('block')}; end $$;"
        f"create function public.makes() returns void language plpgsql as $$ begin"
        f" {policy.format('function')}; end $$; select public.makes()",
    )
    query = "select distinct principal::text from agent.audit where action ~ '^policy'"
    assert await column(conn, query) == [me]
    # And not below a trigger of others.
    await run_all(
        conn,
        "create table public.t (id int);"
        "create function public.fires() returns trigger language plpgsql as $$ begin"
        f" {policy.format('trigger')}; return new; end $$;"
        "create trigger fires after insert on public.t for each row"
        " execute function public.fires()",
    )
    async with role(conn) as dev:
        await run_all(
            conn,
            f"select agent.grant_developer('{dev}'); grant insert on public.t to {dev};"
            f"grant usage on schema public to {dev}",
        )
        async with session(dsn, user=dev) as own:
            with pytest.raises(Exception, match=r"may not|row-level security"):
                await run_all(own, "insert into public.t values (1)")
    await run_all(conn, "delete from agent.policy; drop table public.t")


# That of states reads nothing but the row.
UNMARKED = """
select format('%s of %s', t.tgfoid::regprocedure, t.tgrelid::regclass)
  from pg_trigger t
       join pg_class c on c.oid = t.tgrelid
       join pg_proc p on p.oid = t.tgfoid
 where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
   and not t.tgisinternal
   and t.tgtype & 32 = 0  -- not of TRUNCATE
   and p.proname not in ('check_transition', 'enter_trigger', 'leave_trigger')
   and not (p.prosrc ~ 'agent_internal[.]enter[(][)]' and p.prosrc ~ 'agent_internal[.]leave[(]')
   and (t.tgdeferrable or (select count(*) from pg_trigger e
                            where e.tgrelid = c.oid and e.tgname in ('enter', 'leave')
                              and e.tgtype & 28 = 28) < 2)
"""


async def test_each_trigger_of_walagent_acts_as_who_executes_the_statement(
    conn: AsyncConnection,
) -> None:
    """Those of a table are marked, or each marks itself: else it acts as nobody."""
    assert await column(conn, UNMARKED) == []


OWN = """
create table eves.orders (id int primary key, note text);
insert into eves.orders values (1, '');
create table eves.loot (what text);
create function eves.fires() returns trigger language plpgsql security definer as $$
begin
    begin
        perform {act};
    exception when others then
        insert into eves.loot values (sqlerrm);
    end;
    return new;
end $$;
create trigger fires before update on eves.orders for each row execute function eves.fires();
grant usage on schema eves to {app};
grant select, update on eves.orders to {app};
"""


@pytest.mark.parametrize("act", ["agent.approve({a})", "agent.reject({a})"])
async def test_an_owner_of_a_table_decides_nothing(
    conn: AsyncConnection, dsn: str, act: str
) -> None:
    """An approver writes a row over HTTP, and a trigger below would decide in its name."""
    ann = await person(conn, "ann", "approver")
    async with role(conn) as eve, role(conn, "nologin") as app:
        await run_all(conn, DESK)
        await run_all(
            conn,
            f"create schema eves authorization {eve};"
            f"select agent.grant_approver('{eve}'); select agent.create_principal('eve');"
            f"update agent.principal set login = '{eve}' where name = 'eve';"
            "select agent.grant_role('eve', 'viewer')",
        )
        await attach(conn, "")
        await add_runs(conn, await value(conn, "select id from agent.attachment"), None)
        await run_all(
            conn,
            "select agent_internal.insert_approval("
            f"r, 'c1', 'refund_user', '{{\"ticket_id\": 1}}', '{app}', '1 hour') from agent.run r",
        )
        async with session(dsn, user=eve) as own:
            act = act.format(a=await value(conn, "select id from agent.approval"))
            await run_all(own, OWN.replace("{app}", app).replace("{act}", act))
        await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
        statement = "update eves.orders set note = %(note)s where id = 1"
        mutation = MutationEntry(statement=statement, run_as=app, parameters=("note",))
        async with serving(conn, dsn, mutations={"note": mutation}) as served:
            answer = await served.mutate(ann, "note", note="hello")
            assert answer.is_success, answer.text
        assert await rows(conn, "select state, decided_by from agent.approval") == [
            ("pending", None)
        ]
        (said,) = await column(conn, "select what from eves.loot")
        assert re.search(r"does not exist|may not decide|code of others", str(said))
        await run_all(
            conn,
            "update agent.principal set login = null; drop schema eves cascade;"
            "delete from agent.attachment",
        )


APP = """
create table public.orders (id int primary key, tenant text default agent.current_tenant());
create table public.order_log (tenant text default agent.current_tenant(),
                               by name default agent.current_principal());
alter table public.orders enable row level security;
alter table public.order_log enable row level security;
create policy t on public.orders using (tenant = agent.current_tenant());
create policy t on public.order_log using (tenant = agent.current_tenant());
create function public.logs() returns trigger language plpgsql {rights} as $$
begin
    insert into public.order_log default values;
    return new;
end $$;
create trigger logs after insert on public.orders for each row execute function public.logs();
"""


@pytest.mark.parametrize("way", ["token", "login", "mutation"])
async def test_a_trigger_of_an_application_acts_as_who_writes(
    conn: AsyncConnection, dsn: str, way: str
) -> None:
    """PostgreSQL gives it the rights of the writer: all of them."""
    ann = await person(conn, "ann", "viewer", tenant="acme")
    async with role(conn, "login" if way != "mutation" else "nologin") as app:
        await run_all(
            conn,
            f"{APP.format(rights='')} select agent.grant_member('{app}');"
            f"grant usage on schema public to {app};"
            f"grant select, insert on public.orders, public.order_log to {app}",
        )
        insert = "insert into public.orders (id) values (1)"
        if way == "mutation":
            await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
            mutation = MutationEntry(statement=insert, run_as=app)
            async with serving(conn, dsn, mutations={"order": mutation}) as served:
                answer = await served.mutate(ann, "order")
                assert answer.is_success, answer.text
        else:
            if way == "login":
                named = "update agent.principal set login = %s where name = 'ann'"
                await conn.execute(named, [app])
            async with session(dsn, user=app) as own, own.transaction():
                if way == "token":
                    await own.execute("select agent.act_as(%s)", [ann])
                await run_all(own, insert)
        assert await rows(conn, "select tenant, by::text from public.order_log") == [
            ("acme", "ann")
        ]
        await run_all(
            conn,
            "update agent.principal set login = null; drop table public.orders, public.order_log",
        )


async def test_a_trigger_with_the_rights_of_its_owner_is_nobody(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its owner could be anybody: nothing tells it from one below a cascade."""
    ann = await person(conn, "ann", "viewer", tenant="acme")
    async with role(conn) as app:
        await run_all(
            conn,
            f"{APP.format(rights='security definer')} select agent.grant_member('{app}');"
            f"grant usage on schema public to {app}; grant insert on public.orders to {app}",
        )
        async with session(dsn, user=app) as own, own.transaction():
            await own.execute("select agent.act_as(%s)", [ann])
            await run_all(own, "insert into public.orders (id) values (1)")
        assert await rows(conn, "select tenant, by::text from public.order_log") == [(None, None)]
        await run_all(conn, "drop table public.orders, public.order_log")
