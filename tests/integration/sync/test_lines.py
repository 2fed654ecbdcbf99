"""Lines of COPY become the same messages with and without decoding."""

import random
from collections.abc import Sequence

import orjson
import pytest
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
PLAIN = ["", "a", '"', "\\", "\\N", "\n", "\t", "\x7f", "é", "漢", "%b", "{}"]


@pytest.mark.parametrize(("keys_of", "texts_of"), [(PIECES, PIECES), (["a", "%b", "é"], PLAIN)])
async def test_messages_have_the_values_of_the_rows(
    conn: AsyncConnection, keys_of: Sequence[str], texts_of: Sequence[str]
) -> None:
    """Whatever characters they have, and whatever the names are; decoded, or all together."""
    await run_all(conn, TABLE)
    for n in range(300):
        key, text = (
            "".join(random.choices(pieces, k=random.randrange(4))) for pieces in (keys_of, texts_of)
        )
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
    found = [writer.messages(lines) async for lines in copy_lines(conn, query)]
    expected, keys = list[bytes](), set[str]()
    async for portion in copy_rows(conn, query):
        for cells in portion:
            row = dict(zip(names, cells, strict=True))
            keys.add(table.key_of(row))
            value = {name: row[name] for name in shown}
            relation = (table.schema, table.name)
            expected.append(row_message("insert", relation, table.key_of(row), value, {}))
    assert b",".join(found) == b",".join(expected)
    assert members == keys
    assert len(keys) == 300
