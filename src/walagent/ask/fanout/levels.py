"""One query of a statement, as its stored rule has it: its sources, and what its conditions say."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from walagent.ask.fanout.constants import Labels, literal
from walagent.ask.fanout.rule import Item

RELATION: Final = 0  # RTEKind of parsenodes.h, as the next ones
SUBQUERY: Final = 1
_JOIN: Final = 2
CTE: Final = 6
GROUP: Final = 9
_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}

Key = frozenset[int]  # columns by their numbers
Place = tuple[int, int]  # a source by its place in FROM's list, and a column of it


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one column: an operator, and where it takes one, a constant as text."""

    column: int
    operator: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class LevelFacts:
    """What the catalog says.

    Args:
        keys: of each relation, its unique keys.
        operators: names of those that compare, by OID.
        totals: names of aggregates, by OID; only those that count here.
        labels: of enum values, by type and OID.
        filled: of each relation, its columns that are NOT NULL.
        found: keys of queries that were looked for before; else CTEs that use one another twice
            would take twice as long each.
    """

    keys: Mapping[int, Sequence[Key]]
    operators: Mapping[int, str]
    totals: Mapping[int, str]
    labels: Labels
    filled: Mapping[int, frozenset[int]]
    found: dict[int, Sequence[Key]] = field(default_factory=dict[int, "Sequence[Key]"])


@dataclass(slots=True)
class QueryLevel:
    """One query: its sources, and what its conditions say about them.

    Args:
        bound: columns that are equal to something, and the sources that this comes from.
        filters: conditions on one column of a source.
        unclear: sources with a condition that is not understood.
    """

    query: Item
    around: tuple[Item, ...]
    facts: LevelFacts
    table: Sequence[Item]
    sources: set[int] = field(default_factory=set[int])
    bound: list[tuple[Place, frozenset[int]]] = field(
        default_factory=list[tuple[Place, frozenset[int]]]
    )
    filters: dict[int, list[Filter]] = field(default_factory=dict[int, "list[Filter]"])
    unclear: set[int] = field(default_factory=set[int])


def read_level(query: Item, around: tuple[Item, ...], facts: LevelFacts) -> QueryLevel:
    """Read a query.

    Args:
        around: the queries that it stands in, the outermost first.
    """
    level = QueryLevel(query, around, facts, query.items("rtable"))
    tree = query.item("jointree")
    if tree is not None:
        _read_from(level, tree)
    return level


def _read_from(level: QueryLevel, item: Item) -> None:
    """Read FROM and WHERE: an outer join repeats rows as an inner one does."""
    if item.kind == "RANGETBLREF":
        level.sources.add(item.number("rtindex"))
        return
    for quals in item.items("quals"):
        _read_condition(level, quals)
    for name in ("fromlist", "larg", "rarg"):
        for each in item.items(name):
            _read_from(level, each)


def _read_condition(level: QueryLevel, item: Item) -> None:
    if item.kind == "BOOLEXPR" and item.word("boolop") == "and":
        for each in item.items("args"):
            _read_condition(level, each)
    elif not (_read_equality(level, item) or _read_filter(level, item) or _read_null(level, item)):
        level.unclear |= {source for source, _ in places_of(level, [item])}


def _read_equality(level: QueryLevel, item: Item) -> bool:
    """Read what binds columns of a source to others."""
    found = False
    for one, other, operator in _sides(level, item):
        place = plain(level, one)
        by = frozenset(source for source, _ in places_of(level, [other]))
        if operator == "=" and by and place is not None and place[0] not in by:
            level.bound.append((place, by))
            found = True
    return found


def _read_filter(level: QueryLevel, item: Item) -> bool:
    """Read the comparison of a column with a constant."""
    for one, other, operator in _sides(level, item):
        place, value = plain(level, one), literal(_cast_away(other), level.facts.labels)
        if place is not None and _cast_away(other).kind == "CONST" and operator == "=":
            level.bound.append((place, frozenset()))
        if place is not None and value is not None:
            source, column = place
            level.filters.setdefault(source, []).append(Filter(column, operator, value))
            return True
    return False


def _read_null(level: QueryLevel, item: Item) -> bool:
    args = item.items("arg")
    place = plain(level, args[0]) if item.kind == "NULLTEST" and args else None
    if place is None:
        return False
    source, column = place
    operator = "is null" if item.word("nulltesttype") == "0" else "is not null"
    level.filters.setdefault(source, []).append(Filter(column, operator))
    return True


def _sides(level: QueryLevel, item: Item) -> Iterator[tuple[Item, Item, str]]:
    """Give both sides of a comparison, from either end."""
    sides = item.items("args")
    operator = level.facts.operators.get(item.number("opno"), "")
    if item.kind == "OPEXPR" and operator and len(sides) == 2:  # noqa: PLR2004 - a < b
        yield sides[0], sides[1], operator
        yield sides[1], sides[0], _TURNED.get(operator, operator)


# Expressions.


def plain(level: QueryLevel, item: Item) -> Place | None:
    """Give the column that an expression is, perhaps under a cast that changes no value."""
    item = _cast_away(item)
    places = places_of(level, [item]) if item.kind == "VAR" else set[Place]()
    return next(iter(places)) if len(places) == 1 else None


def _cast_away(item: Item) -> Item:
    while item.kind == "RELABELTYPE" and item.items("arg"):
        item = item.items("arg")[0]
    return item


def places_of(level: QueryLevel, values: Sequence[object], depth: int = 0) -> set[Place]:
    """Give the columns of this level that stand in some expressions, also in queries inside."""
    found: set[Place] = set()
    for value in values:
        match value:
            case Item(kind="VAR") if value.number("varlevelsup") == depth:
                found |= _resolved(level, value.number("varno"), value.number("varattno"))
            case Item():
                deeper = depth + (value.kind == "QUERY")
                for each in value.fields.values():
                    found |= places_of(level, each, deeper)
            case list():
                found |= places_of(level, value, depth)  # pyright: ignore[reportUnknownArgumentType]
            case _:
                pass
    return found


def _resolved(level: QueryLevel, source: int, column: int) -> set[Place]:
    """Follow a column of a join or a group to where it comes from."""
    if not 0 < source <= len(level.table):
        return {(source, column)}
    entry = level.table[source - 1]
    lists = {_JOIN: "joinaliasvars", GROUP: "groupexprs"}
    if (name := lists.get(entry.number("rtekind"))) is None:
        return {(source, column)}
    made_of = entry.items(name)
    return places_of(level, made_of[column - 1 : column]) if column else {(source, column)}
