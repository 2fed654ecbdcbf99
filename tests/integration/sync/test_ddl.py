"""What DDL does to a table is seen by whoever follows it, also if no row changes afterwards."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, run_all, session, until
from tests.helpers.shapes import Follower, Served, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot

TABLES = """
create type size as enum ('s', 'm');
create type pair as (a int, b int);
create table item (id int not null, v text not null, size size, pair pair, primary key (id));
insert into item values (1, 'one', 's', '(1,2)'), (2, 'two', 'm', null);
create table part (id int primary key, v text not null) partition by range (id);
create table part_1 partition of part for values from (0) to (10);
create table part_2 partition of part for values from (10) to (20);
create table late (id int primary key, v text not null);
insert into part values (1, 'one'), (2, 'two'), (11, 'eleven');
insert into late values (21, 'late');
create unlogged table quick (id int primary key);
"""
# What is done to a table, after which its clients have what is stored: some send nothing.
CHANGES = {
    "add": ("item", "alter table item add w int default 7"),
    "drop": ("item", "alter table item drop size"),
    "rename": ("item", "alter table item rename v to w"),
    "type": ("item", "alter table item alter id type bigint"),
    "rewrite": ("item", "alter table item alter v type text using v || '!'"),
    "label": ("item", "alter type size rename value 's' to 'small'"),
    "attribute": ("item", "alter type pair add attribute c int"),
    "null": ("item", "alter table item alter v drop not null; insert into item values (3)"),
    "key": (
        "item",
        (
            "alter table item drop constraint item_pkey, add primary key (id, v);"
            "insert into item values (1, 'other'); delete from item where v = 'one'"
        ),
    ),
    "recreate": ("item", "drop table item; create table item (id int primary key, v text)"),
    "truncate": ("part", "truncate part_1"),
    "detach": ("part", "alter table part detach partition part_2"),
    "drop a partition": ("part", "drop table part_1"),
    "attach": ("part", "alter table part attach partition late for values from (20) to (30)"),
    "move": ("part", "update part set id = 12 where id = 1"),
}


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server of all tables."""
    await run_all(conn, TABLES)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as found:
        yield found


async def _stored(conn: AsyncConnection, table: str) -> list[Mapping[str, str | None]]:
    cursor = await conn.execute(f"select * from {table} where false".encode())
    names = [column.name for column in cursor.description or ()]
    texts = ", ".join(f'"{name}"::text' for name in names)
    rows = await (await conn.execute(f"select {texts} from {table}".encode())).fetchall()
    return [dict(zip(names, row, strict=True)) for row in rows]


def _sorted(rows: Iterable[Mapping[str, str | None]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.few(2)
@pytest.mark.parametrize("change", CHANGES)
async def test_clients_have_what_is_stored(
    conn: AsyncConnection, served: Served, change: str
) -> None:
    """The one that follows, and a new one, without another change of a row."""
    table, statements = CHANGES[change]
    client = Follower(served, table=table)
    await client.catch_up()
    assert client.rows
    await run_all(conn, statements)
    wanted = _sorted(await _stored(conn, table))
    async with asyncio.timeout(DEADLINE):
        while _sorted(client.rows.values()) != wanted:
            await client.step(live=client.is_up_to_date)
    new = Follower(served, table=table)
    await new.catch_up()
    assert _sorted(new.rows.values()) == wanted


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("alter table item enable row level security", httpx.codes.FORBIDDEN),
        ("drop table item", httpx.codes.BAD_REQUEST),
        ("alter table item rename to other", httpx.codes.BAD_REQUEST),
    ],
)
async def test_what_may_be_served_no_more_is_refused(
    conn: AsyncConnection, served: Served, change: str, status: int
) -> None:
    """To who follows as to who comes, within seconds."""
    client = Follower(served, table="item")
    await client.catch_up()
    await run_all(conn, change)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        await client.until({})
    assert caught.value.response.status_code == status
    assert (await served.get(table="item", offset="-1")).status_code == status


@pytest.mark.parametrize(("table", "text"), [("part_1", "a partition"), ("quick", "not logged")])
async def test_a_table_that_the_stream_does_not_have_is_refused(
    served: Served, table: str, text: str
) -> None:
    """At once, with the reason."""
    answer = await served.get(table=table, offset="-1")
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert text in answer.text


@pytest.mark.slow
async def test_a_request_stalls_no_writer(conn: AsyncConnection, served: Served, dsn: str) -> None:
    """A transaction that wrote stays open: others write, other shapes come, and its rows too."""
    async with session(dsn) as idle, session(dsn) as writer:
        await run_all(idle, "begin; insert into item values (3, 'idle')")
        asked = asyncio.create_task(served.get(table="item", offset="-1"))
        slowest = 0.0
        for n in range(10, 30):
            started = time.monotonic()
            await run_all(writer, f"insert into item values ({n}, 'w')")
            slowest = max(slowest, time.monotonic() - started)
            await asyncio.sleep(0.1)
        assert slowest < 1.0  # a lock that waits holds each for two seconds
        other = Follower(served, table="part")
        async with asyncio.timeout(10):
            await other.catch_up()
        assert not asked.done()
        await run_all(idle, "commit")
        answer = await asked
    assert answer.status_code == httpx.codes.OK
    client = Follower(served, table="item")
    await client.catch_up()
    assert _sorted(client.rows.values()) == _sorted(await _stored(conn, "item"))
    assert '"idle"' in answer.text


async def test_attaching_stalls_no_writer(conn: AsyncConnection, dsn: str) -> None:
    """It waits for a moment without a writer, and nobody waits for it."""
    await run_all(conn, "create table item (id int primary key, v text)")
    attach = "select agent.attach('item', 'model=fake')"
    await run_all(
        conn,
        "insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake')",
    )
    async with session(dsn) as idle, session(dsn) as writer, session(dsn) as other:
        await run_all(idle, "begin; insert into item values (1)")
        attaching = asyncio.create_task(run_all(other, attach))
        await until(
            conn,
            "select exists (select from pg_stat_activity where wait_event = 'PgSleep'"
            " and datname = current_database())",
        )
        await run_all(writer, "set lock_timeout = '500ms'")
        for n in range(10, 20):
            await run_all(writer, f"insert into item values ({n})")
        assert not attaching.done()
        await run_all(idle, "commit")
        await attaching
