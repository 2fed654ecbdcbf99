"""Shapes over HTTP: what clients receive is what the tables have."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection, Rollback

from tests.helpers.database import DEADLINE, rows, run_all, session, until
from tests.helpers.shapes import SECRET, Follower, Served, serving
from walagent.config import Replication
from walagent.replication import publication_watch
from walagent.replication.bootstrap import ensure_slot
from walagent.store import gaps
from walagent.sync import publishing
from walagent.sync.applying import Applier
from walagent.sync.engine import ShapeEngine
from walagent.sync.limits import EngineLimits
from walagent.wal.publications import published_as

TABLE = """
create table item (
    id bigint primary key, title text, n integer, done boolean not null default false,
    at timestamptz, price numeric(10, 2), weight float8, tags text[], body jsonb
);
"""
ATTACH = """
insert into agent.model (name, provider, model_id) values ('m', 'scripted', 'm');
select agent.attach('item', model => 'm', name => 'reader', system_prompt => 'Read.');
"""
LEAVE = "alter publication walagent drop table item"
ROW = "insert into item (id, title, n) values (%s, %s, %s)"


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server of shapes over a table of items."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as found:
        yield found


def hold(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let the stream be behind until the event is set."""
    behind, commit = asyncio.Event(), ShapeEngine._commit  # noqa: SLF001 - to hold the stream

    async def late(engine: ShapeEngine, *given: Any) -> None:  # noqa: ANN401 - passed on
        await behind.wait()
        await commit(engine, *given)

    monkeypatch.setattr(ShapeEngine, "_commit", late)
    return behind


async def select(conn: AsyncConnection, where: str = "true") -> dict[str, dict[str, str | None]]:
    """The rows as their shape has them: by key, with values as PostgreSQL writes them."""
    names = [
        str(name)
        for (name,) in await rows(
            conn,
            "select attname from pg_attribute where attrelid = 'item'::regclass and attnum > 0"
            " and not attisdropped order by attnum",
        )
    ]
    texts = ", ".join(f"concat(\"{name}\", '')" for name in names)
    nulls = ", ".join(f'"{name}" is null' for name in names)
    found = await rows(
        conn,
        f"select array[{texts}], array[{nulls}] from item where {where}",
    )
    return {
        f'"public"."item"/"{texts[0]}"': {
            name: None if is_null else text
            for name, text, is_null in zip(names, texts, nulls, strict=True)
        }
        for texts, nulls in found  # type: ignore[misc]
    }


async def test_a_snapshot_and_what_follows_are_the_rows(
    conn: AsyncConnection, served: Served
) -> None:
    """Every kind of change, and values of every kind of type."""
    await run_all(
        conn,
        """
        set timezone = 'UTC';
        insert into item values
            (1, E'a\\tb\\\\c\\n', null, true, '2026-01-02 03:04:05.678+00', 1.50, 1e20,
             '{a,"b c",NULL}', '{"x": 1.0}'),
            (2, '', -5, false, 'infinity', 'NaN', 'NaN', '{}', 'null'),
            (3, null, 7, true, null, 0, -0.000012345, null, '[]');
        """,
    )
    client = Follower(served, table="item")
    await client.catch_up()
    assert client.rows == await select(conn)
    await run_all(
        conn,
        """
        insert into item values (4, 'new', 1, false, now(), 99999999.99, 1e15, '{x}', '{}'),
            (5, 'x', 2, true, null, 0.01, 123456789012345.0, null, null),
            (6, 'y', 2, true, null, 1e3, 1e-5, null, null),
            (7, 'z', 2, true, null, -1, 0.1::float4, null, null);
        update item set title = 'changed', n = null where id = 2;
        update item set id = 30 where id = 3;
        delete from item where id = 1;
        """,
    )
    await client.until(await select(conn))
    assert client.refetches == 0


async def test_a_where_clause_follows_rows_in_and_out(
    conn: AsyncConnection, served: Served
) -> None:
    """A row that begins to match is an insert, one that stops is a delete."""
    client = Follower(served, table="item", where="n > $1 and done", **{"params[1]": "10"})
    await client.catch_up()
    assert client.rows == {}
    for statement in (
        "insert into item (id, n, done) values (1, 11, true), (2, 11, false), (3, 9, true)",
        "insert into item (id, n, done) values (4, null, true)",
        "update item set done = true where id = 2",
        "update item set n = 10 where id = 1",
        "update item set n = 12 where id in (1, 3)",
        "update item set id = 40 where id = 3",
        "delete from item where id in (2, 4)",
    ):
        await run_all(conn, statement)
        await client.until(await select(conn, "n > 10 and done"))


