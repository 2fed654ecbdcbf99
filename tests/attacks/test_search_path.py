"""No function of walagent calls what others have put on the search_path of its caller."""

import re

import psycopg
from psycopg import AsyncConnection

from tests.helpers.database import DESK, rows, run_all, value
from tests.helpers.traps import TRAPS
from walagent.store.install.compat import install_pgagentos

OURS = "(select oid from pg_namespace where nspname ~ '^(agent|agent_.*|aos_.*)$')"
CALLS = f"""
select p.oid::regprocedure::text,
       format('select * from %s(%s) x', p.oid::regproc,
              (select string_agg('null::' || format_type(t, null), ', ' order by n)
                 from unnest(p.proargtypes::oid[]) with ordinality x (t, n)))
  from pg_proc p
 where p.pronamespace in {OURS} and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
"""


async def test_no_function_uses_the_operators_of_its_caller(conn: AsyncConnection) -> None:
    """A function binds its names when it is created, or finds them on a path of its own.

    Triggers whose callers' names decide what is stored have one call of a qualified name.
    """
    await install_pgagentos(conn)
    loose = await rows(
        conn,
        f"""
        select p.oid::regprocedure::text, p.prosrc
          from pg_proc p join pg_language l on l.oid = p.prolang
         where p.pronamespace in {OURS} and l.lanname in ('sql', 'plpgsql')
           and p.prosqlbody is null and not coalesce(p.proconfig::text like '%search_path=%', false)
        """,
    )
    for function, body in loose:
        lines = str(body).split("\n")
        assert len(lines) == 6, function
        assert re.fullmatch(r"    new := \w+\.\w+\([^()]*agent_internal\.\w+\(\)\);", lines[2])


async def test_a_function_that_takes_its_callers_path_gives_it_back(conn: AsyncConnection) -> None:
    """Until then it is that of the caller, which can have a set_config of its own."""
    await install_pgagentos(conn)
    bodies = await rows(
        conn,
        f"select oid::regprocedure::text, prosrc from pg_proc where pronamespace in {OURS}"
        " and prosrc like '%set_config(''search_path''%'",
    )
    assert bodies
    bare = re.compile(r"(?<!pg_catalog\.)set_config\('search_path', 'pg_catalog, pg_temp'")
    assert [name for name, body in bodies if bare.search(str(body))] == []


async def test_nobody_is_trapped_by_names_on_the_search_path(conn: AsyncConnection) -> None:
    """Each function is called where operators and functions of others come first."""
    await install_pgagentos(conn)
    await run_all(conn, TRAPS)
    assert await value(
        conn, "select count(*) > 700 from pg_operator where oprnamespace = 'evil'::regnamespace"
    )
    assert await value(
        conn,
        "select count(*) > 200 from pg_proc"
        " where pronamespace = 'evil'::regnamespace and proname not like 'op_%'",
    )
    trapped = list[tuple[str, str]]()
    calls = await rows(conn, CALLS)
    assert len(calls) > 400
    for function, call in calls:
        async with conn.transaction(force_rollback=True):
            await run_all(
                conn, "set local statement_timeout = '5s';set local search_path = evil, pg_catalog"
            )
            try:
                await run_all(conn, str(call))
            except psycopg.Error as error:
                if error.sqlstate == "EVIL1":
                    trapped.append((str(function), str(error)))
    assert trapped == []


async def test_a_path_that_is_stored_has_no_temporary_schema(conn: AsyncConnection) -> None:
    """The next session that has it is that of somebody else."""
    await run_all(
        conn,
        DESK + "create temp table mine (); set search_path = public, pg_temp;"
        "select agent.attach('support_tickets', 'name=desk, model=fake, tools=[refund_user]')",
    )
    assert await value(conn, "select search_path from agent.attachment") == "public"
