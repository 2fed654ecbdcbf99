"""Says which totals of a statement count rows that a join repeats, and proves it by the data.

`joins` finds the suspects in the rule that PostgreSQL makes of the statement; here the catalog is
asked for keys, and the table for two rows that would meet one.  No finding is a guess: a total that
nobody could prove to be wrong is not mentioned.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from psycopg import Error, sql

from walagent.ask.fanout.joins import Many, Suspect, listed, suspects
from walagent.ask.fanout.stored import (
    LOOKED_AT,
    SECONDS,
    Names,
    condition,
    holds,
    read_facts,
    read_stored,
    undone,
)
from walagent.errors import StatementRefusedError
from walagent.guard.query import Guard
from walagent.guard.statement import read_statement
from walagent.rows.rows import Rows

_TOTAL: Final = re.compile(r"\b(sum|count|avg)\b", re.IGNORECASE)
_JOIN: Final = re.compile(r"\bjoin\b|\bfrom\b.*,", re.IGNORECASE | re.DOTALL)
_MOST: Final = 8  # suspects that are looked into


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
        return await guard.within(2 * SECONDS, _find(guard, text, doubled=doubled))
    except (Error, StatementRefusedError, RecursionError):
        return ()  # too slow, or too deep; the statement did run, so nothing is wrong with it


async def _find(guard: Guard, text: str, *, doubled: bool) -> Sequence[str]:
    conn = guard.analyst or guard.conn
    async with undone(conn, "read write"):
        rule = await read_stored(conn, text, guard.search_path)
        facts, names = await read_facts(conn, rule)
    found = [
        *await asyncio.to_thread(suspects, rule, facts),
        *(await asyncio.to_thread(listed, rule, facts) if doubled else ()),
    ]
    found = [each for each in dict.fromkeys(found) if each.many.relation in names][:_MOST]
    proven: set[Many] = set()
    limits = replace(guard.limits, seconds=SECONDS, lock_seconds=SECONDS)
    quick = replace(guard, limits=limits)
    deadline = time.monotonic() + SECONDS
    for many in dict.fromkeys(each.many for each in found):
        if time.monotonic() > deadline:
            break
        async with undone(guard.conn, "read only"):
            if await _repeats(quick, many, names):
                proven.add(many)
    return tuple(dict.fromkeys(_said(each, names) for each in found if each.many in proven))


async def _repeats(guard: Guard, many: Many, names: Names) -> bool:
    """Look for two rows that belong together."""
    schema, name, columns = names[many.relation]
    if not many.columns | {each.column for each in many.filters} <= columns.keys():
        return False  # a system column
    same = [sql.Identifier(columns[n]) for n in sorted(many.columns)]
    wanted = [sql.SQL("{} is not null").format(each) for each in same]
    wanted += [condition(each, columns) for each in many.filters]
    asked = sql.SQL(
        "exists (select from (select {same} from {table} where {wanted} limit {most}) q"
        " group by {same} having count(*) > 1)"
    ).format(
        same=sql.SQL(", ").join(same),
        table=sql.Identifier(schema, name),
        wanted=sql.SQL(" and ").join(wanted),
        most=sql.Literal(LOOKED_AT),
    )
    return await holds(guard, asked)


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