CONDITIONS = (
    "title ilike 'a%' or n + 1 > 10",
    "price between 1 and 2 and at > '2026-01-01'",
    "tags && array['x', 'y'] and not coalesce(done, false)",
    "lower(title) || '%' = 'a%'",
    "weight::numeric % 2 = 1",
)


@pytest.mark.slow
async def test_postgresql_evaluates_what_is_not_compiled(
    conn: AsyncConnection, served: Served
) -> None:
    """Several shapes in one query, on rows that move in and out."""
    clients = [Follower(served, table="item", where=condition) for condition in CONDITIONS]
    for client in clients:
        await client.catch_up()
    await run_all(
        conn,
        """
        insert into item (id, title, n, price, at, tags, weight, done)
        select g, (array['a', 'Ab', 'b', null])[1 + g % 4], g, g / 10.0,
               '2026-01-01'::timestamptz + (g - 10) * interval '1 day',
               array[(array['x', 'z'])[1 + g % 2]], g, g % 3 = 0
          from generate_series(1, 40) g
        """,
    )
    for change in (
        "update item set title = 'a', n = 0 where id % 5 = 0",
        "update item set price = 1.5, tags = '{y}', done = true where id % 7 = 0",
        "update item set id = id + 100, weight = 3 where id % 3 = 0",
        "delete from item where id % 2 = 0",
    ):
        await run_all(conn, change)
        for client, condition in zip(clients, CONDITIONS, strict=True):
            await client.until(await select(conn, condition))
    assert [client.refetches for client in clients] == [0] * len(clients)


async def test_a_large_value_that_did_not_change_is_read_again(
    conn: AsyncConnection, served: Served
) -> None:
    """The stream leaves it out: a row that moves in has it, one that stays keeps it."""
    whole, part = Follower(served, table="item"), Follower(served, table="item", where="n > 5")
    await run_all(conn, "alter table item alter title set storage external")
    await conn.execute("insert into item (id, title, n) values (1, repeat('x', 20000), 1)")
    for client in (whole, part):
        await client.catch_up()
    for change in ("n = 6", "n = 7", "id = 2", "n = 1"):
        await run_all(conn, f"update item set {change}")
        await whole.until(await select(conn))
        await part.until(await select(conn, "n > 5"))


@pytest.mark.slow
async def test_what_a_condition_does_to_a_row_is_said(
    conn: AsyncConnection, served: Served
) -> None:
    """A condition that fails on a row: the client sent it, so asking again is of no use."""
    await conn.execute(ROW, (1, "a", 0))
    answer = await served.get(table="item", offset="-1", where="10 / n > 1")
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert "division by zero" in answer.text
    await run_all(conn, "update item set n = 1")
    client = Follower(served, table="item", where="10 / n > 1")
    await client.catch_up()
    assert len(client.rows) == 1
    await run_all(conn, "update item set n = 0")
    with pytest.raises(httpx.HTTPStatusError, match="400"):
        await client.until({})


@pytest.mark.slow
async def test_rows_of_children_are_not_rows_of_the_table(
    conn: AsyncConnection, served: Served
) -> None:
    """Of inheritance; those of partitions are."""
    await run_all(
        conn,
        """
        create table child () inherits (item);
        insert into child (id) values (50);
        insert into item (id) values (1);
        create table part (id int primary key, n int) partition by range (id);
        create table part_1 partition of part for values from (0) to (10);
        create table part_2 partition of part for values from (10) to (20);
        insert into part values (1, 1), (11, 11);
        """,
    )
    whole, parts = Follower(served, table="item"), Follower(served, table="part")
    await whole.catch_up()
    await parts.catch_up()
    assert [row["id"] for row in whole.rows.values()] == ["1"]
    assert sorted(row["id"] for row in parts.rows.values()) == ["1", "11"]
    await run_all(
        conn,
        "insert into child (id) values (51); insert into item (id) values (2);"
        "update part set id = 12 where id = 1",
    )
    await whole.until(await select(conn, "tableoid = 'item'::regclass"))
    while {row["id"] for row in parts.rows.values()} != {"11", "12"}:
        await parts.step(live=parts.is_up_to_date)


