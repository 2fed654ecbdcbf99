"""Sub-selects in the where clause of open tables: rows move when another table changes."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, rows, run_all
from tests.helpers.shapes import SECRET, Follower, Served, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.limits import EngineLimits

TABLES = """
create type mood as enum ('sad', 'fine');
create table projects (id integer primary key, owner text, mood mood);
create table items (id integer primary key, project_id integer, text text);
insert into projects values (1, 'ann', 'fine'), (2, 'bob', 'fine'), (3, 'ann', 'sad');
insert into items select n, 1 + n % 3, 'item ' || n from generate_series(1, 6) n
"""
OPEN = frozenset({"public.items", "public.projects"})
OF_ANN = {
    "table": "items",
    "where": "project_id in (select id from projects where owner = $1)",
    "params[1]": "ann",
}
WHERES = [
    "project_id in (select id from projects where owner = 'ann')",
    "project_id not in (select id from projects where owner = 'ann')",
    "id < 20 and (project_id in (select id from projects where mood = 'fine') or text = 'x')",
    "project_id in (select id from projects where id in (select id from items where text = 'x'))",
    "not (project_id in (select id from projects) and id > 10)",
]
REFUSED = [
    "project_id in (select id, owner from projects)",
    "project_id in (select max(id) from projects)",
    "project_id in (select pg_sleep(1))",
    "project_id in (select id from projects where pg_sleep(1) is null)",
    "project_id in (select id from projects p where p.id = project_id)",
    "project_id in (select id from projects where owner = text)",  # of the row outside
    "project_id in (select nothing from projects)",
    "project_id in (select owner from projects)",  # an integer, and a text
    "project_id in (select id from projects limit 1)",
    "project_id in (select id from projects union select 1)",
    "project_id in (select id from generate_series(1, 3))",
    "project_id = (select id from projects)",
    "exists (select id from projects)",
    " and ".join(["project_id in (select id from projects)"] * 6),
]


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """Both tables are open."""
    await run_all(conn, TABLES)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, tables=OPEN) as found:
        yield found


async def present(
    conn: AsyncConnection, where: str, columns: Sequence[str] = ("id", "project_id", "text")
) -> dict[str, dict[str, Any]]:
    """The rows of items that PostgreSQL finds."""
    query = f"select {', '.join(f'{name}::text' for name in columns)} from items where {where}"
    found = [dict(zip(columns, row, strict=True)) for row in await rows(conn, query)]
    return {f'"public"."items"/"{row["id"]}"': row for row in found}


def of(client: Follower) -> str:
    """Its condition, as PostgreSQL reads it."""
    return client.query["where"].replace("$1", "'ann'")


async def test_rows_move_with_the_other_table(conn: AsyncConnection, served: Served) -> None:
    """In and out; what is neither is not sent."""
    client = Follower(served, **OF_ANN)
    await client.until(await present(conn, of(client)))
    assert len(client.rows) == 4
    sent = len(client.messages)
    await run_all(conn, "update projects set owner = 'ann' where id = 2")
    await client.until(await present(conn, of(client)))
    await run_all(conn, "delete from projects where id = 1; insert into items values (7, 3, 'new')")
    await client.until(await present(conn, of(client)))
    await run_all(conn, "update items set text = 'other' where id = 7")
    await client.until(await present(conn, of(client)))
    found = [m for m in client.messages[sent:] if "operation" in m["headers"]]
    assert [m["headers"]["operation"] for m in found].count("delete") == 2
    assert {tuple(m["headers"]["relation"]) for m in found} == {("public", "items")}
    assert found[-1]["value"] == {"id": "7", "text": "other"}
    assert client.refetches == 0


async def test_a_transaction_is_seen_as_a_whole_and_by_its_id(
    conn: AsyncConnection, served: Served
) -> None:
    """A page that wrote waits for its ID, also where no row of the shape changed."""
    client = Follower(served, **OF_ANN)
    await client.catch_up()
    for statement in (
        "update projects set owner = case owner when 'ann' then 'bob' else 'ann' end",
        "insert into projects values (9, 'nobody', null)",
    ):
        async with conn.transaction():
            await run_all(conn, statement)
            ((xid,),) = await rows(conn, "select pg_current_xact_id()::text::bigint")
        before = len(client.messages)
        async with asyncio.timeout(DEADLINE):
            while not any("xmax" in m["headers"] for m in client.messages[before:]):
                await client.step(live=client.is_up_to_date)
        found = [m["headers"] for m in client.messages[before:]]
        moved = [each for each in found if "operation" in each]
        assert all(xid in each["txids"] for each in moved)
        (end,) = [each for each in found if each.get("control") == "snapshot-end"]
        assert int(end["xmin"]) > xid
        assert client.rows == await present(conn, of(client))


@pytest.mark.parametrize("replica", ["default", "full"])
async def test_updates_have_what_the_replica_asks_for(
    conn: AsyncConnection, served: Served, replica: str
) -> None:
    """The changed columns; or the whole row, and the old values of what was changed."""
    client = Follower(
        served, **OF_ANN, replica=replica, columns="id,text", offset="-1", log="changes_only"
    )
    await client.catch_up()
    assert not client.rows
    client.rows |= await present(conn, of(client), ("id", "text"))
    await run_all(conn, "update items set text = 'new' where id = 3")
    await client.until(await present(conn, of(client), ("id", "text")))
    await run_all(conn, "update items set project_id = 2 where id = 3")
    await client.until(await present(conn, of(client), ("id", "text")))
    updated, deleted = (m for m in client.messages if "operation" in m["headers"])
    if replica == "full":
        assert updated["value"] == {"id": "3", "text": "new"}
        assert updated["old_value"] == {"text": "item 3"}
        assert deleted["value"] == {"id": "3", "text": "new"}
    else:
        assert updated["value"] == {"id": "3", "text": "new"}
        assert deleted["value"] == {"id": "3"}


async def test_an_event_stream_and_a_subset_have_the_same_rows(
    conn: AsyncConnection, served: Served
) -> None:
    """As of any other shape."""
    client = Follower(served, **OF_ANN)
    await client.catch_up()
    query = {**OF_ANN, "secret": SECRET, "handle": client.handle, "offset": client.offset}
    query |= {"live": "true", "live_sse": "true"}
    async with served.http.stream("GET", served.url, params=query) as answer:
        await run_all(conn, "update projects set owner = 'ann' where id = 2")
        found = list[dict[str, Any]]()
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
            if found and found[-1]["headers"].get("control") == "up-to-date":
                break
    assert [m["value"]["id"] for m in found if "value" in m] == ["1", "4"]
    subset = {"subset__where": "id > 4", "subset__order_by": "id"}
    some = (await served.get(**OF_ANN, **subset)).json()
    assert [row["value"]["id"] for row in some["data"]] == ["5", "6"]
    query = {**OF_ANN, "subset__where": "id in (select id from projects)"}
    refused = await served.get(**query)
    assert refused.status_code == httpx.codes.BAD_REQUEST


@pytest.mark.parametrize("where", REFUSED)
async def test_what_cannot_be_followed_is_refused_with_the_reason(
    served: Served, where: str
) -> None:
    """Of other forms, of columns of the row outside, of what is no table."""
    answer = await served.get(table="items", where=where, offset="-1")
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.json()["errors"].keys() == {"where"}


async def test_only_open_tables_can_be_selected_from(conn: AsyncConnection, served: Served) -> None:
    """Not another one, nor those of walagent and PostgreSQL."""
    await run_all(conn, "create table secrets (id integer primary key, owner text)")
    for table in ("secrets", "agent.credential", "pg_catalog.pg_authid", "pg_authid"):
        where = f"project_id in (select id from {table})"
        answer = await served.get(table="items", where=where, offset="-1")
        assert answer.status_code == httpx.codes.FORBIDDEN, (table, answer.text)
        nested = f"project_id in (select id from projects where {where.replace('project_', '')})"
        answer = await served.get(table="items", where=nested, offset="-1")
        assert answer.status_code == httpx.codes.FORBIDDEN, (table, answer.text)


@pytest.mark.parametrize(
    "statement",
    [
        "create table parts (id integer, owner text) partition by list (id)",
        "create unlogged table parts (id integer primary key, owner text)",
        "create table parts (id integer, owner text)",
        "create view parts as select * from projects",
    ],
)
async def test_a_table_whose_changes_are_not_sent_is_refused(
    conn: AsyncConnection, dsn: str, statement: str
) -> None:
    """Partitioned, unlogged, without a key, or a view."""
    await run_all(conn, f"{TABLES}; {statement}")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        where = "project_id in (select id from parts)"
        answer = await served.get(table="items", where=where, offset="-1")
        assert answer.status_code == httpx.codes.BAD_REQUEST, answer.text


@pytest.mark.parametrize(
    ("statement", "status"),
    [
        ("drop table projects", 400),
        ("alter table projects drop column owner", 400),
        ("alter table projects enable row level security", 403),
        ("alter table projects rename column owner to text", 400),
    ],
)
async def test_what_is_done_to_the_other_table_is_noticed(
    conn: AsyncConnection, served: Served, statement: str, status: int
) -> None:
    """Without a change of a row: clients fetch again, or are refused."""
    client = Follower(served, **OF_ANN)
    await client.until(await present(conn, of(client)))
    await run_all(conn, statement)
    with pytest.raises(httpx.HTTPStatusError, match=f"{status}"):
        await client.until({}, within=DEADLINE)


@pytest.mark.parametrize(
    "statement", ["truncate projects", "alter table projects alter column owner type varchar"]
)
async def test_another_table_that_is_changed_as_a_whole_is_read_again(
    conn: AsyncConnection, served: Served, statement: str
) -> None:
    """A rewrite, and a TRUNCATE."""
    client = Follower(served, **OF_ANN)
    await client.until(await present(conn, of(client)))
    handle = client.handle
    await run_all(conn, f"{statement}; update items set text = 'new' where id = 6")
    await client.until(await present(conn, of(client)))
    async with asyncio.timeout(DEADLINE):
        while client.handle in {"", handle}:
            await again(client)
    await client.until(await present(conn, of(client)))


async def again(client: Follower) -> None:
    """Follow; ask again where that is said."""
    try:
        await client.step(live=client.is_up_to_date)
    except httpx.HTTPStatusError as error:
        if error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            raise


async def test_a_shape_that_finds_too_much_is_refused(conn: AsyncConnection, dsn: str) -> None:
    """Also once it grows; others go on."""
    await run_all(conn, TABLES)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, limits=EngineLimits(compared_bytes=1_000)) as served:
        client, other = Follower(served, **OF_ANN), Follower(served, table="items")
        await client.catch_up()
        await other.catch_up()
        await run_all(
            conn, "insert into items select n, 1, repeat('x', 100) from generate_series(7, 20) n"
        )
        with pytest.raises(httpx.HTTPStatusError, match="400"):
            await client.until({}, within=DEADLINE)
        await other.until(await present(conn, "true"))
        assert other.refetches == 0
        assert "1000 bytes" in (await served.get(**OF_ANN, offset="-1")).text


async def test_a_shape_is_ended_by_its_handle(conn: AsyncConnection, served: Served) -> None:
    """And made again."""
    client = Follower(served, **OF_ANN)
    await client.catch_up()
    query = {"secret": SECRET, "handle": client.handle}
    assert (await served.http.delete(served.url, params=query)).status_code == 202
    await client.step(live=True)
    assert client.refetches == 1
    await client.until(await present(conn, of(client)))


async def write(conn: AsyncConnection, chance: random.Random) -> None:
    """Commit one random transaction over both tables."""
    async with conn.transaction():
        for _ in range(chance.randint(1, 5)):
            item, project = chance.randint(1, 30), chance.randint(1, 6)
            owner, text = chance.choice(["ann", "bob", None]), chance.choice(["x", "y"])
            mood = chance.choice(["sad", "fine", None])
            match chance.randint(0, 7):
                case 0:
                    await conn.execute("delete from projects where id = %s", (project,))
                case 1:
                    await conn.execute("delete from items where id = %s", (item,))
                case 2:
                    statement = "update items set id = id + 30 where id = %s and not exists"
                    statement += " (select from items where id = %s)"
                    await conn.execute(statement.encode(), (item, item + 30))
                case 3 | 4:
                    await conn.execute(
                        "insert into projects values (%s, %s, %s) on conflict (id)"
                        " do update set owner = excluded.owner, mood = excluded.mood",
                        (project, owner, mood),
                    )
                case _:
                    await conn.execute(
                        "insert into items values (%s, %s, %s) on conflict (id) do update"
                        " set project_id = excluded.project_id, text = excluded.text",
                        (item, chance.choice([project, None]), text),
                    )
        if chance.random() < 0.02:
            await run_all(conn, chance.choice(["truncate items", "truncate projects"]))


async def follow(client: Follower, chance: random.Random) -> None:
    """Follow; leave some requests before they are answered."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.choice((0.02, 0.2, 5.0))):
                await again(client)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_every_client_ends_as_the_tables(conn: AsyncConnection, dsn: str, seed: int) -> None:
    """After random transactions over both tables, for conditions of each form."""
    chance = random.Random(seed)
    await run_all(conn, TABLES)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    limits = EngineLimits(chunk_bytes=300, log_bytes=20_000 if seed == 1 else 64 << 20)
    async with serving(conn, dsn, limits=limits) as served:
        clients = [
            Follower(served, table="items", where=where, replica=replica)
            for where in WHERES
            for replica in ("default", "full")
        ]
        tasks = [asyncio.create_task(follow(each, chance)) for each in clients]
        for _ in range(150 if seed == 1 else 600):
            await write(conn, chance)
            await asyncio.sleep(chance.random() / 50)
        for each in tasks:
            each.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError), result
        async with asyncio.timeout(DEADLINE):
            for client in clients:
                wanted = await present(conn, client.query["where"])
                while client.rows != wanted:
                    await again(client)
    kinds = {m["headers"].get("operation") for client in clients for m in client.messages}
    assert kinds >= {"insert", "update", "delete"}
