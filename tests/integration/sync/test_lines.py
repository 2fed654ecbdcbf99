"""Lines of COPY become the same messages with and without decoding."""

import random

import orjson
from psycopg import AsyncConnection

from tests.helpers.database import run_all
from walagent.sync.lines import SnapshotLines
from walagent.sync.messages import row_message
from walagent.sync.snapshot import copy_lines, copy_rows
from walagent.sync.table import read_table

TABLE = """
create table "it%s/em" (
    "ke%y" text, n int, "a""b\\" text, body jsonb, tags text[], primary key ("ke%y", n)
);
"""
PIECES = ["", "a", "/", '"', "\\", "\\N", "\n", "\t", "\x01", "\x1f", "\x7f", "é", "漢", "%b", "{}"]


async def test_messages_have_the_values_of_the_rows(conn: AsyncConnection) -> None:
    """Whatever characters they have, and whatever the names are."""
    await run_all(conn, TABLE)
    for n in range(300):
        key, text = ("".join(random.choices(PIECES, k=random.randrange(4))) for _ in range(2))
        values = [f"{key}{n}", n, random.choice([text, text, None]), orjson.dumps([text]).decode()]
        values[3] = values[3] if "\\u0001" not in values[3] else None
        insert = 'insert into "it%%s/em" values (%s, %s, %s, %s, %s)'
        await conn.execute(insert.encode(), [*values, [text, None]])
    table = await read_table(conn, "public", "it%s/em")
    names = [column.name for column in table.columns]
    shown = [names[0], names[2], names[1], names[4], names[3]]
    members = set[str]()
    writer = SnapshotLines(table, shown, names, members)
    query = 'select * from "it%s/em" order by n'
    found = [m async for lines in copy_lines(conn, query) for m in writer.messages(lines)]
    expected, keys = list[object](), set[str]()
    async for portion in copy_rows(conn, query):
        for cells in portion:
            row = dict(zip(names, cells, strict=True))
            keys.add(table.key_of(row))
            value = {name: row[name] for name in shown}
            relation = (table.schema, table.name)
            expected.append(row_message("insert", relation, table.key_of(row), value, {}))
    assert found == expected
    assert members == keys
    assert len(keys) == 300
