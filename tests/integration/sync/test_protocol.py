"""What clients and caches of the protocol rely on beside the rows."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, run_all
from tests.helpers.shapes import SECRET, Follower, Served, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.limits import EngineLimits

TABLE = "create table item (id bigint primary key, title text);"
CHUNK = 10_000


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server that lets caches keep answers."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    limits = EngineLimits(chunk_bytes=CHUNK)
    async with serving(conn, dsn, limits=limits, public=True, hold=1.0) as found:
        yield found


async def _put(conn: AsyncConnection, start: int, count: int, title: str = "a") -> None:
    text = "insert into item select n, %s from generate_series(%s::bigint, %s) n"
    await conn.execute(text, (title, start, start + count - 1))


def _place(answer: httpx.Response) -> dict[str, str]:
    headers = answer.headers
    return {
        "table": "item",
        "offset": headers["electric-offset"],
        "handle": headers["electric-handle"],
    }


async def test_a_shape_is_ended_by_its_handle(conn: AsyncConnection, served: Served) -> None:
    """Alone, with the secret; an unknown handle has nothing to end."""
    whole, part = Follower(served, table="item"), Follower(served, table="item", where="id > 1")
    for each in (whole, part):
        await each.catch_up()

    async def end(**query: str) -> int:
        return (await served.http.delete(served.url, params=query)).status_code

    assert await end(handle=part.handle) == httpx.codes.UNAUTHORIZED
    assert await end(handle=part.handle, secret=SECRET) == httpx.codes.ACCEPTED
    assert await end(handle="1-1", secret=SECRET) == httpx.codes.ACCEPTED
    assert await end(secret=SECRET) == httpx.codes.BAD_REQUEST
    await _put(conn, 1, 2)
    for each, refetches in ((whole, 0), (part, 1)):
        await each.catch_up()
        await each.until({f'"public"."item"/"{n}"': {"id": str(n), "title": "a"} for n in (1, 2)
                          if n > refetches})  # fmt: skip
        assert each.refetches == refetches


@pytest.mark.slow
async def test_an_event_stream_says_what_is_new(conn: AsyncConnection, served: Served) -> None:
    """Nothing at its start, since the client is up to date; and a cursor after the client's."""
    first = await served.get(table="item", offset="-1")
    stream = {**_place(first), "live": "true", "live_sse": "true"}
    quiet = await served.get(**stream)
    assert quiet.text == ""
    cursor = quiet.headers["electric-cursor"]
    again = await served.get(**stream, cursor=cursor)
    assert int(again.headers["electric-cursor"]) > int(cursor)
    task = asyncio.create_task(served.get(**stream, cursor=cursor))
    await asyncio.sleep(0.5)
    await _put(conn, 1, 1)
    events = [json.loads(e.removeprefix("data: ")) for e in (await task).text.split("\n\n")[:-1]]
    kinds = [e["headers"].get("operation") or e["headers"]["control"] for e in events]
    assert kinds == ["insert", "up-to-date"]


@pytest.mark.slow
async def test_caches_keep_each_answer_as_the_page_says(
    conn: AsyncConnection, served: Served
) -> None:
    """The first rows for long, what follows for a minute, live answers for seconds."""
    await _put(conn, 1, 100, "x" * 100)
    first = await served.get(table="item", offset="-1")
    second = await served.get(**_place(first))
    last, at = second, _place(second)
    while "electric-up-to-date" not in last.headers:
        at = _place(last)
        last = await served.get(**at)
    live = await served.get(**_place(last), live="true")
    now = await served.get(table="item", offset="now")
    subset = await served.get(table="item", subset__order_by="id", subset__limit="1")
    short = "public, max-age=60, stale-while-revalidate=300"
    wanted = {
        first: "public, max-age=604800, s-maxage=3600, stale-while-revalidate=2629746",
        second: short,
        last: short,
        live: "public, max-age=5, stale-while-revalidate=5",
        now: "private, no-cache",
        subset: "private, no-cache",
    }
    assert [each.headers["cache-control"] for each in wanted] == list(wanted.values())
    for answer, query in ((first, {"table": "item", "offset": "-1"}), (last, at)):
        ask = {"secret": SECRET, **query}
        have = {"if-none-match": answer.headers["etag"]}
        kept = await served.http.get(served.url, params=ask, headers=have)
        assert (kept.status_code, kept.content) == (httpx.codes.NOT_MODIFIED, b"")
    await _put(conn, 1000, 1)
    await served.get(**_place(last), live="true")
    have = {"if-none-match": last.headers["etag"]}
    changed = await served.http.get(served.url, params={"secret": SECRET, **at}, headers=have)
    assert changed.status_code == httpx.codes.OK
    assert changed.headers["etag"] != last.headers["etag"]


async def test_a_large_transaction_comes_in_chunks(conn: AsyncConnection, served: Served) -> None:
    """As a snapshot does; only the last one says that this is all."""
    at, rows = {"table": "item", "offset": "-1"}, 0
    for start in (1, 100):
        await _put(conn, start, 35, "x" * 1000)
        wanted, sizes, is_all = rows + 35, list[int](), False
        async with asyncio.timeout(DEADLINE):
            while rows < wanted or not is_all:
                answer = await served.get(**at, **({"live": "true"} if is_all else {}))
                assert answer.status_code == httpx.codes.OK
                at, is_all = _place(answer), "electric-up-to-date" in answer.headers
                found = sum("key" in each for each in answer.json())
                rows += found
                sizes += [len(answer.content)] if found else []
        assert len(sizes) > 2
        assert all(abs(size - CHUNK) < CHUNK / 5 for size in sizes[:-1]), sizes


async def test_a_subset_has_numbered_parameters(conn: AsyncConnection, served: Served) -> None:
    """Each by itself, as the ones of a shape."""
    await _put(conn, 1, 5)
    query = {"subset__where": "id > $1 and id < $2", "subset__order_by": "id"}
    params = {"subset__params[1]": "1", "subset__params[2]": "4"}
    answer = await served.get(table="item", **query, **params)
    assert [each["value"]["id"] for each in answer.json()["data"]] == ["2", "3"]