@pytest.mark.slow
async def test_random_transactions_end_as_the_table(
    conn: AsyncConnection, dsn: str, served: Served
) -> None:
    """Snapshots taken amid transactions: no row is lost, none comes twice."""
    chance = random.Random(7)

    async def write(seed: int) -> None:
        own = random.Random(seed)
        async with session(dsn) as other:
            for _ in range(40):
                async with other.transaction():
                    for _ in range(own.randint(1, 4)):
                        key, number = own.randint(1, 60) + 100 * seed, own.randint(0, 20)
                        await other.execute(
                            "insert into item (id, n, title) values (%s, %s, %s)"
                            " on conflict (id) do update set n = excluded.n",
                            (key, number, str(own.random())),
                        )
                        if own.random() < 0.3:
                            await other.execute("delete from item where id = %s", (key - 1,))
                    await asyncio.sleep(own.random() / 100)
                    if own.random() < 0.1:
                        raise Rollback

    writers = [asyncio.create_task(write(seed)) for seed in range(3)]
    clients = list[Follower]()
    for n in range(12):
        # Without a condition, with one for Python, and with one for PostgreSQL.
        where = [{}, {"where": f"n >= {n}"}, {"where": f"n + 0 >= {n}"}][n % 3]
        clients.append(Follower(served, table="item", **where))
        await clients[-1].catch_up()
        await asyncio.sleep(chance.random() / 5)
    await asyncio.gather(*writers)
    for n, client in enumerate(clients):
        await client.until(await select(conn, f"n >= {n}" if n % 3 else "true"))
        assert client.refetches == 0


async def test_an_event_stream_has_the_same_messages(conn: AsyncConnection, served: Served) -> None:
    """A client that resumes where the last up-to-date was receives nothing twice."""
    client = Follower(served, table="item")
    await client.catch_up()
    offset = client.offset
    for n in range(3):
        await conn.execute(ROW, (n * 2, "a", n))
        await conn.execute(
            f"insert into item (id) values ({n * 2 + 1000}), ({n * 2 + 1001})".encode()
        )
    seen = list[dict[str, object]]()
    while len([m for m in seen if "key" in m]) < 9:
        query = {"secret": SECRET, "table": "item", "offset": offset, "handle": client.handle}
        query |= {"live": "true", "live_sse": "true"}
        async with served.http.stream("GET", served.url, params=query) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            async for line in answer.aiter_lines():
                if not line.startswith("data: "):
                    continue
                message = json.loads(line.removeprefix("data: "))
                seen.append(message)
                if message["headers"].get("control") == "up-to-date":
                    offset = f"{message['headers']['global_last_seen_lsn']}_0"
                    break
    keys = [message["key"] for message in seen if "key" in message]
    assert len(keys) == len(set(keys)) == 9


