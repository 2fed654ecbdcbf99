"""What bad clients get, and that it harms no others."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256

import httpx2 as httpx
import orjson
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, run_all
from tests.helpers.shapes import SECRET, Follower, Served, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.limits import EngineLimits
from walagent.sync.query import NamedQuery

TABLE = """
create table item (id bigint primary key, title text);
insert into agent.principal (tenant, name) values ('default', 'ann');
"""
QUERIES = {"threads": NamedQuery("threads", "select id, title from agent.thread", ("id",))}
ROW = "insert into item values (%s, %s)"
PAGE = "https://page.example"


@pytest.fixture
async def prepared(conn: AsyncConnection, dsn: str) -> None:
    """A table, a person whose token is its name, and a slot."""
    await run_all(conn, TABLE)
    await conn.execute(
        "insert into agent.token (tenant, principal, digest) values ('default', 'ann', %s)",
        (sha256(b"ann").digest(),),
    )
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str, prepared: None) -> AsyncIterator[Served]:
    """A server that caches what it may."""
    async with serving(conn, dsn, queries=QUERIES, public=True) as found:
        yield found


async def _events(served: Served, client: Follower, **more: str) -> httpx.Response:
    query = {"offset": client.offset, "handle": client.handle, "live": "true", "live_sse": "true"}
    return await served.get(**query, **more)


async def test_a_token_that_is_revoked_ends_what_it_follows(
    conn: AsyncConnection, served: Served
) -> None:
    """Long polls and event streams: the next request after the present one is refused."""
    client = Follower(served, path="threads", token="ann")
    await client.catch_up()
    poll = asyncio.create_task(client.step(live=True))
    stream = asyncio.create_task(_events(served, client, path="threads", token="ann"))
    await asyncio.sleep(0.5)
    await conn.execute("update agent.token set revoked_at = now()")
    async with asyncio.timeout(DEADLINE):
        await poll
        await stream
        while True:
            answer = await _events(served, client, path="threads", token="ann")
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                break
    assert answer.json() == {"message": "the token is unknown, expired or revoked"}
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.slow
async def test_an_offset_from_the_future_is_refused(conn: AsyncConnection, served: Served) -> None:
    """After a wait, in which the server could have got there; the shape goes on."""
    client = Follower(served, table="item")
    await client.catch_up()
    for more in ({}, {"live": "true"}):
        answer = await served.get(
            table="item", offset="99999999999999_0", handle=client.handle, **more
        )
        assert answer.status_code == httpx.codes.BAD_REQUEST
        assert answer.json()["errors"] == {"offset": ["is ahead of the shape"]}
    await conn.execute(ROW, (1, "a"))
    await client.until({'"public"."item"/"1"': {"id": "1", "title": "a"}})
    assert client.refetches == 0


@pytest.mark.slow
async def test_answers_say_who_may_keep_and_read_them(served: Served) -> None:
    """Caches keep rows of open tables alone; pages of other sites can read all headers."""
    origin = {"origin": PAGE}
    client = Follower(served, table="item")
    await client.catch_up()
    base = {"secret": SECRET, "table": "item"}
    whole = await served.http.get(served.url, params={**base, "offset": "-1"}, headers=origin)
    query = {**base, "offset": client.offset, "handle": client.handle, "live": "true"}
    stream = await served.http.get(served.url, params={**query, "live_sse": "true"}, headers=origin)
    own = await served.get(path="threads", token="ann", offset="-1")
    lost = await served.get(table="item", offset="1_0", handle="1-1")
    wrong = await served.get(table="nothing", offset="-1")
    assert stream.headers["content-type"] == "text/event-stream"
    for answer in (whole, stream, own, lost, wrong):
        assert answer.headers["access-control-allow-origin"] == "*", answer.url
        assert "electric-handle" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["cache-control"].startswith("public, max-age=")
    assert own.headers["cache-control"] == "private, no-cache"
    assert own.headers["vary"] == "authorization, cookie"
    assert lost.headers["cache-control"] == wrong.headers["cache-control"] == "no-store"
    asked = {**origin, "access-control-request-headers": "authorization"}
    preflight = await served.http.options(f"{served.url}s/threads", headers=asked)
    assert preflight.status_code == httpx.codes.NO_CONTENT
    # A browser takes no wildcard for this one.
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    again = {"if-none-match": whole.headers["etag"]}
    kept = await served.http.get(served.url, params={**base, "offset": "-1"}, headers=again)
    assert kept.status_code == httpx.codes.NOT_MODIFIED
    assert not kept.content


@pytest.mark.slow
async def test_a_script_and_a_large_value_arrive_as_they_are(
    conn: AsyncConnection, served: Served
) -> None:
    """Also a row of 10 MB, for a poll and a stream."""
    client = Follower(served, table="item")
    await client.catch_up()
    stream = asyncio.create_task(_events(served, client, table="item"))
    script, large = "</script><script>alert(1)</script>\u2028\"'&", "x" * 10_000_000
    await conn.execute(ROW, (1, script))
    await conn.execute(ROW, (2, large))
    await client.until(
        {
            '"public"."item"/"1"': {"id": "1", "title": script},
            '"public"."item"/"2"': {"id": "2", "title": large},
        }
    )
    lines = [each for each in (await stream).text.split("\n\n") if each.startswith("data: ")]
    titles = [orjson.loads(line[6:]).get("value", {}).get("title") for line in lines]
    assert [title for title in titles if title is not None] == [script, large]


@pytest.mark.slow
@pytest.mark.usefixtures("prepared")
async def test_who_does_not_read_holds_up_nobody(conn: AsyncConnection, dsn: str) -> None:
    """A connection that stands still: others have all rows, and the stream goes on."""
    async with serving(conn, dsn, limits=EngineLimits(log_bytes=4 << 20), stream=60) as served:
        client = Follower(served, table="item")
        await client.catch_up()
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
        query = f"table=item&secret={SECRET}&offset={client.offset}&handle={client.handle}"
        ask = f"GET /v1/shape?{query}&live=true&live_sse=true HTTP/1.1\r\nhost: localhost\r\n\r\n"
        writer.write(ask.encode())
        await reader.readline()  # and nothing more
        rows = dict[str, dict[str, str]]()
        for n in range(40):
            title = f"{n}" * 200_000
            await conn.execute(ROW, (n, title))
            rows[f'"public"."item"/"{n}"'] = {"id": f"{n}", "title": title}
            if n % 5 == 0:
                await client.until(rows)
        await client.until(rows)
        writer.close()
    assert client.refetches > 0  # the log is bounded


@pytest.mark.slow
@pytest.mark.usefixtures("prepared")
async def test_no_handle_comes_twice(conn: AsyncConnection, dsn: str) -> None:
    """Also not of another process: an old one is answered with must-refetch."""
    handles = list[str]()
    for _ in range(3):
        async with serving(conn, dsn) as served:
            for _ in range(3):
                client = Follower(served, table="item")
                await client.catch_up()
                assert client.handle not in handles
                for old in handles:
                    answer = await served.get(table="item", offset="0_inf", handle=old)
                    assert answer.status_code == httpx.codes.CONFLICT
                    assert answer.json() == [{"headers": {"control": "must-refetch"}}]
                    assert answer.headers["electric-handle"] == client.handle
                handles.append(client.handle)
                deleted = await served.http.delete(
                    served.url, params={"secret": SECRET, "table": "item"}
                )
                assert deleted.status_code == httpx.codes.ACCEPTED
