"""NOT IN over a list with a NULL, which is never true; IN over a column of the query around it."""

from collections.abc import Iterator, Sequence
from typing import Final

from psycopg import sql

from walagent.ask.fanout.levels import Filter, Place, QueryLevel, plain, read_level
from walagent.ask.fanout.rule import Item
from walagent.ask.fanout.stored import LOOKED_AT, Names, condition
from walagent.ask.traps.walk import Note, expressions, origin, walk

_ALL: Final = 1  # SubLinkType of primnodes.h, as the next one
_ANY: Final = 2


def null_lists(level: QueryLevel, names: Names) -> Iterator[Note]:
    """Note what a query excludes by a list that may have a NULL."""
    for item, around, _ in expressions(level):
        kind = item.number("subLinkType")
        if item.kind == "SCALARARRAYOPEXPR" and _excludes_null(level, item):
            yield Note("NOT IN is never true: its list has a NULL")
        elif item.kind == "SUBLINK" and kind in {_ALL, _ANY}:
            negated = kind == _ANY and bool(around) and around[-1].word("boolop") == "not"
            differs = kind == _ALL and item.words("operName") == ['"\\<>"']
            for inner in item.items("subselect"):
                yield from _strays(inner)
                if negated or differs:
                    yield from _excluded(level, inner, names)


def _excludes_null(level: QueryLevel, item: Item) -> bool:
    differs = level.facts.operators.get(item.number("opno")) == "<>"
    if not differs or item.word("useOr") != "false":
        return False
    lists = [each for each in item.items("args") if each.kind == "ARRAYEXPR"]
    return any(
        each.kind == "CONST" and each.word("constisnull") == "true"
        for array in lists
        for each, _ in walk(array)
    )


def _strays(inner: Item) -> Iterator[Note]:
    """Note a list that has only columns of the query around it: its own lack that name."""
    exprs = [each.item("expr") for each in _shown(inner)]
    if (
        inner.items("rtable")
        and exprs
        and all(
            expr is not None and expr.kind == "VAR" and expr.number("varlevelsup") for expr in exprs
        )
    ):
        yield Note("the subquery of IN returns a column of the query around it, not of its table")


def _shown(query: Item) -> Sequence[Item]:
    return [each for each in query.items("targetList") if each.word("resjunk") != "true"]


def _excluded(level: QueryLevel, query: Item, names: Names) -> Iterator[Note]:
    if query.items("setOperations"):
        return
    inner = read_level(query, (*level.around, level.query), level.facts)
    for target in _shown(query):
        if (expr := target.item("expr")) is not None:
            yield from _nullable(inner, expr, names)


def _nullable(level: QueryLevel, expr: Item, names: Names) -> Iterator[Note]:
    """Note an expression that can be NULL; a column, if the data have one."""
    place = plain(level, expr)
    if place is None:
        if expr.kind == "VAR" or _has_column(expr):
            yield Note("NOT IN is never true if its list has a NULL", if_empty=True)
        return
    found = origin(level, place)
    if found is None or found.relation not in names:
        yield Note("NOT IN is never true if its list has a NULL", if_empty=True)
        return
    if any(_is_filled(inner, at) for inner, at in found.path):
        return
    schema, table, columns = names[found.relation]
    said = f"NOT IN is never true: {table}.{columns.get(found.column, '')} is NULL in some rows"
    base, (source, _) = found.path[-1]
    filters = base.filters.get(source, [])
    if _is_outer(base):
        yield Note("NOT IN is never true if its list has a NULL", if_empty=True)
    elif found.column not in level.facts.filled.get(found.relation, ()):
        proof = _has_null(schema, table, columns, found.column, filters)
        # Other conditions might exclude these rows.
        yield Note(said, proof, if_empty=source in base.unclear or len(base.sources) > 1)


def _has_column(expr: Item) -> bool:
    """Return whether an expression that is no count has a column."""
    return expr.kind not in {"AGGREF", "CONST"} and any(i.kind == "VAR" for i, _ in walk(expr))


def _is_filled(level: QueryLevel, place: Place) -> bool:
    """Return whether a condition of a query excludes NULL in a column."""
    source, column = place
    if any(bound == place for bound, _ in level.bound):
        return True
    filters = level.filters.get(source, [])
    return any(each.column == column and each.operator != "is null" for each in filters)


def _is_outer(level: QueryLevel) -> bool:
    """Return whether a query has an outer join, which makes NULLs."""
    return any(
        item.kind == "JOINEXPR" and item.word("jointype") != "0"
        for tree in level.query.items("jointree")
        for item, _ in walk(tree)
    )


def _has_null(
    schema: str, table: str, columns: dict[int, str], column: int, filters: Sequence[Filter]
) -> sql.Composable:
    wanted = [condition(each, columns) for each in filters if each.column in columns]
    return sql.SQL(
        "exists (select from (select {column} as c from {table} where {wanted} limit {most}) q"
        " where c is null)"
    ).format(
        column=sql.Identifier(columns[column]),
        table=sql.Identifier(schema, table),
        wanted=sql.SQL(" and ").join(wanted or [sql.SQL("true")]),
        most=sql.Literal(LOOKED_AT),
    )
