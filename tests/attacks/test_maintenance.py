"""Code that PostgreSQL executes as the owner of a table, in the session of somebody else.

Maintenance, foreign keys and refreshed views execute an owner's code as the owner: `session_user`
is still who maintains, deletes or refreshes, or the superuser of autovacuum.
"""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import (
    DEADLINE,
    DESK,
    attach,
    column,
    role,
    run_all,
    session,
    until,
    value,
)
from tests.helpers.people import person
from tests.helpers.queue import add_runs

EVE = """
grant create on database {database} to {eve};
select agent.grant_{capability}('{eve}');
create table public.salary (pay text);
insert into public.salary values ('CANARY');
create table public.parent (id int primary key);
insert into public.parent values (1);
grant references on public.parent to {eve};
grant usage on schema public to {eve};
insert into agent.saved_filter (name, query) values ('CANARY', 'state=failed');
"""
EVES = """
create schema eves;
create table eves.loot (what text);
create function eves.tried(_sql text) returns void language plpgsql as $$
declare
    _found text;
begin
    execute _sql into _found;
    insert into eves.loot values (_sql || ': ' || coalesce(_found, 'NULL'));
exception when others then
    insert into eves.loot values (_sql || ': ' || sqlstate || ' ' || sqlerrm);
end $$;
create function eves.act() returns void language plpgsql as $$
begin
    perform eves.tried('select agent_internal.make_trampoline_of_member(''{victim}'')');
    -- A cast that fails comes before read_as_member() closes cursors, which maintenance refuses.
    perform eves.tried('select agent_internal.read_as_member(''{victim}'', ''select
        (current_user || (select pay from public.salary))::pg_catalog.int4 as x'', '''')');
    perform eves.tried('select c::text from agent_internal.claim_runs(''eve'', 10, ''1 hour'') c');
    perform eves.tried('select agent.create_principal(''mallory'')::text');
    perform eves.tried('select concat(agent.current_tenant(), agent.current_principal())');
    perform eves.tried('select agent.has_role(''admin'')::text');
    perform eves.tried('select string_agg(e.data::text, '''') from agent.event e');
    perform eves.tried('select string_agg(r.change::text, '''') from agent.run r');
    perform eves.tried('select string_agg(f.name, '''') from agent.saved_filter f');
end $$;
create function eves.f(int) returns int language plpgsql immutable as $$
begin
    perform eves.act();
    return 1;
end $$;
create function eves.fires() returns trigger language plpgsql as $$
begin
    perform eves.act();
    return old;
end $$;
create table eves.t (id int);
create index t_index on eves.t (eves.f(id));
create materialized view eves.m as select eves.f(id) as found from eves.t;
create table eves.child (id int references public.parent on delete cascade on update cascade);
insert into eves.child values (1);
create trigger fires before delete or update on eves.child
    for each row execute function eves.fires();
insert into eves.t select n from generate_series(1, 60) n;
truncate eves.loot;
"""
OFTEN = """
alter table eves.t set (autovacuum_analyze_threshold = 1, autovacuum_analyze_scale_factor = 0);
insert into eves.t select n from generate_series(1, 60) n;
truncate eves.loot
"""
WAYS = (
    "analyze eves.t",
    "vacuum analyze eves.t",
    "reindex table eves.t",
    "cluster eves.t using t_index",
    "create index on eves.t ((eves.f(id) + 1))",
    "refresh materialized view eves.m",
    "delete from public.parent",
    "update public.parent set id = 2",
    pytest.param("autovacuum", marks=pytest.mark.slow),
)


@pytest.mark.few(6)
@pytest.mark.parametrize("capability", ["asker", "viewer", "member"])
@pytest.mark.parametrize("way", WAYS)
async def test_an_owner_is_not_who_maintains_its_table(
    conn: AsyncConnection, dsn: str, way: str, capability: str
) -> None:
    """It acts as nobody, becomes no role, and sees what nobody sees."""
    ann = await person(conn, "ann", "admin")
    await run_all(conn, DESK)
    await attach(conn, "")
    seen = {
        "op": "insert",
        "schema": "public",
        "table": "support_tickets",
        "new": {"issue": "CANARY"},
    }
    await add_runs(conn, await value(conn, "select id from agent.attachment"), None, change=seen)
    async with conn.transaction():
        await conn.execute("select agent.act_as(%s)", [ann])
        thread = await value(conn, "select agent.open_thread('Secret')::text")
        await value(conn, "select agent.post(%s, 'CANARY')::text", thread)
    victim = await value(conn, "select rolname::text from pg_roles where oid = 10")
    async with role(conn) as eve:
        database = conn.info.dbname
        await run_all(conn, EVE.format(eve=eve, capability=capability, database=database))
        async with session(dsn, user=eve) as own:
            await run_all(own, EVES.replace("{victim}", str(victim)))
        if way == "autovacuum":
            async with session(dsn, user=eve) as own:
                await run_all(own, OFTEN)
            await until(conn, "select exists (select from eves.loot)", deadline=4 * DEADLINE)
        else:
            await run_all(conn, way)
        loot = [str(each) for each in await column(conn, "select distinct what from eves.loot")]
        await run_all(
            conn, "drop schema eves cascade; drop table public.salary, public.parent cascade"
        )
    assert len(loot) >= 9
    assert not [each for each in loot if "CANARY" in each]
    assert "select concat(agent.current_tenant(), agent.current_principal()): " in loot
    assert "select agent.has_role('admin')::text: false" in loot
    assert not await column(conn, "select name from agent.principal where name = 'mallory'")
    assert not await column(conn, "select worker from agent.run where worker is not null")
