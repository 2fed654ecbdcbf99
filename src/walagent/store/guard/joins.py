"""Which totals of a statement count rows more than once, because a join repeats them.

A source (an entry of FROM) is *determined* by others when equalities bind the columns of one of
its keys to them: then a row of theirs meets one row of it at most.  A total over columns of some
sources is right as long as everything else that they are joined to is determined by them.  What is
not understood (other conditions, functions, subqueries without a known key) leads to no finding.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from walagent.store.guard.constants import Labels, as_integer, literal
from walagent.store.guard.known import FIRST_OF_USERS
from walagent.store.guard.rule import Item, inside, queries

_RELATION, _SUBQUERY, _JOIN, _CTE, _GROUP = 0, 1, 2, 6, 9  # RTEKind of parsenodes.h
_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_TOTALS: Final = {"sum", "count", "avg"}

Key = frozenset[int]  # columns by their numbers
Place = tuple[int, int]  # a source by its place in FROM's list, and a column of it


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one column: an operator, and where it takes one, a constant as text."""

    column: int
    operator: str
    value: str | None = None


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
    """A total that would count rows more than once.

    Args:
        relation, column: what is added up or counted.
        many: what repeats it.
    """

    total: str
    relation: int
    column: int
    many: Many


@dataclass(frozen=True, slots=True)
class Facts:
    """What the catalog says.

    Args:
        keys: of each relation, its unique keys.
        operators: names of those that compare, by OID.
        totals: names of aggregates, by OID; only those that count here.
        labels: of enum values, by type and OID.
    """

    keys: Mapping[int, Sequence[Key]]
    operators: Mapping[int, str]
    totals: Mapping[int, str]
    labels: Labels


@dataclass(slots=True)
class _Level:
    """One query: its sources, and what its conditions say about them.

    Args:
        bound: columns that are equal to something, and the sources that this comes from.
        filters: conditions on one column of a source.
        unclear: sources with a condition that is not understood.
    """

    query: Item
    around: tuple[Item, ...]
    facts: Facts
    table: Sequence[Item]
    sources: set[int] = field(default_factory=set[int])
    bound: list[tuple[Place, frozenset[int]]] = field(
        default_factory=list[tuple[Place, frozenset[int]]]
    )
    filters: dict[int, list[Filter]] = field(default_factory=dict[int, "list[Filter]"])
    unclear: set[int] = field(default_factory=set[int])


def suspects(rule: Sequence[Item], facts: Facts) -> Iterator[Suspect]:
    """Give the totals of a statement that a join may make wrong."""
    for query, around in chain.from_iterable(map(queries, rule)):
        if query.word("hasAggs") == "true":
            yield from _suspects_of(_read_level(query, around, facts))


def _suspects_of(level: _Level) -> Iterator[Suspect]:
    one_a_group = _determined(level, set(), level_groups(level))
    for total, name in _totals(level):
        places = _places(level, total.fields.get("args", []))
        start = {source for source, _ in places}
        if not start or not start <= level.sources:
            continue
        source, column = min(places)
        relation = level.table[source - 1].number("relid")
        known = _determined(level, start, set())
        for other in sorted(level.sources - known - one_a_group):
            many = _many(level, other, known)
            if many is None or many.relation == relation or not relation:
                continue
            if name != "avg" or not start <= _determined(level, {other}, set()):
                yield Suspect(name, relation, column, many)


def _many(level: _Level, other: int, known: set[int]) -> Many | None:
    """Say in what *other* repeats rows of *known*; None where that is not clear."""
    entry = level.table[other - 1]
    beside = level.sources - known - {other}
    if entry.number("rtekind") != _RELATION or other in level.unclear or beside & level.unclear:
        return None
    if any(level.filters.get(source) for source in beside):
        return None
    mine = [(column, by) for (source, column), by in level.bound if source == other and by]
    columns = frozenset(column for column, by in mine if by <= known)
    if not columns:
        return None
    return Many(entry.number("relid"), columns, tuple(level.filters.get(other, ())))


def _determined(level: _Level, start: set[int], given: set[Place]) -> set[int]:
    """Give the sources of which there is one row at most for each row of *start*."""
    known = set(start)
    while True:
        more = {
            source
            for source in level.sources - known
            if any(key <= _bound(level, source, known, given) for key in _keys(level, source))
        }
        if not more:
            return known
        known |= more


