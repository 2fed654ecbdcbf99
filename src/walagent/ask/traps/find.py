"""Say what a statement seems to mean and does not, from the rule that PostgreSQL makes of it.

What the data can prove is noted only if they do.
"""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Final

from psycopg import Error

from walagent.ask.fanout.levels import LevelFacts
from walagent.ask.fanout.rule import Item
from walagent.ask.fanout.stored import (
    SECONDS,
    Names,
    holds,
    read_facts,
    read_stored,
    undone,
)
from walagent.ask.traps.currencies import mixed
from walagent.ask.traps.division import divisions
from walagent.ask.traps.nulls import null_lists
from walagent.ask.traps.times import cut_days, session_zone, twice_shifted
from walagent.ask.traps.walk import Note, levels
from walagent.errors import StatementRefusedError
from walagent.guard.query import Guard
from walagent.guard.statement import read_statement
from walagent.rows.rows import Rows

_WORTH: Final = re.compile(r"/|\b(in|all|between|zone|sum|avg|timezone)\b|<=|>=|=", re.IGNORECASE)
_MOST: Final = 8  # notes that are proved


async def find_traps(guard: Guard, text: str, rows: Rows) -> Sequence[str]:
    """Say what is odd about a statement.

    Args:
        text: a statement that the guard has let run.
        rows: what it gave.
    """
    if not _WORTH.search(text) or read_statement(text).explain is not None:
        return ()
    try:
        return await guard.within(3 * SECONDS, _find(guard, text, rows))
    except (Error, StatementRefusedError, RecursionError):
        return ()  # too slow, or too deep; the statement did run, so nothing is wrong with it


async def _find(guard: Guard, text: str, rows: Rows) -> Sequence[str]:
    conn = guard.analyst or guard.conn
    async with undone(conn, "read write"):
        rule = await read_stored(conn, text, guard.search_path)
        facts, names = await read_facts(conn, rule)
        zone = session_zone(conn.info.parameter_status("TimeZone"))
    found = await asyncio.to_thread(lambda: list(_notes(rule, facts, names, zone)))
    empty = all(value in {None, "0"} for row in rows.texts for value in row)
    limits = replace(guard.limits, seconds=SECONDS, lock_seconds=SECONDS)
    quick = replace(guard, limits=limits)
    deadline = time.monotonic() + SECONDS
    said: list[str] = []
    for note in found[:_MOST]:
        if note.if_empty and not empty:
            continue
        if note.proof is not None:
            if time.monotonic() > deadline:
                break
            async with undone(guard.conn, "read only"):
                if not await holds(quick, note.proof):
                    continue
        said.append(note.said)
    return tuple(dict.fromkeys(said))


def _notes(rule: Sequence[Item], facts: LevelFacts, names: Names, zone: tzinfo) -> Iterator[Note]:
    for level in levels(rule, facts):
        yield from divisions(level)
        yield from null_lists(level, names)
        yield from cut_days(level, names, zone)
        yield from twice_shifted(level, zone)
        yield from mixed(level, names)
