"""Totals of amounts in several currencies or units, where a column says which."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from psycopg import sql

from walagent.ask.fanout.keys import determined, groups_of
from walagent.ask.fanout.levels import Place, QueryLevel, places_of, plain
from walagent.ask.fanout.rule import Item
from walagent.ask.fanout.stored import LOOKED_AT, Names, condition
from walagent.ask.traps.walk import Note, Origin, expressions, origin, walk
from walagent.ask.verify import has_word

_CURRENCY: Final = re.compile(r"currency|currencies|ccy|curr|waehrung|währung|devise|moneda|valuta")
_UNIT: Final = re.compile(r"unit|uom|einheit|unidad")
# Numbers that are in no currency, or were converted to one.
_NO_MONEY: Final = re.compile(
    r"id|no|nr|number|num|count|n|quantity|qty|items?|pieces?|units?|lines?|weight|volume|length"
    r"|width|height|rate|fx|factor|ratio|share|percent|pct|discount_percent|days?|hours?|minutes?"
    r"|seconds?|years?|months?|weeks?|age|score|rating|points?|stars?|rank|position|stock|version"
    r"|visits?|clicks?|views?|converted|normalized|base|eur|euros?|usd|dollars?|gbp|chf|jpy|yen"
)
_MEASURED: Final = re.compile(
    r"quantity|qty|amount|value|weight|volume|length|size|measure|measurement|reading|level|menge"
)
_RATE: Final = re.compile(r"rate|fx|factor|exchange|conversion|per")
_VERBS: Final = {"sum": "sum adds up", "avg": "avg averages"}


def mixed(level: QueryLevel, names: Names) -> Iterator[Note]:
    """Note the totals of one query that add up several currencies or units."""
    for item, _, _ in expressions(level):
        total = level.facts.totals.get(item.number("aggfnoid"), "")
        if item.kind == "AGGREF" and total in _VERBS:
            yield from _of_total(level, item, total, names)


def _of_total(level: QueryLevel, total: Item, verb: str, names: Names) -> Iterator[Note]:
    places = sorted(places_of(level, total.fields.get("args", [])))
    chosen = places_of(level, total.fields.get("aggfilter", []))
    origins = [found for place in places if (found := origin(level, place)) is not None]
    called = [_name(each, names) for each in origins]
    if any(has_word(_RATE, name) for name in called):
        return
    used = {*map(_key, origins), *(_key(origin(level, place)) for place in chosen)}
    for each, name in zip(origins, called, strict=True):
        for kind, words, other in _kinds(each, name, names):
            paths = (*each.path, *other.path)
            if _key(other) in used or any(_is_told_apart(at, words, names) for at, _ in paths):
                continue
            if (proof := _several(level, other, names)) is None:
                continue
            yield Note(
                f"{_VERBS[verb]} {names[each.relation][1]}.{name} of several {kind}"
                f" ({names[other.relation][1]}.{_name(other, names)})",
                proof,
            )
            return


def _kinds(
    amount: Origin, name: str, names: Names
) -> Iterator[tuple[str, re.Pattern[str], Origin]]:
    """Yield the columns that say in which currency or unit an amount is, of its own table first."""
    if amount.relation not in names:
        return
    own = names[amount.relation][2]
    base, (source, _) = amount.path[-1]
    for kind, words, fits in (
        ("currencies", _CURRENCY, not has_word(_NO_MONEY, name)),
        ("units", _UNIT, has_word(_MEASURED, name)),
    ):
        if not fits:
            continue
        found = [column for column, title in own.items() if _says(words, title)]
        if found:
            path = (*amount.path[:-1], (base, (source, found[0])))
            yield kind, words, Origin(amount.relation, found[0], path)
        elif kind == "currencies":
            yield from ((kind, words, each) for each in _of_others(amount, words, names))


def _of_others(amount: Origin, words: re.Pattern[str], names: Names) -> Iterator[Origin]:
    """Yield such columns of the tables of which each amount has one row."""
    for level, (source, _) in amount.path:
        for other in sorted(determined(level, {source}, set()) - {source}):
            entry = level.table[other - 1]
            relation = entry.number("relid")
            for column, title in names.get(relation, ("", "", {}))[2].items():
                if _says(words, title):
                    yield Origin(relation, column, ((level, (other, column)),))


def _says(words: re.Pattern[str], name: str) -> bool:
    return has_word(words, name) and not has_word(_SAYS_ELSE, name)


_SAYS_ELSE: Final = re.compile(r"price|amount|total|cost|rate|count|quantity|qty|number|symbol|no")


def _is_told_apart(level: QueryLevel, words: re.Pattern[str], names: Names) -> bool:
    """Return whether a query groups by a currency or unit, or compares one with something."""
    places = groups_of(level) | {place for place, _ in level.bound}
    places |= {place for sides in _equalities(level) for place in sides if place is not None}
    origins = [found for place in places if (found := origin(level, place)) is not None]
    return any(_says(words, _name(each, names)) for each in origins)


def _equalities(level: QueryLevel) -> Iterator[tuple[Place | None, ...]]:
    """Yield both sides of each equality in FROM and WHERE; None for what is no column of it."""
    for tree in level.query.items("jointree"):
        for item, _ in walk(tree):
            if level.facts.operators.get(item.number("opno")) == "=":
                yield tuple(plain(level, side) for side in item.items("args"))


def _key(found: Origin | None) -> tuple[int, int]:
    return (found.relation, found.column) if found is not None else (0, 0)


def _name(found: Origin, names: Names) -> str:
    return names.get(found.relation, ("", "", {}))[2].get(found.column, "")


def _several(level: QueryLevel, kind: Origin, names: Names) -> sql.Composable | None:
    """Return a query for whether a group has several values, in rows that plain conditions leave.

    None if the groups are not of the table with the kind, nor of one that it is joined to.
    """
    schema, table, columns = names[kind.relation]
    base, (source, _) = kind.path[-1]
    joins: dict[int, sql.Composable] = {}
    groups: list[sql.Composable] = []
    places = [(level, place) for place in groups_of(level)]
    places += [(base, place) for place in _of_around(base, source)]
    for at, place in places:
        found = origin(at, place)
        if found is None or found.column not in names.get(found.relation, ("", "", {}))[2]:
            return None
        if found.relation != kind.relation and found.relation not in joins:
            joined = _joined(level, kind.relation, found.relation, names)
            if joined is None:
                return None
            joins[found.relation] = joined
        groups.append(_column(found.relation, _name(found, names)))
    filters = [each for each in base.filters.get(source, []) if each.column in columns]
    wanted: Sequence[sql.Composable] = [condition(each, columns) for each in filters]
    return sql.SQL(
        "exists (select from (select * from {table} where {wanted} limit {most}) {alias} {joins}"
        " where {filled} {groups} having count(distinct {column}) > 1)"
    ).format(
        table=sql.Identifier(schema, table),
        wanted=sql.SQL(" and ").join(wanted or [sql.SQL("true")]),
        most=sql.Literal(LOOKED_AT),
        alias=sql.Identifier(f"r{kind.relation}"),
        joins=sql.SQL(" ").join(joins.values()),
        # A group of NULL is often dropped by a join later on.
        filled=sql.SQL(" and ").join(
            [sql.SQL("{} is not null").format(each) for each in groups] or [sql.SQL("true")]
        ),
        groups=sql.SQL("group by {}").format(sql.SQL(", ").join(groups)) if groups else sql.SQL(""),
        column=_column(kind.relation, columns[kind.column]),
    )


def _of_around(level: QueryLevel, source: int) -> Iterator[Place]:
    """Yield the columns of a source that are compared with the query around: one group each."""
    for sides in _equalities(level):
        if None in sides:
            yield from (each for each in sides if each is not None and each[0] == source)


def _joined(level: QueryLevel, relation: int, other: int, names: Names) -> sql.Composable | None:
    """Write the join of another table by the equalities of a query."""
    on: list[sql.Composable] = []
    for sides in _equalities(level):
        found = [origin(level, place) for place in sides if place is not None]
        known = {each.relation: each for each in found if each is not None}
        if known.keys() == {relation, other}:
            on.append(
                sql.SQL("{} = {}").format(
                    *(_column(each, _name(known[each], names)) for each in (relation, other))
                )
            )
    schema, table, _ = names[other]
    if not on:
        return None
    return sql.SQL("join {} {} on {}").format(
        sql.Identifier(schema, table), sql.Identifier(f"r{other}"), sql.SQL(" and ").join(on)
    )


def _column(relation: int, name: str) -> sql.Composable:
    return sql.Identifier(f"r{relation}", name)
