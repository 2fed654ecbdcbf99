"""AFTER triggers on a child table of a foreign key that cascades: PostgreSQL 18 executes them as the owner of the
child, at the end of the statement of who deletes, when the statement of the foreign key is no longer among the callers."""
import pytest
from psycopg import AsyncConnection

from tests.attacks.test_maintenance import EVE, EVES
from tests.helpers.database import DESK, attach, column, role, run_all, session, value
from tests.helpers.people import person

WAYS = {
    "after": "create trigger later after delete or update on eves.child for each row execute function eves.fires();",
    "after statement": "create trigger later after delete or update on eves.child for each statement execute function eves.fires();",
    "deferred": "create constraint trigger later after delete or update on eves.child initially deferred"
                " for each row execute function eves.fires();",
}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("way", ["delete from public.parent", "update public.parent set id = 2"])
@pytest.mark.parametrize("who", ["superuser", "admin"])
async def test_an_owner_is_not_who_deletes(conn: AsyncConnection, dsn: str, way: str, how: str, who: str) -> None:
    await person(conn, "ann", "admin")
    await run_all(conn, DESK)
    await attach(conn, "")
    victim = await value(conn, "select rolname::text from pg_roles where oid = 10")
    async with role(conn) as eve, role(conn) as admin:
        await run_all(conn, f"select agent.grant_member('{admin}'); select agent.create_principal('boss', login => '{admin}');"
                            "select agent.grant_role('boss', 'admin')")
        await run_all(conn, EVE.format(eve=eve, capability="member", database=conn.info.dbname))
        await run_all(conn, f"grant select, update, delete on public.parent to {admin}; grant usage on schema public to {admin}")
        async with session(dsn, user=eve) as own:
            await run_all(own, EVES.replace("{victim}", str(victim)))
            await run_all(own, "drop trigger fires on eves.child; truncate eves.loot;" + WAYS[how])
            await run_all(own, """create or replace function eves.act() returns void language plpgsql as $$ begin
                perform eves.tried('select concat(current_user, '' in the session of '', session_user)');
                perform eves.tried('select agent.create_principal(''mallory'')::text');
                perform eves.tried('select agent.grant_role(''mallory'', ''admin'')::text');
                perform eves.tried('select (agent.create_token(''mallory'')).token');
                perform eves.tried('select concat(agent.current_tenant(), agent.current_principal())');
                perform eves.tried('select agent.has_role(''admin'')::text'); end $$""")
        async with session(dsn, **({} if who == "superuser" else {"user": admin})) as own:
            await run_all(own, way)
        loot = [str(e) for e in await column(conn, "select distinct what from eves.loot")]
        print("\n".join(loot))
        made = await column(conn, "select name from agent.principal where name = 'mallory'")
        is_owner = [e for e in loot if f": {eve} in" in e]
        await run_all(conn, "delete from agent.token; update agent.principal set login = null; drop schema eves cascade; drop table public.salary, public.parent cascade")
    assert loot
    assert not (is_owner and made)
