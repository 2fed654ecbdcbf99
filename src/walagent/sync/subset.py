"""Read a part of a shape once: the rows that a client asks for, and what the snapshot has."""

import random
from collections.abc import Sequence
from typing import Any, Final

import orjson
from psycopg import AsyncConnection

from walagent.errors import WalagentError
from walagent.message import Json
from walagent.postgres.quoting import quote_name
from walagent.sync.checks import invalid, refusal_of
from walagent.sync.expression import Binary, columns_of
from walagent.sync.query import Connecting
from walagent.sync.request import Subset
from walagent.sync.select_shapes import SelectShape
from walagent.sync.shape import Shape
from walagent.sync.snapshot import copy_rows, read_snapshot, reading, select

_MOST: Final = 100_000  # rows


async def read_subset(connecting: Connecting, shape: Shape | SelectShape, subset: Subset) -> bytes:
    """Return the answer to a request for a subset.

    Raises:
        ShapeRefusedError: its condition or order is invalid.
    """
    names = list(dict.fromkeys([*shape.columns, *shape.table.key]))
    query = _query(shape, subset, names)
    mark = random.getrandbits(31)
    try:
        async with connecting as conn, reading(conn):
            metadata = await _metadata(conn, mark)
            data = [
                _row(shape, dict(zip(names, cells, strict=True)), mark)
                async for part in copy_rows(conn, query)
                for cells in part
            ]
    except WalagentError as error:
        raise refusal_of(error, "subset") from error
    return orjson.dumps({"metadata": metadata, "data": data})


def _query(shape: Shape | SelectShape, subset: Subset, names: Sequence[str]) -> str:
    """Return the query; what it reads is a part of what the shape shows."""
    where = shape.definition.where
    read = [name for name, _ in subset.order_by]
    if subset.where is not None:
        read += columns_of(subset.where)
        where = subset.where if where is None else Binary("and", where, subset.where)
    if unknown := set(read) - set(shape.columns):
        raise invalid("subset", f'column "{min(unknown)}" does not exist')
    query = select(shape.table, names, where)
    if subset.order_by:
        parts = (quote_name(name) + direction for name, direction in subset.order_by)
        query += f" order by {', '.join(parts)}"
    most = _MOST if subset.limit is None else min(subset.limit, _MOST)
    return f"{query} limit {most} offset {subset.offset or 0}"


async def _metadata(conn: AsyncConnection[Any], mark: int) -> dict[str, Json]:
    visible = await read_snapshot(conn)
    row = await (await conn.execute("select pg_current_wal_lsn() - '0/0'")).fetchone()
    return {
        "xmin": str(visible.xmin),
        "xmax": str(visible.xmax),
        "xip_list": [str(each) for each in sorted(visible.running)],
        "database_lsn": str(row[0]) if row else "0",
        "snapshot_mark": mark,
    }


def _row(shape: Shape | SelectShape, row: dict[str, str | None], mark: int) -> dict[str, object]:
    return {
        "key": shape.table.key_of(row),
        "value": {name: row[name] for name in shape.columns},
        "headers": {
            "operation": "insert",
            "relation": (shape.table.schema, shape.table.name),
            "snapshot_mark": mark,
        },
    }
