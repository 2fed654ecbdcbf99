"""Walk through a rule: each node with those that it is in, and columns back to their tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from psycopg import sql

from walagent.ask.fanout.levels import (
    CTE,
    GROUP,
    RELATION,
    SUBQUERY,
    LevelFacts,
    Place,
    QueryLevel,
    plain,
    read_level,
)
from walagent.ask.fanout.rule import Item, inside, queries

Inside: TypeAlias = tuple[Item, ...]  # nodes around one, the outermost first


@dataclass(frozen=True, slots=True)
class Note:
    """What may be wrong with a statement.

    Args:
        proof: a query for the truth; None: nothing needs to be proved.
        if_empty: whether the note applies only if the statement found nothing.
    """

    said: str
    proof: sql.Composable | None = None
    if_empty: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """The column of a relation that a column of a query is, and the queries between, from outside.

    Args:
        path: each query, and the column in it.
    """

    relation: int
    column: int
    path: Sequence[tuple[QueryLevel, Place]]


def levels(rule: Sequence[Item], facts: LevelFacts) -> Iterator[QueryLevel]:
    """Yield every query of a statement."""
    for query, around in chain.from_iterable(map(queries, rule)):
        yield read_level(query, around, facts)


def walk(item: Item, around: Inside = ()) -> Iterator[tuple[Item, Inside]]:
    """Yield a node and those below it in the same query, each with the nodes around it."""
    yield item, around
    for each in inside(item):
        if each.kind != "QUERY":
            yield from walk(each, (*around, item))


def expressions(level: QueryLevel) -> Iterator[tuple[Item, Inside, str]]:
    """Yield the nodes of a query's columns and conditions, with the name of the column or ""."""
    for target in level.query.items("targetList"):
        name = "" if target.word("resjunk") == "true" else unquoted(target.word("resname"))
        for expr in _grouped(level, target.items("expr")):
            yield from ((item, around, name) for item, around in walk(expr, (target,)))
    for clause in ("jointree", "havingQual"):
        for item in level.query.items(clause):
            yield from ((each, around, "") for each, around in walk(item))


def _grouped(level: QueryLevel, exprs: Sequence[Item]) -> Iterator[Item]:
    """Replace columns of GROUP BY, which are of an entry of their own since PostgreSQL 18."""
    for expr in exprs:
        number = expr.number("varno") if expr.kind == "VAR" else 0
        entry = level.table[number - 1] if 0 < number <= len(level.table) else None
        if (
            entry is not None
            and entry.number("rtekind") == GROUP
            and not expr.number("varlevelsup")
        ):
            yield from entry.items("groupexprs")[expr.number("varattno") - 1 :][:1]
        else:
            yield expr


def unquoted(word: str) -> str:
    """Remove the quotes and escapes that a stored rule has around a name."""
    return word.replace("\\", "").strip('"')


def column_name(level: QueryLevel, place: Place) -> str:
    """Return what the statement calls a column."""
    source, column = place
    if not 0 < source <= len(level.table):
        return ""
    alias = level.table[source - 1].item("eref")
    names = [unquoted(each) for each in alias.words("colnames")] if alias else []
    return names[column - 1] if 0 < column <= len(names) else ""


def origin(level: QueryLevel, place: Place) -> Origin | None:
    """Follow a column through subqueries and CTEs to its table; None if it is computed."""
    source, column = place
    if not 0 < source <= len(level.table):
        return None
    entry = level.table[source - 1]
    kind = entry.number("rtekind")
    if kind == RELATION:
        return Origin(entry.number("relid"), column, ((level, place),))
    found = _query_of(level, entry) if kind in {SUBQUERY, CTE} else None
    if found is None or found[0].items("setOperations"):
        return None
    inner = read_level(*found, level.facts)
    for target in inner.query.items("targetList"):
        if target.number("resno") == column and (expr := target.item("expr")) is not None:
            below = plain(inner, expr)
            deeper = origin(inner, below) if below is not None else None
            if deeper is not None:
                return Origin(deeper.relation, deeper.column, ((level, place), *deeper.path))
    return None


def _query_of(level: QueryLevel, entry: Item) -> tuple[Item, Inside] | None:
    """Return the query of an entry of FROM, and those around it."""
    around = (*level.around, level.query)
    if (inner := entry.item("subquery")) is not None:
        return inner, around
    up = entry.number("ctelevelsup")
    if up >= len(around) or entry.word("self_reference") == "true":
        return None
    around = around[: len(around) - up]
    for cte in around[-1].items("cteList"):
        inner = cte.item("ctequery")
        if cte.word("ctename") == entry.word("ctename") and inner is not None:
            return inner, around
    return None