def _bound(level: _Level, source: int, known: set[int], given: set[Place]) -> Key:
    columns = (column for (at, column), by in level.bound if at == source and by <= known)
    return frozenset(chain(columns, (column for at, column in given if at == source)))


def level_groups(level: _Level) -> set[Place]:
    """Give the columns that the rows of a group have in common."""
    wanted = {each.number("tleSortGroupRef") for each in level.query.items("groupClause")}
    if level.query.items("groupingSets"):
        return set()
    targets = level.query.items("targetList")
    exprs = [each.items("expr") for each in targets if each.number("ressortgroupref") in wanted]
    plain = [_plain(level, each[0]) for each in exprs if each]
    return {place for place in plain if place is not None}


# What a query is made of.


def _read_level(query: Item, around: tuple[Item, ...], facts: Facts) -> _Level:
    level = _Level(query, around, facts, query.items("rtable"))
    tree = query.item("jointree")
    if tree is not None:
        _read_from(level, tree)
    return level


def _read_from(level: _Level, item: Item) -> None:
    """Read FROM and WHERE: an outer join repeats rows as an inner one does."""
    if item.kind == "RANGETBLREF":
        level.sources.add(item.number("rtindex"))
        return
    for quals in item.items("quals"):
        _read_condition(level, quals)
    for name in ("fromlist", "larg", "rarg"):
        for each in item.items(name):
            _read_from(level, each)


def _read_condition(level: _Level, item: Item) -> None:
    if item.kind == "BOOLEXPR" and item.word("boolop") == "and":
        for each in item.items("args"):
            _read_condition(level, each)
    elif not (_read_equality(level, item) or _read_filter(level, item) or _read_null(level, item)):
        level.unclear |= {source for source, _ in _places(level, [item])}


def _read_equality(level: _Level, item: Item) -> bool:
    """Read what binds columns of a source to others."""
    found = False
    for one, other, operator in _sides(level, item):
        place = _plain(level, one)
        by = frozenset(source for source, _ in _places(level, [other]))
        if operator == "=" and by and place is not None and place[0] not in by:
            level.bound.append((place, by))
            found = True
    return found


def _read_filter(level: _Level, item: Item) -> bool:
    """Read the comparison of a column with a constant."""
    for one, other, operator in _sides(level, item):
        place, value = _plain(level, one), literal(_cast_away(other), level.facts.labels)
        if place is not None and _cast_away(other).kind == "CONST" and operator == "=":
            level.bound.append((place, frozenset()))
        if place is not None and value is not None:
            source, column = place
            level.filters.setdefault(source, []).append(Filter(column, operator, value))
            return True
    return False


def _read_null(level: _Level, item: Item) -> bool:
    args = item.items("arg")
    place = _plain(level, args[0]) if item.kind == "NULLTEST" and args else None
    if place is None:
        return False
    source, column = place
    operator = "is null" if item.word("nulltesttype") == "0" else "is not null"
    level.filters.setdefault(source, []).append(Filter(column, operator))
    return True


def _sides(level: _Level, item: Item) -> Iterator[tuple[Item, Item, str]]:
    """Give both sides of a comparison, from either end."""
    sides = item.items("args")
    operator = level.facts.operators.get(item.number("opno"), "")
    if item.kind == "OPEXPR" and operator and len(sides) == 2:  # noqa: PLR2004 - a < b
        yield sides[0], sides[1], operator
        yield sides[1], sides[0], _TURNED.get(operator, operator)


def _totals(level: _Level) -> Iterator[tuple[Item, str]]:
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


def _plain(level: _Level, item: Item) -> Place | None:
    """Give the column that an expression is, perhaps under a cast that changes no value."""
    item = _cast_away(item)
    places = _places(level, [item]) if item.kind == "VAR" else set[Place]()
    return next(iter(places)) if len(places) == 1 else None


def _cast_away(item: Item) -> Item:
    while item.kind == "RELABELTYPE" and item.items("arg"):
        item = item.items("arg")[0]
    return item


