"""Says which totals of a statement count rows that a join repeats, and proves it by the data.

`joins` finds the suspects in the rule that PostgreSQL makes of the statement; here the catalog is
asked for keys, and the table for two rows that would meet one.  No finding is a guess: a total that
nobody could prove to be wrong is not mentioned.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from psycopg import Error, sql

from walagent.errors import StatementRefusedError
from walagent.store.guard.joins import (
    Facts,
    Filter,
    Many,
    Suspect,
    constants,
    numbers,
    relations,
    suspects,
)
from walagent.store.guard.query import Connection, Guard
from walagent.store.guard.rule import Item, read_rule
from walagent.store.guard.statement import read_statement
from walagent.store.queries import query

_WORTH: Final = re.compile(
    r"\b(sum|count|avg)\s*\(.*(\bjoin\b|\bfrom\b.*,)", re.IGNORECASE | re.DOTALL
)
_LOOKED_AT: Final = 100_000  # rows of a table, in which two that belong together are looked for
_MOST: Final = 8  # suspects that are looked into
_SECONDS: Final = 2  # for each look; a table that takes longer proves nothing

_OPERATORS: Final = {
    "=": sql.SQL("="),
    "<>": sql.SQL("<>"),
    "<": sql.SQL("<"),
    "<=": sql.SQL("<="),
    ">": sql.SQL(">"),
    ">=": sql.SQL(">="),
    "is null": sql.SQL("is null"),
    "is not null": sql.SQL("is not null"),
}
_VIEW: Final = "walagent_joins"
_RULE: Final = """
select ev_action::text from pg_rewrite where ev_class = 'pg_temp.walagent_joins'::regclass
"""


async def find_repeats(guard: Guard, text: str) -> Sequence[str]:
    """Say what a statement, which the guard has let run, counts more than once."""
    if not _WORTH.search(text) or read_statement(text).explain is not None:
        return ()
    conn = guard.analyst or guard.conn
    try:
        async with _undone(conn, guard.search_path, "read write"):
            rule = await _rule(conn, text)
            facts, names = await _facts(conn, rule)
        found = [
            each
            for each in dict.fromkeys(suspects(rule, facts))
            if {each.relation, each.many.relation} <= names.keys()
        ][:_MOST]
        proven: set[Many] = set()
        for many in {each.many for each in found}:
            async with _undone(guard.conn, guard.search_path, "read only"):
                if await _repeats(guard.conn, many, names):
                    proven.add(many)
    except (Error, StatementRefusedError):
        return ()  # the statement itself did run, so nothing is wrong with it
    return tuple(dict.fromkeys(_said(each, names) for each in found if each.many in proven))


Names = dict[int, tuple[str, str, dict[int, str]]]  # schema, name and columns of a relation


@asynccontextmanager
async def _undone(conn: Connection, search_path: str, mode: str) -> AsyncGenerator[None]:
    """Open a transaction that is always rolled back, and that takes no time to speak of."""
    await conn.execute(f"begin transaction {mode}".encode())
    try:
        await conn.execute(
            "select set_config('search_path', %s, true),"
            " set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true),"
            " set_config('standard_conforming_strings', 'on', true),"
            " set_config('row_security', 'on', true), set_config('jit', 'off', true),"
            " set_config('client_min_messages', 'error', true)",
            [search_path, f"{_SECONDS}s", f"{_SECONDS}s"],
        )
        yield
    finally:
        await conn.rollback()


async def _rule(conn: Connection, text: str) -> Sequence[Item]:
    """Let PostgreSQL make a rule of the statement, as the guard did."""
    view = read_statement(text).wrapped(f"create temp view {_VIEW} as select")
    await conn.execute(view.encode(), binary=True)  # by the extended protocol: one statement
    row = await (await conn.execute(_RULE)).fetchone()
    return read_rule(row[0]) if row else ()


async def _facts(conn: Connection, rule: Sequence[Item]) -> tuple[Facts, Names]:
    """Ask the catalog about what the rule mentions."""
    asked = {
        "relations": list(relations(rule)),
        "operators": list(numbers(rule, "opno")),
        "functions": list(numbers(rule, "aggfnoid")),
        "values": list(constants(rule)),
    }
    cursor = await conn.execute(query("guard_joins"), asked)
    names: Names = {}
    keys: dict[int, list[frozenset[int]]] = {}
    operators: dict[int, str] = {}
    totals: dict[int, str] = {}
    labels: dict[tuple[int, int], str] = {}
    for kind, oid, schema, name, columns, unique in await cursor.fetchall():
        match kind:
            case "relation":
                names[oid] = schema, name, {int(n): column for n, column in columns.items()}
                keys[oid] = [frozenset(key) for key in unique]
            case "operator":
                operators[oid] = name
            case "total":
                totals[oid] = name
            case _:
                labels[unique, oid] = name
    return Facts(keys, operators, totals, labels), names


async def _repeats(conn: Connection, many: Many, names: Names) -> bool:
    """Look for two rows that belong together."""
    schema, name, columns = names[many.relation]
    if not many.columns | {each.column for each in many.filters} <= columns.keys():
        return False  # a system column
    same = [sql.Identifier(columns[n]) for n in sorted(many.columns)]
    wanted = [sql.SQL("{} is not null").format(each) for each in same]
    wanted += [_condition(each, columns) for each in many.filters]
    asked = sql.SQL(
        "select exists (select from (select {same} from {table} where {wanted} limit {most}) q"
        " group by {same} having count(*) > 1)"
    ).format(
        same=sql.SQL(", ").join(same),
        table=sql.Identifier(schema, name),
        wanted=sql.SQL(" and ").join(wanted),
        most=sql.Literal(_LOOKED_AT),
    )
    row = await (await conn.execute(asked)).fetchone()
    return bool(row and row[0])


def _condition(each: Filter, columns: Mapping[int, str]) -> sql.Composable:
    column, operator = sql.Identifier(columns[each.column]), _OPERATORS[each.operator]
    value = sql.SQL("") if each.value is None else sql.Literal(each.value)
    return sql.SQL("{} {} {}").format(column, operator, value)


def _said(suspect: Suspect, names: Names) -> str:
    _, table, columns = names[suspect.relation]
    _, many, _ = names[suspect.many.relation]
    verb = {"sum": "adds up", "avg": "averages"}.get(suspect.total, "counts")
    column = columns.get(suspect.column, "*")
    return (
        f"{suspect.total} {verb} {table}.{column} once for each row of {many} that a row of"
        f" {table} is joined to, not once for each {table}"
    )
