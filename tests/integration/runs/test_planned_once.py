"""Functions that each run executes keep their plans; in SQL, with settings, they have none."""

from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, column, run_all, until
from walagent.models.script import call

RUNS = 40  # more than any of them is called by attaching
CALLED = """
select p.oid::regprocedure::text
  from pg_stat_user_functions f
       join pg_proc p on p.oid = f.funcid
       join pg_language l on l.oid = p.prolang
       join pg_namespace n on n.oid = p.pronamespace
 where f.calls >= %s and l.lanname = 'sql' and p.proconfig is not null and n.nspname like 'agent%%'
 order by 1
"""


async def test_no_function_that_each_run_calls_is_planned_again(
    conn: AsyncConnection, dsn: str
) -> None:
    """Runs that call a function and update their row, from the change to the end."""
    await run_all(conn, DESK)
    name = conn.info.dbname
    await run_all(conn, f"alter database \"{name}\" set track_functions = 'all'")
    replies = [[call("refund_user"), call("update_row", category="bug")], "Done."]
    async with daemon(conn, dsn, replies) as d:
        await run_all(
            conn,
            "select agent.attach('support_tickets', 'model=fake, tools=[refund_user],"
            " bind=[ticket_id=id], writes=[category], only_unchanged=true')",
        )
        await run_all(
            conn,
            f"insert into support_tickets (issue) select 'x' from generate_series(1, {RUNS})",
        )
        await d.ended(RUNS)
    counted = (
        f"select sum(calls) >= {RUNS} from pg_stat_user_functions where funcname = 'call_tool'"
    )
    await until(conn, f"select coalesce(({counted}), false)")
    assert await column(conn, CALLED, RUNS) == []
