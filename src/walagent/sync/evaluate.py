"""Let PostgreSQL evaluate where clauses on rows of the stream: exact, and many in one query."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.sync.expression import Node, columns_of, quote_name
from walagent.sync.table import ShapeTable

_MOST: Final = 100  # conditions of a query
_ROWS: Final = 10_000  # of a query


async def evaluate(
    conn: AsyncConnection[Any],
    table: ShapeTable,
    conditions: Sequence[Node],
    rows: Sequence[Mapping[str, str | None]],
) -> list[list[bool]]:
    """Return for each condition whether it is true, by row.

    The rows are texts, as the stream has them; types of columns are built in or enums, so that
    casting them executes no code of others.
    """
    found: list[list[bool]] = []
    for start in range(0, len(conditions), _MOST):
        part = conditions[start : start + _MOST]
        query, names = _query(table, part)
        answers: list[Sequence[bool]] = []
        for first in range(0, len(rows), _ROWS):
            texts = [[row.get(name) for row in rows[first : first + _ROWS]] for name in names]
            count = len(rows[first : first + _ROWS])
            cursor = await conn.execute(query.encode(), [list(range(count)), *texts])
            answers += await cursor.fetchall()
        found += [[bool(answer[n]) for answer in answers] for n in range(len(part))]
    return found


def _query(table: ShapeTable, conditions: Sequence[Node]) -> tuple[str, Sequence[str]]:
    """Return a query with a column for each condition, and the columns whose texts it takes."""
    read = dict.fromkeys(name for condition in conditions for name in columns_of(condition))
    names = list(read)
    types = {column.name: column.sql_type for column in table.columns}
    given = "".join(f", v{n}" for n in range(len(names)))
    values = ", ".join(["%s::bigint[]", *["%s::text[]"] * len(names)])
    typed = "".join(
        f", v{n}::{types[name]} as {quote_name(name)}" for n, name in enumerate(names)
    ).replace("%", "%%")
    answers = ", ".join(f"({condition.sql()}) is true" for condition in conditions)
    number = "n" * (1 + max(map(len, names), default=0))  # the name of no column
    query = (
        f"select {answers.replace('%', '%%')}"  # noqa: S608 - printed by expression.py
        f" from (select {number}{typed} from unnest({values}) as given ({number}{given})) as sent"
        f" order by {number}"
    )
    return query, names
