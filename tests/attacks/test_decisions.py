"""Rows that say what a person decided are written by functions that ask for the role."""

from psycopg import AsyncConnection

from tests.helpers.database import column, role, run_all

# Tables that a login without the capability approver writes, and why that decides nothing.
OWN = {
    "agent.saved_filter": "a tab of the page; only who saved it changes it",
}
# A column that names who did it, as the database knows.
DECIDED = """
select distinct a.attrelid::regclass::text
  from pg_attribute a join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
 where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
   and not a.attisdropped and a.attname ~ '_by$' and a.atttypid = 'name'::regtype
"""
WRITTEN = """
select c.oid::regclass::text
  from pg_class c
 where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
   and c.relkind in ('r', 'p', 'v')
   and (has_table_privilege(%(who)s::name, c.oid, 'insert, update, delete, truncate')
        or has_any_column_privilege(%(who)s::name, c.oid, 'insert, update'))
"""


async def test_who_may_not_approve_writes_no_row_that_decides(conn: AsyncConnection) -> None:
    """A login of no principal has all roles: only its privileges keep it from deciding."""
    decided = set(await column(conn, DECIDED))
    assert {"agent.issue", "agent.approval", "agent.gap_choice"} < decided
    async with role(conn) as login:
        for name in ("viewer", "asker", "member"):
            await run_all(conn, f"select agent.grant_{name}('{login}')")
        written = set(await column(conn, WRITTEN.replace("%(who)s", f"'{login}'")))
    assert written & decided == set(OWN)
