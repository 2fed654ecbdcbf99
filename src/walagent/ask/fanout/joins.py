"""Which totals and rows of a statement come more than once, because a join repeats them.

A total over columns of some sources is right as long as everything else that they are joined to is
determined by them (`keys`).  What is not understood (other conditions, functions, subqueries
without a known key) leads to no finding.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from walagent.ask.fanout.constants import as_integer
from walagent.ask.fanout.keys import determined, groups_of, keys_of
from walagent.ask.fanout.levels import (
    RELATION,
    Filter,
    Key,
    LevelFacts,
    Place,
    QueryLevel,
    places_of,
    plain,
    read_level,
)
from walagent.ask.fanout.rule import Item, inside, queries
from walagent.postgres.pgtypes import FIRST_OF_USERS

_TOTALS: Final = {"sum", "count", "avg"}
# What makes other rows of those that a join gives.
_MADE: Final = ("groupClause", "distinctClause", "setOperations", "groupingSets")
_DOING: Final = ("hasAggs", "hasTargetSRFs", "hasWindowFuncs")


@dataclass(frozen=True, slots=True)
class Many:
    """A relation of which several rows may meet one; `repeats` asks the data whether they do.

    Args:
        columns: that are the same in those rows.
        filters: what else the statement wants of them.
    """

    relation: int
    columns: Key
    filters: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class Suspect:
    """Rows that would count more than once.

    Args:
        total: the aggregate that counts them; "" where they are listed as they are.
        relation: whose rows; 0 where they are those of a query, which has only the alias.
        alias, column: what the statement calls it.
        many: what repeats them.
    """

    total: str
    relation: int
    alias: str
    column: str
    many: Many


def suspects(rule: Sequence[Item], facts: LevelFacts) -> Iterator[Suspect]:
    """Give the totals of a statement that a join may make wrong, wherever in it they stand."""
    for query, around in chain.from_iterable(map(queries, rule)):
        if query.word("hasAggs") == "true":
            yield from _suspects_of(read_level(query, around, facts))


def _suspects_of(level: QueryLevel) -> Iterator[Suspect]:
    one_a_group = determined(level, set(), groups_of(level))
    for total, name in _totals(level):
        places = places_of(level, total.fields.get("args", []))
        chosen = places_of(level, total.fields.get("aggfilter", []))
        start = {source for source, _ in places}
        if not start or not start <= level.sources or not {s for s, _ in chosen} <= start:
            continue
        known = determined(level, start, set())
        for other in sorted(level.sources - known - one_a_group):
            weighs = name != "avg" or not start <= determined(level, {other}, set())
            if weighs and (suspect := _suspect(level, name, min(places), known, other)):
                yield suspect


def listed(rule: Sequence[Item], facts: LevelFacts) -> Iterator[Suspect]:
    """Give what repeats the rows of a statement's answer, if these are rows of one source.

    They are where a key of it is among the columns, and nothing of what it is joined to.
    """
    level = _answering(rule, facts)
    if level is None:
        return
    targets = [each for each in level.query.items("targetList") if each.word("resjunk") != "true"]
    shown = [expr for target in targets for expr in target.items("expr")]
    columns = {place for expr in shown if (place := plain(level, expr)) is not None}
    sources = {source for source, _ in places_of(level, shown)}
    for source in sorted(level.sources):
        known = determined(level, {source}, set())
        has_key = any({(source, n) for n in key} <= columns for key in keys_of(level, source))
        if has_key and sources <= known:
            for other in sorted(level.sources - known):
                if suspect := _suspect(level, "", (source, 0), known, other):
                    yield suspect


def _answering(rule: Sequence[Item], facts: LevelFacts) -> QueryLevel | None:
    """Give the query whose rows are the answer as they are: not grouped, nor made distinct."""
    for view in rule:
        outer = read_level(view, (), facts)
        for source in outer.sources:
            query = outer.table[source - 1].item("subquery")
            if query is not None and not any(map(query.items, _MADE)) and not _has(query, _DOING):
                return read_level(query, (view,), facts)
    return None


def _has(query: Item, flags: Sequence[str]) -> bool:
    return any(query.word(flag) == "true" for flag in flags)


def _suspect(
    level: QueryLevel, total: str, place: Place, known: set[int], other: int
) -> Suspect | None:
    """Say what *other* makes of a column of what is *known*; None where that is not clear."""
    source, column = place
    entry, many = level.table[source - 1], _many(level, other, known)
    relation = entry.number("relid")
    if many is None or many.relation == relation:  # pairs of one table's rows are meant
        return None
    alias = entry.item("eref")
    names = [_name(each) for each in alias.words("colnames")] if alias else []
    called = names[column - 1] if 0 < column <= len(names) else "*"
    return Suspect(total, relation, _name(alias.word("aliasname")) if alias else "", called, many)


def _name(word: str) -> str:
    """Take the quotes and escapes of a stored rule off a name."""
    return re.sub(r"\\(.)", r"\1", word.strip('"'))


def _many(level: QueryLevel, other: int, known: set[int]) -> Many | None:
    """Say in what *other* repeats rows of *known*; None where that is not clear."""
    entry = level.table[other - 1]
    beside = level.sources - known - {other}
    if entry.number("rtekind") != RELATION or other in level.unclear or beside & level.unclear:
        return None
    if any(level.filters.get(source) for source in beside):
        return None
    mine = [(column, by) for (source, column), by in level.bound if source == other and by]
    columns = frozenset(column for column, by in mine if by <= known)
    if not columns:
        return None
    return Many(entry.number("relid"), columns, tuple(level.filters.get(other, ())))


def _totals(level: QueryLevel) -> Iterator[tuple[Item, str]]:
    """Give the aggregates of this level that add up or count, each row as often as it comes."""
    for clause in ("targetList", "havingQual"):
        for item in chain.from_iterable(map(_below, level.query.items(clause))):
            name = level.facts.totals.get(item.number("aggfnoid"), "")
            if item.kind == "AGGREF" and name in _TOTALS and not item.items("aggdistinct"):
                yield item, name


def _below(item: Item) -> Iterator[Item]:
    """Give a node and all below it that belong to the same query."""
    if item.kind != "QUERY":
        yield item
        for each in inside(item):
            yield from _below(each)


# What is to be asked of the catalog.


def relations(rule: Sequence[Item]) -> set[int]:
    """Give the relations that a statement reads itself, for asking the catalog."""
    return {
        entry.number("relid")
        for query, _ in chain.from_iterable(map(queries, rule))
        for entry in query.items("rtable")
        if entry.number("rtekind") == RELATION
    }


def numbers(rule: Sequence[Item], name: str) -> set[int]:
    """Give what stands in a field of any node."""
    return {item.number(name) for item in every(rule)} - {0}


def constants(rule: Sequence[Item]) -> set[int]:
    """Give the constants that could be values of an enum: these are OIDs."""
    found = {as_integer(item) for item in every(rule) if item.kind == "CONST"}
    return {each for each in found if FIRST_OF_USERS <= each < 1 << 32}


def every(items: Iterable[Item]) -> Iterator[Item]:
    """Give nodes and all that are inside."""
    for item in items:
        yield item
        yield from every(inside(item))
