"""Says which totals of a statement count rows that a join repeats, and proves it by the data.

`joins` finds the suspects in the rule that PostgreSQL makes of the statement; here the catalog is
asked for keys, and the table for two rows that would meet one.  No finding is a guess: a total that
nobody could prove to be wrong is not mentioned.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Final

from psycopg import Error, sql

from walagent.ask.fanout.joins import Many, Suspect, constants, listed, numbers, relations, suspects
from walagent.ask.fanout.levels import Filter, LevelFacts
from walagent.ask.fanout.rule import Item, read_rule
from walagent.errors import StatementRefusedError
from walagent.guard.query import Connection, Guard
from walagent.guard.statement import read_statement
from walagent.rows.rows import Rows
from walagent.store.queries import query

_TOTAL: Final = re.compile(r"\b(sum|count|avg)\b", re.IGNORECASE)
_JOIN: Final = re.compile(r"\bjoin\b|\bfrom\b.*,", re.IGNORECASE | re.DOTALL)
_LOOKED_AT: Final = 100_000  # rows of a table, in which two that belong together are looked for
_MOST: Final = 8  # suspects that are looked into
_LONGEST: Final = 1_000_000  # characters of a rule; a longer one would hold all others up
_SECONDS: Final = 2  # for one look, and until the last one begins; what takes longer proves nothing

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

Names = dict[int, tuple[str, str, dict[int, str]]]  # schema, name and columns of a relation


async def find_repeats(guard: Guard, text: str, rows: Rows) -> Sequence[str]:
    """Say what a statement counts or lists more than once.

    Args:
        text: a statement that the guard has let run.
        rows: what it gave.
    """
    doubled = len(set(rows.texts)) < len(rows)
    worth = _TOTAL.search(text) or doubled
    if not (worth and _JOIN.search(text)) or read_statement(text).explain is not None:
        return ()
    try:
        return await guard.within(2 * _SECONDS, _find(guard, text, doubled=doubled))
    except (Error, StatementRefusedError, RecursionError):
        return ()  # too slow, or too deep; the statement did run, so nothing is wrong with it


async def _find(guard: Guard, text: str, *, doubled: bool) -> Sequence[str]:
    conn = guard.analyst or guard.conn
    async with _undone(conn, guard.search_path, "read write"):
        rule = await _rule(conn, text)
        facts, names = await _facts(conn, rule)
    found = [
        *await asyncio.to_thread(suspects, rule, facts),
        *(await asyncio.to_thread(listed, rule, facts) if doubled else ()),
    ]
    found = [each for each in dict.fromkeys(found) if each.many.relation in names][:_MOST]
    proven: set[Many] = set()
    limits = replace(guard.limits, seconds=_SECONDS, lock_seconds=_SECONDS)
    quick = replace(guard, limits=limits)
    deadline = time.monotonic() + _SECONDS
    for many in dict.fromkeys(each.many for each in found):
        if time.monotonic() > deadline:
            break
        async with _undone(guard.conn, guard.search_path, "read only"):
            if await _repeats(quick, many, names):
                proven.add(many)
    return tuple(dict.fromkeys(_said(each, names) for each in found if each.many in proven))


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
        if not conn.closed:
            await conn.rollback()


async def _rule(conn: Connection, text: str) -> Sequence[Item]:
    """Let PostgreSQL make a rule of the statement, as the guard did."""
    view = read_statement(text).wrapped(f"create temp view {_VIEW} as select")
    await conn.execute(view.encode(), binary=True)  # by the extended protocol: one statement
    row = await (await conn.execute(_RULE)).fetchone()
    if row is None or len(row[0]) > _LONGEST:
        return ()
    return await asyncio.to_thread(read_rule, row[0])


async def _facts(conn: Connection, rule: Sequence[Item]) -> tuple[LevelFacts, Names]:
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
    return LevelFacts(keys, operators, totals, labels), names


async def _repeats(guard: Guard, many: Many, names: Names) -> bool:
    """Look for two rows that belong together."""
    schema, name, columns = names[many.relation]
    if not many.columns | {each.column for each in many.filters} <= columns.keys():
        return False  # a system column
    same = [sql.Identifier(columns[n]) for n in sorted(many.columns)]
    wanted = [sql.SQL("{} is not null").format(each) for each in same]
    wanted += [_condition(each, columns) for each in many.filters]
    asked = sql.SQL(
        "select exists (select from (select {same} from {table} where {wanted} limit {most}) q"
        " group by {same} having count(*) > 1)::text"
    ).format(
        same=sql.SQL(", ").join(same),
        table=sql.Identifier(schema, name),
        wanted=sql.SQL(" and ").join(wanted),
        most=sql.Literal(_LOOKED_AT),
    )
    async with aclosing(guard.stream(asked.as_string(guard.conn))) as found:
        return [row async for row in found] == [("true",)]


def _condition(each: Filter, columns: Mapping[int, str]) -> sql.Composable:
    column, operator = sql.Identifier(columns[each.column]), _OPERATORS[each.operator]
    value = sql.SQL("") if each.value is None else sql.Literal(each.value)
    return sql.SQL("{} {} {}").format(column, operator, value)


def _said(suspect: Suspect, names: Names) -> str:
    known, other = names.get(suspect.relation), names[suspect.many.relation]
    table, many = known[1] if known else suspect.alias, other[1]
    verb = {"sum": "sum adds up", "avg": "avg averages", "count": "count counts"}
    what = (
        f"{verb[suspect.total]} {table}.{suspect.column}"
        if suspect.total
        else f"a row of {table} comes"
    )
    return (
        f"{what} once for each row of {many} that a row of {table} is joined to,"
        f" not once for each {table}"
    )
