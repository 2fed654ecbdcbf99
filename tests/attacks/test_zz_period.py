"""A foreign key with PERIOD (PostgreSQL 18): its check is another statement than that of other foreign keys."""
import pytest
from psycopg import AsyncConnection

from tests.attacks.test_maintenance import EVE, EVES
from tests.helpers.database import DESK, attach, column, role, run_all, session, value
from tests.helpers.people import person
from tests.helpers.queue import add_runs

MORE = """
create table eves.p (id int4range, at int4range, primary key (id, at without overlaps));
insert into eves.p values ('[1,2)', '[1,9)');
create index on eves.p (id) where eves.f(1) = 1;
grant usage on schema eves to public;
grant references on eves.p to public;
truncate eves.loot;
"""
WAYS = ("insert into public.c values ('[1,2)', '[2,3)')",)


@pytest.mark.parametrize("way", WAYS)
async def test_an_owner_is_not_who_inserts(conn: AsyncConnection, dsn: str, way: str) -> None:
    if conn.info.server_version < 180000:
        pytest.skip("PERIOD")
    await person(conn, "ann", "admin")
    await run_all(conn, DESK)
    await attach(conn, "")
    victim = await value(conn, "select rolname::text from pg_roles where oid = 10")
    async with role(conn) as eve:
        await run_all(conn, EVE.format(eve=eve, capability="member", database=conn.info.dbname))
        async with session(dsn, user=eve) as own:
            await run_all(own, EVES.replace("{victim}", str(victim)) + MORE)
        await run_all(conn, "create table public.c (id int4range, at int4range,"
            " foreign key (id, period at) references eves.p (id, period at))")
        async with session(dsn) as own:  # the superuser, an operator
            await run_all(own, way)
        loot = [str(e) for e in await column(conn, "select distinct what from eves.loot")]
        print("\n".join(loot))
        made = await column(conn, "select name from agent.principal where name = 'mallory'")
        await run_all(conn, "drop table public.c; drop schema eves cascade; drop table public.salary, public.parent cascade")
    assert loot
    assert not [e for e in loot if "CANARY" in e]
    assert not made
