"""The page of the schema, docs/reference/schema.md, made from the catalog of a migrated database.

`make docs` writes it from an embedded server, and a test compares.  The schema `agent`, the
interface, comes first and complete; of `agent_internal` the page has names and comments.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg

from tests.docs_pages import ROOT
from tests.servers import run_server
from walagent.app.migrate import migrate

PAGE = ROOT / "docs" / "reference" / "schema.md"

Connection = psycopg.Connection[Any]

_INTRO = """# Schema

walagent's tables, views and functions, generated from the comments in the database.
`migrations/README.md` states how they relate, who writes what, and what they promise.
Only the schema `agent` is an interface ([stability](../stability.md)).
"""
_INTERNAL = """
## Schema agent_internal

Not an interface: it can change in any release. Functions without a comment are left out.
"""
_FUNCTIONS = """
select p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
       obj_description(p.oid, 'pg_proc')
  from pg_proc p
 where p.pronamespace = %s::regnamespace and p.prorettype <> 'trigger'::regtype
 order by p.proname, p.pronargs
"""
_RELATIONS = """
select c.relname,
       coalesce(obj_description(c.oid, 'pg_class'), obj_description(c.reltype, 'pg_type')),
       a.attname,
       format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end,
       col_description(c.oid, a.attnum)
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relnamespace = %s::regnamespace and c.relkind = %s
 order by c.relname, a.attnum
"""
_ENUMS = """
select t.typname, obj_description(t.oid, 'pg_type'),
       string_agg(format('`%%s`', e.enumlabel), ', ' order by e.enumsortorder)
  from pg_type t join pg_enum e on e.enumtypid = t.oid
 where t.typnamespace = %s::regnamespace
 group by t.oid
 order by t.typname
"""
# Of a table: 'r', of a view: 'v', of a composite type: 'c'.
_TABLE, _VIEW, _TYPE = "r", "v", "c"


def schema_page(conn: Connection) -> str:
    """Give the whole page."""
    parts = [
        _INTRO,
        "\n## Functions\n\n",
        _table(("function", "returns", "meaning"), _functions(conn, "agent")),
        *_relations(conn, "Tables", _TABLE),
        *_relations(conn, "Views", _VIEW),
        "\n## Types\n\n",
        _table(("type", "values", "meaning"), _types(conn)),
        _INTERNAL,
        "\n### Internal tables\n\n",
        _table(("table", "meaning"), _summaries(conn)),
        "\n### Internal functions\n\n",
        _table(("function", "meaning"), _internal_functions(conn)),
    ]
    return "".join(parts)


def _functions(conn: Connection, schema: str) -> Iterator[Iterable[str]]:
    for name, arguments, result, comment in conn.execute(_FUNCTIONS, [schema]):
        yield f"`{name}({arguments})`", f"`{result}`", comment


def _internal_functions(conn: Connection) -> Iterator[Iterable[str]]:
    for schema, prefix in (("agent_internal", ""), ("agent_signed", "agent_signed.")):
        for name, _, _, comment in conn.execute(_FUNCTIONS, [schema]):
            if comment:
                yield f"`{prefix}{name}`", comment


def _relations(conn: Connection, title: str, kind: str) -> Iterator[str]:
    yield f"\n## {title}\n"
    rows = conn.execute(_RELATIONS, ["agent", kind]).fetchall()
    for (name, comment), columns in groupby(rows, itemgetter(0, 1)):
        yield f"\n### agent.{name}\n\n{comment}.\n\n"
        yield _table(
            ("column", "type", "meaning"),
            ((f"`{column}`", f"`{type_}`", said or "") for _, _, column, type_, said in columns),
        )


def _types(conn: Connection) -> Iterator[Iterable[str]]:
    for name, comment, labels in conn.execute(_ENUMS, ["agent"]):
        yield f"`{name}`", labels, comment
    rows = conn.execute(_RELATIONS, ["agent", _TYPE]).fetchall()
    for (name, comment), columns in groupby(rows, itemgetter(0, 1)):
        yield (
            f"`{name}`",
            ", ".join(f"`{column} {type_}`" for _, _, column, type_, _ in columns),
            comment,
        )


def _summaries(conn: Connection) -> Iterator[Iterable[str]]:
    rows = conn.execute(_RELATIONS, ["agent_internal", _TABLE]).fetchall()
    for (name, comment), _ in groupby(rows, itemgetter(0, 1)):
        yield f"`{name}`", comment


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *(tuple(map(_cell, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def write() -> None:
    """Write the page, from an embedded server of its own."""
    with run_server("embedded") as dsn, psycopg.connect(dsn) as conn:
        asyncio.run(_migrate(dsn))
        PAGE.write_text(schema_page(conn), "utf-8")


async def _migrate(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await migrate(conn)
