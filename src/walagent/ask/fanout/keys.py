"""What determines what: keys of tables, and of queries that are joined as tables are.

A source (an entry of FROM) is *determined* by others when equalities bind the columns of one of
its keys to them: then a row of theirs meets one row of it at most.
"""

from collections.abc import Sequence
from itertools import chain

from walagent.ask.fanout.levels import (
    CTE,
    RELATION,
    SUBQUERY,
    Key,
    LevelFacts,
    Place,
    QueryLevel,
    plain,
    read_level,
)
from walagent.ask.fanout.rule import Item


def determined(level: QueryLevel, start: set[int], given: set[Place]) -> set[int]:
    """Give the sources of which there is one row at most for each row of *start*."""
    known = set(start)
    while True:
        more = {
            source
            for source in level.sources - known
            if any(key <= _bound(level, source, known, given) for key in keys_of(level, source))
        }
        if not more:
            return known
        known |= more


def _bound(level: QueryLevel, source: int, known: set[int], given: set[Place]) -> Key:
    columns = (column for (at, column), by in level.bound if at == source and by <= known)
    return frozenset(chain(columns, (column for at, column in given if at == source)))


def groups_of(level: QueryLevel) -> set[Place]:
    """Give the columns that the rows of a group have in common."""
    wanted = {each.number("tleSortGroupRef") for each in level.query.items("groupClause")}
    if level.query.items("groupingSets"):
        return set()
    targets = level.query.items("targetList")
    exprs = [each.item("expr") for each in targets if each.number("ressortgroupref") in wanted]
    places = {plain(level, each) for each in exprs if each is not None}
    return {place for place in places if place is not None}


def keys_of(level: QueryLevel, source: int) -> Sequence[Key]:
    """Give the keys of a source that are known."""
    entry = level.table[source - 1]
    match entry.number("rtekind"):
        case kind if kind == RELATION:
            return level.facts.keys.get(entry.number("relid"), ())
        case kind if kind == SUBQUERY and (inner := entry.item("subquery")) is not None:
            return _keys_of_query(inner, (*level.around, level.query), level.facts)
        case kind if kind == CTE:
            return _keys_of_cte(entry, (*level.around, level.query), level.facts)
        case _:
            return ()


def _keys_of_cte(entry: Item, around: tuple[Item, ...], facts: LevelFacts) -> Sequence[Key]:
    up = entry.number("ctelevelsup")
    if up >= len(around) or entry.word("self_reference") == "true":
        return ()
    around = around[: len(around) - up]
    for cte in around[-1].items("cteList"):
        inner = cte.item("ctequery")
        if cte.word("ctename") == entry.word("ctename") and inner is not None:
            return _keys_of_query(inner, around, facts)
    return ()


def _keys_of_query(query: Item, around: tuple[Item, ...], facts: LevelFacts) -> Sequence[Key]:
    """Give the columns of a query's answer that no two rows share."""
    if id(query) not in facts.found:
        facts.found[id(query)] = ()  # until it is known; nor does a query determine itself
        facts.found[id(query)] = _look_for_keys(query, around, facts)
    return facts.found[id(query)]


def _look_for_keys(query: Item, around: tuple[Item, ...], facts: LevelFacts) -> Sequence[Key]:
    targets = [each for each in query.items("targetList") if each.word("resjunk") != "true"]
    if query.items("setOperations") or query.items("groupingSets"):
        return ()
    if query.word("hasTargetSRFs") == "true":
        return ()
    for clause in ("distinctClause", "groupClause"):
        if refs := {each.number("tleSortGroupRef") for each in query.items(clause)}:
            shown = {t.number("ressortgroupref"): t.number("resno") for t in targets}
            return [frozenset(shown[ref] for ref in refs)] if refs <= shown.keys() else ()
    if query.word("hasAggs") == "true":
        return [frozenset()]  # one row
    return _keys_passed_on(read_level(query, around, facts), targets)


def _keys_passed_on(level: QueryLevel, targets: Sequence[Item]) -> Sequence[Key]:
    """Give the keys of the one source that determines all others, where its columns are shown."""
    shown: dict[Place, int] = {}
    for target in targets:
        for expr in target.items("expr"):
            if (place := plain(level, expr)) is not None:
                shown[place] = target.number("resno")
    return [
        frozenset(shown[source, column] for column in key)
        for source in level.sources
        if determined(level, {source}, set()) == level.sources
        for key in keys_of(level, source)
        if all((source, column) in shown for column in key)
    ]
