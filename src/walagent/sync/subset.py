"""Read a part of a shape once: the rows that a client asks for, and what the snapshot has."""

import random
from typing import TYPE_CHECKING, Final

import orjson
from psycopg import Error

from walagent.store.errors import translating
from walagent.sync.expression import Binary, columns_of, quote_name
from walagent.sync.request import RequestError, Subset
from walagent.sync.shape import Shape
from walagent.sync.snapshot import copy_rows, read_snapshot, select

if TYPE_CHECKING:
    from walagent.sync.engine import ShapeEngine

_MOST: Final = 100_000  # rows


async def read_subset(engine: "ShapeEngine", shape: Shape, subset: Subset) -> bytes:
    """Return the answer to a request for a subset.

    Raises:
        RequestError: its condition or order is invalid.
    """
    names = list(dict.fromkeys([*shape.columns, *shape.table.key]))
    where = shape.definition.where
    if subset.where is not None:
        unknown = set(columns_of(subset.where)) - set(shape.columns)
        if unknown:
            raise RequestError("subset", f'column "{min(unknown)}" does not exist')
        where = subset.where if where is None else Binary("and", where, subset.where)
    visible_order = {quote_name(name) for name in shape.columns}
    if any(part.split('" ')[0].rstrip('"') + '"' not in visible_order for part in subset.order_by):
        raise RequestError("subset", "order_by names a column that does not exist")
    query = select(shape.table, names, where)
    if subset.order_by:
        query += f" order by {', '.join(subset.order_by)}"
    query += f" limit {min(subset.limit if subset.limit is not None else _MOST, _MOST)}"
    if subset.offset:
        query += f" offset {subset.offset}"
    mark = random.getrandbits(31)
    rows: list[dict[str, object]] = []
    with translating():
        async with await engine.connect() as conn:
            await conn.execute("begin isolation level repeatable read, read only")
            await conn.execute("set local search_path = pg_catalog")
            visible = await read_snapshot(conn)
            cursor = await conn.execute("select pg_current_wal_lsn() - '0/0'")
            lsn = await cursor.fetchone()
            try:
                async for part in copy_rows(conn, query):
                    for cells in part:
                        row = dict(zip(names, cells, strict=True))
                        rows.append(
                            {
                                "key": shape.table.key_of(row),
                                "value": {name: row[name] for name in shape.columns},
                                "headers": {
                                    "operation": "insert",
                                    "relation": (shape.table.schema, shape.table.name),
                                    "snapshot_mark": mark,
                                },
                            }
                        )
            except Error as error:
                text = error.diag.message_primary or "is invalid"
                raise RequestError("subset", text) from error
            await conn.execute("commit")
    metadata = {
        "xmin": str(visible.xmin),
        "xmax": str(visible.xmax),
        "xip_list": [str(each) for each in sorted(visible.running)],
        "database_lsn": str(lsn[0]) if lsn else "0",
        "snapshot_mark": mark,
    }
    return orjson.dumps({"metadata": metadata, "data": rows})
