"""Shapes of tables by what the server sends of an old row: their replica identity."""

import asyncio
from collections.abc import Callable

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, rows, run_all
from tests.helpers.shapes import Follower, serving
from walagent.config import Replication
from walagent.message import Json
from walagent.replication.bootstrap import ensure_slot

KEYED = "create table item (id integer {0}, code text not null, n integer)"
INDEXED = (
    "create unique index by_code on item ({0}); alter table item replica identity using index"
    " by_code"
)
FULL = "alter table item replica identity full"
IDENTITIES = {
    "default": KEYED.format("primary key"),
    "full": f"{KEYED.format('primary key')}; {FULL}",
    "full, without a key": f"{KEYED.format('')}; {FULL}",
    "index with the key": f"{KEYED.format('primary key')}; {INDEXED.format('code, id')}",
    "key that includes a column": KEYED.format("") + "; alter table item add primary key (id)"
    " include (code)",
}
# Each value changes alone, with others, and back; two rows have equal values beside their key.
CHANGES = (
    "update item set n = 10 where id = 1",
    "update item set code = 'changed' where id = 2",
    "update item set id = 30 where id = 3",
    "update item set id = 40, code = 'both' where id = 4",
    "delete from item where id = 5",
    "delete from item where id = 30",
    "insert into item values (5, 'again', 5), (6, 'again', 5)",
    "update item set id = 60 where id = 6; update item set n = null where id = 60",
    "delete from item where id = 1; insert into item values (1, 'b', 2)",
)


async def _table(conn: AsyncConnection) -> list[tuple[Json, ...]]:
    return await rows(conn, "select id::text, code, n::text from item order by item.id")


def _rows(client: Follower) -> list[tuple[Json, ...]]:
    found = [(row["id"], row["code"], row["n"]) for row in client.rows.values()]
    return sorted(found, key=lambda row: int(str(row[0])))


async def _follow(client: Follower, is_there: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not is_there():
            await client.step(live=client.is_up_to_date)


@pytest.mark.few(2)
@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("replica", ["default", "full"])
async def test_a_client_ends_as_the_table_whatever_the_server_sends_of_old_rows(
    conn: AsyncConnection, dsn: str, identity: str, replica: str
) -> None:
    """Values, keys and rows change; each message names the row by its key."""
    await run_all(conn, IDENTITIES[identity])
    await run_all(conn, "insert into item select g, chr(96 + g), g from generate_series(1, 5) g")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        clients = [
            Follower(served, table="item", replica=replica, **more)
            for more in ({}, {"where": "n < 8"}, {"where": "n % 2 = 1"})
        ]
        for client in clients:
            await client.catch_up()
        for statement in CHANGES:
            await run_all(conn, statement)
        await run_all(conn, "insert into item values (77, 'last', 7)")
        for client in clients:
            while not any(row["id"] == "77" for row in client.rows.values()):
                await client.step(live=client.is_up_to_date)
    every = await _table(conn)
    assert _rows(clients[0]) == every
    assert _rows(clients[1]) == [row for row in every if row[2] and int(str(row[2])) < 8]
    assert _rows(clients[2]) == [row for row in every if row[2] and int(str(row[2])) % 2]
    assert [client.refetches for client in clients] == [0, 0, 0]
    for message in (each for client in clients for each in client.messages):
        assert "control" in message["headers"] or "id" in message["value"], message


async def test_a_table_whose_identity_lacks_its_key_is_refused(
    conn: AsyncConnection, dsn: str
) -> None:
    """What became of a row could not be told; also if its identity changes later."""
    await run_all(conn, IDENTITIES["default"])
    await run_all(conn, "insert into item values (1, 'a', 1), (2, 'b', 2)")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        client = Follower(served, table="item")
        await client.catch_up()
        await run_all(conn, INDEXED.format("code"))
        await run_all(conn, "update item set id = 3 where id = 1; delete from item where id = 2")
        async with asyncio.timeout(DEADLINE):
            while (answer := await served.get(table="item", offset="-1")).is_success:
                pass
        assert (answer.status_code, "replica identity" in answer.text) == (400, True)
        await run_all(conn, "alter table item replica identity default")
        client = Follower(served, table="item")
        await client.catch_up()
        await run_all(conn, "update item set id = 4 where id = 3")
        await _follow(client, lambda: [row[0] for row in _rows(client)] == ["4"])