def _places(level: _Level, values: Sequence[object], depth: int = 0) -> set[Place]:
    """Give the columns of this level that stand in some expressions, also in queries inside."""
    found: set[Place] = set()
    for value in values:
        match value:
            case Item(kind="VAR") if value.number("varlevelsup") == depth:
                found |= _resolved(level, value.number("varno"), value.number("varattno"))
            case Item():
                deeper = depth + (value.kind == "QUERY")
                for each in value.fields.values():
                    found |= _places(level, each, deeper)
            case list():
                found |= _places(level, value, depth)  # pyright: ignore[reportUnknownArgumentType]
            case _:
                pass
    return found


def _resolved(level: _Level, source: int, column: int) -> set[Place]:
    """Follow a column of a join or a group to where it comes from."""
    if not 0 < source <= len(level.table):
        return {(source, column)}
    entry = level.table[source - 1]
    lists = {_JOIN: "joinaliasvars", _GROUP: "groupexprs"}
    if (name := lists.get(entry.number("rtekind"))) is None:
        return {(source, column)}
    made_of = entry.items(name)
    return _places(level, made_of[column - 1 : column]) if column else {(source, column)}


# Keys.


def _keys(level: _Level, source: int) -> Sequence[Key]:
    entry = level.table[source - 1]
    match entry.number("rtekind"):
        case kind if kind == _RELATION:
            return level.facts.keys.get(entry.number("relid"), ())
        case kind if kind == _SUBQUERY and (inner := entry.item("subquery")) is not None:
            return _keys_of_query(inner, (*level.around, level.query), level.facts)
        case kind if kind == _CTE:
            return _keys_of_cte(entry, (*level.around, level.query), level.facts)
        case _:
            return ()


def _keys_of_cte(entry: Item, around: tuple[Item, ...], facts: Facts) -> Sequence[Key]:
    up = entry.number("ctelevelsup")
    if up >= len(around) or entry.word("self_reference") == "true":
        return ()
    around = around[: len(around) - up]
    for cte in around[-1].items("cteList"):
        inner = cte.item("ctequery")
        if cte.word("ctename") == entry.word("ctename") and inner is not None:
            return _keys_of_query(inner, around, facts)
    return ()


def _keys_of_query(query: Item, around: tuple[Item, ...], facts: Facts) -> Sequence[Key]:
    """Give the columns of a query's answer that no two rows share."""
    targets = [each for each in query.items("targetList") if each.word("resjunk") != "true"]
    if query.items("setOperations") or query.items("groupingSets"):
        return ()
    for clause in ("distinctClause", "groupClause"):
        if refs := {each.number("tleSortGroupRef") for each in query.items(clause)}:
            shown = {t.number("ressortgroupref"): t.number("resno") for t in targets}
            return [frozenset(shown[ref] for ref in refs)] if refs <= shown.keys() else ()
    if query.word("hasAggs") == "true":
        return [frozenset()]  # one row
    return _keys_passed_on(_read_level(query, around, facts), targets)


def _keys_passed_on(level: _Level, targets: Sequence[Item]) -> Sequence[Key]:
    """Give the keys of the one source that determines all others, where its columns are shown."""
    shown: dict[Place, int] = {}
    for target in targets:
        for expr in target.items("expr"):
            if (place := _plain(level, expr)) is not None:
                shown[place] = target.number("resno")
    return [
        frozenset(shown[source, column] for column in key)
        for source in level.sources
        if _determined(level, {source}, set()) == level.sources
        for key in _keys(level, source)
        if all((source, column) in shown for column in key)
    ]


def relations(rule: Sequence[Item]) -> set[int]:
    """Give the relations that a statement reads itself, for asking the catalog."""
    return {
        entry.number("relid")
        for query, _ in chain.from_iterable(map(queries, rule))
        for entry in query.items("rtable")
        if entry.number("rtekind") == _RELATION
    }


def numbers(rule: Sequence[Item], name: str) -> set[int]:
    """Give what stands in a field of any node."""
    return {item.number(name) for item in _all(rule)} - {0}


def constants(rule: Sequence[Item]) -> set[int]:
    """Give the constants that could be values of an enum: these are OIDs."""
    found = {as_integer(item) for item in _all(rule) if item.kind == "CONST"}
    return {each for each in found if FIRST_OF_USERS <= each < 1 << 32}


def _all(items: Iterable[Item]) -> Iterator[Item]:
    for item in items:
        yield item
        yield from _all(inside(item))
