"""Days that end at midnight on timestamps, and time zones that are applied twice.

Source: pg_proc.dat for the functions' OIDs.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from psycopg import sql

from walagent.ask.fanout.constants import literal
from walagent.ask.fanout.levels import QueryLevel, plain
from walagent.ask.fanout.rule import Item
from walagent.ask.fanout.stored import Names
from walagent.ask.traps.walk import Inside, Note, column_name, expressions, origin
from walagent.postgres import pgtypes

_TIMESTAMPS: Final = frozenset({pgtypes.TIMESTAMP, pgtypes.TIMESTAMPTZ})
_TURNED: Final = {">=": "<=", "=": "="}
_TO_LOCAL: Final = frozenset({1026, 1159})  # timezone(…, timestamptz): a timestamp there
_TO_INSTANT: Final = frozenset({2069, 2070})  # timezone(…, timestamp): a timestamptz
# What reads a timestamptz in the time zone of the session: date, time, timestamp, to_char, extract,
# date_part, date_trunc.
_CALENDAR: Final = frozenset({1178, 1388, 2019, 2027, 1770, 6203, 1171, 1217})


def session_zone(name: str | None) -> tzinfo:
    """Return the time zone of a session; UTC if Python does not know it."""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def cut_days(level: QueryLevel, names: Names, zone: tzinfo) -> Iterator[Note]:
    """Note comparisons of timestamps with a day that leave out what is later on that day."""
    for item, _, _ in expressions(level):
        sides = item.items("args")
        operator = level.facts.operators.get(item.number("opno"), "")
        if item.kind != "OPEXPR" or len(sides) != 2:  # noqa: PLR2004 - a < b
            continue
        column, constant = sides
        if column.kind == "CONST":
            column, constant, operator = constant, column, _TURNED.get(operator, "")
        day = _midnight(constant, zone)
        if operator in {"<=", "="} and day is not None and not (operator == "<=" and day.day == 1):
            yield from _cut_day(level, column, operator, day, names)


def _cut_day(
    level: QueryLevel, item: Item, operator: str, day: date, names: Names
) -> Iterator[Note]:
    place = plain(level, item)
    found = origin(level, place) if place is not None else None
    if place is None or found is None or found.relation not in names:
        return
    if item.number("vartype") not in _TIMESTAMPS:
        return
    schema, table, columns = names[found.relation]
    if found.column not in columns:
        return
    proof = sql.SQL(
        "exists (select from {table}"
        " where {column} > {day} and {column} < {day} + interval '1 day')"
    ).format(
        table=sql.Identifier(schema, table),
        column=sql.Identifier(columns[found.column]),
        day=sql.SQL("{}::{}").format(
            sql.Literal(f"{day} 00:00"),
            sql.SQL(
                "timestamptz" if item.number("vartype") == pgtypes.TIMESTAMPTZ else "timestamp"
            ),
        ),
    )
    name = column_name(level, place)
    said = {
        "<=": f"{name} <= {day} leaves out what is later on that day",
        "=": f"{name} = {day} finds only what is at midnight",
    }
    yield Note(said[operator], proof)


def _midnight(item: Item, zone: tzinfo) -> date | None:
    """Return the day of a constant that is a day, or a timestamp at midnight."""
    kind, text = item.number("consttype"), literal(item, {}) if item.kind == "CONST" else None
    if text is None or kind not in {pgtypes.DATE, *_TIMESTAMPS}:
        return None
    if kind == pgtypes.DATE:
        return date.fromisoformat(text)
    at = datetime.fromisoformat(text)
    local = at.astimezone(zone) if kind == pgtypes.TIMESTAMPTZ else at
    return local.date() if local.time() == time() else None


def twice_shifted(level: QueryLevel, zone: tzinfo) -> Iterator[Note]:
    """Note a local time that AT TIME ZONE shifts, and a second AT TIME ZONE of another zone."""
    for item, around, _ in expressions(level):
        args = item.items("args")
        if item.kind != "FUNCEXPR" or item.number("funcid") not in _TO_INSTANT or len(args) != 2:  # noqa: PLR2004
            continue
        to, of = _zone(args[0]), args[1]
        inner = of.items("args")
        if of.kind == "FUNCEXPR" and of.number("funcid") in _TO_LOCAL and len(inner) > 1:
            first = _zone(inner[0])
            if to and first and not _same(to, first):
                yield Note(f"AT TIME ZONE {to} takes the local time of {first} for one of {to}")
            continue
        place = plain(level, of)
        if place is not None and to and not _same(to, str(zone)) and _reads_calendar(around):
            name = column_name(level, place)
            yield Note(
                f"{name} has no time zone: AT TIME ZONE {to} takes it for local time there and"
                f" shifts it to {zone}"
            )


def _zone(item: Item) -> str:
    """Return the name of a constant time zone; "" if it is not constant."""
    while item.kind in {"RELABELTYPE", "COERCEVIAIO"} and item.items("arg"):
        item = item.items("arg")[0]
    return literal(item, {}) or ""


def _same(one: str, other: str) -> bool:
    """Return whether two time zones have the same offsets, in winter and in summer."""
    if one.casefold() == other.casefold():
        return True
    zones = [session_zone(name) for name in (one, other)]
    days = [datetime(2025, month, 1, tzinfo=UTC) for month in (1, 7)]
    offsets = [[day.astimezone(each).utcoffset() or timedelta() for day in days] for each in zones]
    return offsets[0] == offsets[1]


def _reads_calendar(around: Inside) -> bool:
    return bool(around) and around[-1].number("funcid") in _CALENDAR
