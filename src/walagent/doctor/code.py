"""Check whose code runs with the rights of the roles that read and write tables."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

from psycopg import AsyncConnection

from walagent.config import Config
from walagent.doctor.finding import Finding, ok, warning
from walagent.store.install.server_facts import AttachedTable
from walagent.store.relations.table_code import Moment, TableCode, code_of_strangers

Connection = AsyncConnection[Any]

_LOGIN: Final = "the login of open tables"
_READABLE: Final = """
select c.oid::int8
  from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_roles r on r.rolname = %s
 where c.relkind in ('r', 'p', 'v', 'm') and n.nspname = any (coalesce(%s, array[n.nspname]))
   and n.nspname !~ '^(pg_.*|information_schema|agent|agent_internal)$'
   and has_table_privilege(r.oid, c.oid, 'select')
"""
_OPEN: Final = """
select to_regclass(name)::oid::int8 from unnest(%s::text[]) as name
 where to_regclass(name) is not null
"""


async def check_code(
    conn: Connection, tables: Iterable[AttachedTable], config: Config
) -> Sequence[Finding]:
    """Check the tables that agents are attached to, that questions read and that are open."""
    written = defaultdict[str, set[int]](set)
    for table in tables:
        if table.table_exists and table.role_exists:
            written[table.run_as].add(table.relation_oid)
    schemas = None if config.ask.schemas is None else list(config.ask.schemas)
    readable = await _oids(conn, _READABLE, config.ask.role, schemas)
    opened = await _oids(conn, _OPEN, list(config.sync.open))
    found = defaultdict[str, dict[TableCode, str]](dict)
    for role, oids, until in (
        *((role, oids, Moment.WRITTEN) for role, oids in written.items()),
        (config.ask.role, readable, Moment.READ),
        (_LOGIN, opened, Moment.READ),
    ):
        for code in await code_of_strangers(conn, oids, until):
            if code.owner != role:
                found[code.owner].setdefault(code, role)
    if not found:
        return [ok("tables run code of their owners alone")]
    return [_finding(owner, codes) for owner, codes in found.items()]


async def _oids(conn: Connection, statement: LiteralString, *given: object) -> list[int]:
    return [oid for (oid,) in await (await conn.execute(statement, given)).fetchall()]


def _finding(owner: str, codes: Mapping[TableCode, str]) -> Finding:
    first = min(codes, key=str)
    more = f", and {len(codes) - 1} more" if len(codes) > 1 else ""
    return warning(
        f'code of role "{owner}", which owns neither the table nor the role, runs as'
        f" {codes[first]}: {first}{more}",
        f"alter function {first.function} owner to … -- the table's, once you have read it",
    )