@pytest.mark.few(1)
@pytest.mark.parametrize("where", ["", "n > 0", "n % 2 = 1"])
async def test_a_row_leaves_its_old_key_also_if_it_is_deleted_under_the_new_one(
    conn: AsyncConnection, served: Served, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Values that were not sent cannot be read any more: the server does not have the row."""
    await run_all(conn, "alter table item alter title set storage external")
    await conn.execute(ROW, (1, "x" * 10_000, 1))
    client = Follower(served, table="item", **({"where": where} if where else {}))
    await client.catch_up()
    behind = hold(monkeypatch)
    await run_all(conn, "update item set id = 2")
    await run_all(conn, "delete from item")
    behind.set()
    await conn.execute(ROW, (1, "again", 1))
    await conn.execute(ROW, (2, "again", 1))
    await client.until(await select(conn))
    assert client.refetches == 0


async def test_what_a_snapshot_has_is_not_doubled_by_a_stream_that_is_behind(
    conn: AsyncConnection, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit before the snapshot can be received after the shape is ready."""
    await served.get(table="item", offset="-1", where="n > 100")  # the stream carries the table
    behind = hold(monkeypatch)
    await conn.execute(ROW, (1, "a", 1))
    await conn.execute(ROW, (2, "b", 2))
    await conn.execute("delete from item where id = 2")
    client, part = Follower(served, table="item"), Follower(served, table="item", where="n > 0")
    for each in (client, part):
        await each.catch_up()
        assert len(each.rows) == 1
    behind.set()
    await conn.execute(ROW, (2, "c", 2))
    for each in (client, part):
        await each.until(await select(conn))
        assert each.refetches == 0


@pytest.mark.slow
async def test_a_shape_relies_on_its_own_request_of_the_table(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is still published from before a restart is removed first, then added again."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        await served.get(table="item", offset="-1")
    asked, removes, removed, written = (asyncio.Event() for _ in range(4))
    request = gaps.request_tables

    async def late(*given: Any) -> None:  # noqa: ANN401 - passed on
        asked.set()
        await (written if removed.is_set() else removes).wait()
        await request(*given)
        removed.set()

    monkeypatch.setattr(gaps, "request_tables", late)
    async with serving(conn, dsn) as served, asyncio.timeout(DEADLINE):
        await asked.wait()  # of no table
        client = Follower(served, table="item")
        catching = asyncio.create_task(client.catch_up())
        await asyncio.wait([catching], timeout=0.5)
        removes.set()
        await removed.wait()
        await conn.execute(ROW, (1, "a", 1))
        written.set()
        await catching
        await conn.execute("update item set title = 'b'")
        await client.until(await select(conn))


@pytest.mark.slow
async def test_a_table_that_leaves_the_publication_is_fetched_again(
    conn: AsyncConnection, served: Served
) -> None:
    """Another role removed it: the stream is silent about what was committed meanwhile."""
    client = Follower(served, table="item")
    await client.catch_up()
    await run_all(conn, LEAVE)
    await conn.execute(ROW, (1, "a", 1))
    async with asyncio.timeout(DEADLINE):
        await client.until(await select(conn))
        await conn.execute(ROW, (2, "b", 1))
        await client.until(await select(conn))
    assert client.refetches == 1


@pytest.mark.slow
async def test_a_table_that_leaves_the_publication_twice_is_added_again(
    conn: AsyncConnection, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time while shapes wait for it, and none relies on it."""
    client, seen = Follower(served, table="item"), asyncio.Event()
    await client.catch_up()

    async def late(*given: Any) -> Any:  # noqa: ANN401 - passed on
        await seen.wait()
        return await published_as(*given)

    monkeypatch.setattr(publishing, "published_as", late)
    await run_all(conn, LEAVE)
    await conn.execute(ROW, (1, "a", 1))
    async with asyncio.timeout(DEADLINE):
        following = asyncio.create_task(client.until(await select(conn)))
        await until(
            conn, "select exists (select from pg_publication_tables where tablename = 'item')"
        )
        await run_all(conn, LEAVE)
        seen.set()
        await following


@pytest.mark.slow
async def test_a_gap_of_agents_is_not_hidden_by_a_shape(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is not added again for the shape before the gap is found."""
    monkeypatch.setattr(publication_watch, "_CHECK", 9.0)  # later than tables are added again
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        await run_all(conn, ATTACH)
        await until(conn, "select bool_and(active_from is not null) from agent.attachment_version")
        await Follower(served, table="item").catch_up()
        await run_all(conn, LEAVE)
        await until(conn, "select exists (select from agent.gap where reason ~ 'item was removed')")


@pytest.mark.slow
async def test_an_event_stream_resumes_after_what_it_sent(
    conn: AsyncConnection, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was sent while other shapes of the table waited for PostgreSQL."""
    evaluate = Applier._evaluate  # noqa: SLF001 - to hold the other shape

    async def late(applier: Applier, *given: Any) -> Any:  # noqa: ANN401 - passed on
        await asyncio.sleep(0.3)
        return await evaluate(applier, *given)

    monkeypatch.setattr(Applier, "_evaluate", late)
    await served.get(table="item", offset="-1", where="title ilike 'a'")  # is not compiled
    client = Follower(served, table="item")
    await client.catch_up()
    query = {"secret": SECRET, "table": "item", "offset": client.offset, "handle": client.handle}
    query |= {"live": "true", "live_sse": "true"}
    sent = list[Any]()
    async with served.http.stream("GET", served.url, params=query) as answer:
        await conn.execute(ROW, (1, "a", 1))
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                sent.append(json.loads(line.removeprefix("data: "))["headers"])
                if len(sent) > 2 and "control" in sent[-1]:
                    break
    (change,) = [each for each in sent if "operation" in each]
    assert int(sent[-1]["global_last_seen_lsn"]) > int(change["lsn"])


@pytest.mark.slow
async def test_an_idle_event_stream_is_kept_alive_until_its_end(
    conn: AsyncConnection, dsn: str
) -> None:
    """Proxies close what is silent; a change is sent between two comments."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, stream=2.0, keep_alive=0.4) as served:
        client = Follower(served, table="item")
        await client.catch_up()
        query = {"secret": SECRET, "table": "item", "offset": client.offset}
        query |= {"handle": client.handle, "live": "true", "live_sse": "true"}
        lines, written = list[str](), False
        async with served.http.stream("GET", served.url, params=query) as answer:
            async for line in answer.aiter_lines():
                lines.append(line)
                if not written and lines.count(": keep-alive") == 2:
                    await conn.execute(ROW, (1, "a", 1))
                    written = True
    assert lines.count(": keep-alive") >= 3
    (change,) = [line for line in lines if line.startswith("data: ") and '"a"' in line]
    assert lines.index(change) < len(lines) - 1 - lines[::-1].index(": keep-alive")


async def test_a_shape_ends_when_its_table_changes(conn: AsyncConnection, served: Served) -> None:
    """Another column or a truncation: clients fetch again, with a handle that never was."""
    client = Follower(served, table="item")
    await conn.execute(ROW, (1, "a", 1))
    await client.catch_up()
    handles = {client.handle}
    for statement in (
        "truncate item",
        "alter table item add column more text; insert into item (id) values (2)",
    ):
        await run_all(conn, statement)
        while client.refetches < len(handles):
            await client.step(live=client.is_up_to_date)
        await client.catch_up()
        assert client.rows == await select(conn)
        handles.add(client.handle)
    assert client.refetches == 2
    assert len(handles) == 3


async def test_a_log_that_is_full_ends_the_shape(conn: AsyncConnection, dsn: str) -> None:
    """A client that is far behind fetches again; memory stays bounded."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, limits=EngineLimits(log_bytes=5000)) as served:
        client = Follower(served, table="item")
        await client.catch_up()
        await conn.execute(
            "insert into item (id, title) select n, repeat('x', 100) from generate_series(1, 200) n"
        )
        await client.until(await select(conn))
        assert client.refetches == 1


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("query", "status", "names"),
    [
        ({"table": "item"}, 400, "offset"),
        ({"table": "item", "offset": "5"}, 400, "offset"),
        ({"table": "item", "offset": "0_0"}, 400, "handle"),
        ({"table": "item", "offset": "-1", "live": "true"}, 400, "live"),
        ({"table": "nothing", "offset": "-1"}, 400, "table"),
        ({"table": "item", "offset": "-1", "columns": "title"}, 400, "columns"),
        ({"table": "item", "offset": "-1", "columns": "id,nothing"}, 400, "columns"),
        ({"table": "item", "offset": "-1", "where": "id = (select 1)"}, 400, "where"),
        ({"table": "item", "offset": "-1", "where": "pg_sleep(10) is null"}, 400, "where"),
        ({"table": "item", "offset": "-1", "where": "nothing = 1"}, 400, "where"),
        ({"table": "item", "offset": "-1", "where": "id = 'x'"}, 400, "where"),
        ({"table": "item", "offset": "-1", "where": "id = $1"}, 400, "where"),
        ({"table": "item", "offset": "-1", "where": "1=1; drop table item"}, 400, "where"),
        ({"table": "agent.run", "offset": "-1"}, 403, "served"),
        ({"table": "item", "offset": "-1", "replica": "some"}, 400, "replica"),
    ],
)
async def test_bad_input_is_refused(
    served: Served, query: dict[str, str], status: int, names: str
) -> None:
    """With the protocol's status, and the name of what is wrong."""
    answer = await served.get(**query)
    assert answer.status_code == status
    assert names in answer.text


async def test_nothing_is_served_without_the_secret(served: Served) -> None:
    """Neither without one, nor with another; as a parameter or as a bearer token."""
    query = {"table": "item", "offset": "-1"}
    for shown in ({}, {"secret": "another"}):
        answer = await served.http.get(served.url, params={**query, **shown})
        assert answer.status_code == httpx.codes.UNAUTHORIZED
        assert answer.json() == {"message": "Unauthorized - Invalid API secret"}
    bearer = {"authorization": f"Bearer {SECRET}"}
    assert (
        await served.http.get(served.url, params=query, headers=bearer)
    ).status_code == httpx.codes.OK


async def test_a_subset_is_a_part_of_the_rows(conn: AsyncConnection, served: Served) -> None:
    """With an order and a limit, and the snapshot that it was read in."""
    await conn.execute("insert into item (id, n) select n, n % 10 from generate_series(1, 50) n")
    answer = await served.http.post(
        served.url,
        params={"secret": SECRET, "table": "item", "offset": "-1", "where": "n < 5"},
        json={"where": "n > $1", "params": {"1": "2"}, "order_by": "id desc", "limit": 3},
    )
    found = answer.json()
    assert [row["value"]["id"] for row in found["data"]] == ["44", "43", "34"]
    assert {"xmin", "xmax", "xip_list", "database_lsn", "snapshot_mark"} == set(found["metadata"])
    refused = await served.http.post(
        served.url,
        params={"secret": SECRET, "table": "item", "offset": "-1", "columns": "id,n"},
        json={"where": "title = 'x'"},
    )
    assert refused.status_code == httpx.codes.BAD_REQUEST


@pytest.mark.slow
async def test_a_restart_answers_must_refetch(conn: AsyncConnection, dsn: str) -> None:
    """A handle of the process before is no handle; what clients have is fetched again."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    await conn.execute(ROW, (1, "a", 1))
    async with serving(conn, dsn) as served:
        client = Follower(served, table="item")
        await client.catch_up()
    await until(
        conn, "select not active from pg_replication_slots where slot_name = %s", conn.info.dbname
    )
    async with serving(conn, dsn) as served:
        client.served = served  # the same client, another server
        await conn.execute(ROW, (2, "b", 2))
        await client.until(await select(conn))
        assert client.refetches == 1


async def test_a_table_that_changes_while_its_rows_are_read(
    conn: AsyncConnection, dsn: str, served: Served
) -> None:
    """The rows and their types are of the same moment."""
    await conn.execute(ROW, (1, "a", 1))
    waits = "select exists (select from pg_locks where not granted and relation = 'item'::regclass)"
    await served.get(table="item", offset="-1")  # the login that reads has its right from now on
    async with session(dsn) as other:
        for change in (
            "alter table item alter n type text using 'x' || n",
            "alter table item drop title",
            "alter table item rename n to m",
        ):
            served.engine.drop_all("the test says so")
            await run_all(other, f"begin; {change}")
            answer = asyncio.create_task(served.get(table="item", offset="-1"))
            await until(conn, waits)
            await run_all(other, "commit")
            found = await answer
            assert found.status_code == 200
            (_, row), *_ = (await select(conn)).items()
            assert found.json()[0]["value"] == row
            assert set(json.loads(found.headers["electric-schema"])) == set(row)


async def test_a_shape_that_is_deleted_while_it_is_made_is_made_again(
    conn: AsyncConnection, dsn: str, served: Served
) -> None:
    """Nobody receives an answer without rows."""
    await conn.execute(ROW, (1, "a", 1))
    waits = "select exists (select from pg_locks where not granted and relation = 'item'::regclass)"
    await served.get(table="item", offset="-1")
    served.engine.drop_all("the test says so")
    async with session(dsn) as other:
        await run_all(other, "begin; lock table item in access exclusive mode")
        answer = asyncio.create_task(served.get(table="item", offset="-1"))
        await until(conn, waits)
        served.engine.drop_all("the test says so")
        await run_all(other, "commit")
        found = await answer
    assert found.status_code == 200
    assert [each["value"]["id"] for each in found.json() if "key" in each] == ["1"]


@pytest.mark.slow
async def test_hundreds_of_clients_follow_at_once(conn: AsyncConnection, served: Served) -> None:
    """Each holds a connection."""
    await conn.execute(ROW, (1, "a", 1))
    first = await served.get(table="item", offset="-1")
    query = f"secret={SECRET}&table=item&offset=0_0&handle={first.headers['electric-handle']}"
    ask = f"GET /v1/shape?{query}&live=true&live_sse=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    clients = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(300)]
    try:
        for _, writer in clients:
            writer.write(ask.encode())
        for reader, _ in clients:
            await asyncio.wait_for(reader.readuntil(b"up-to-date"), DEADLINE)
        await conn.execute(ROW, (2, "to all", 1))
        for reader, _ in clients:
            await asyncio.wait_for(reader.readuntil(b"to all"), DEADLINE)
    finally:
        for _, writer in clients:
            writer.transport.abort()
