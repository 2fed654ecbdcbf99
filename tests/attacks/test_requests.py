"""Requests that no client of shapes sends: each gets an answer of the protocol."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import orjson
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all
from tests.helpers.shapes import SECRET, Follower, Served, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot

TABLE = """
create table item (id bigint primary key, title text, n int);
insert into item select n, 'title ' || n, n % 10 from generate_series(1, 50) n;
"""
BAD = httpx.codes.BAD_REQUEST


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server of a table."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as found:
        yield found


async def _subset(served: Served, body: object) -> httpx.Response:
    query = {"secret": SECRET, "table": "item"}
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    return await served.http.post(served.url, params=query, content=content)


DEEP = {
    "parentheses": "(" * 8000,
    "prefixes": "not " * 4000 + "true",
    "casts": "n" + "::int4" * 2000 + " = 1",
    "sums": "n" + "+1" * 6000 + " = 1",
    "texts": "title" + "||title" * 1500 + " = 'x'",
    "chains in parentheses": "(" * 90 + "n" + ("+1" * 50 + ")") * 90 + " = 1",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
async def test_a_deep_condition_is_refused(served: Served, text: str) -> None:
    """Before something walks it and exceeds the depth of the interpreter's stack."""
    for answer in (
        await _subset(served, {"where": text}),
        await served.get(table="item", offset="-1", where=text),
    ):
        assert answer.status_code == BAD, answer.text
        assert "nested deeper than 100" in answer.text


async def test_a_long_condition_is_no_deep_one(conn: AsyncConnection, served: Served) -> None:
    """Clients ask for many keys, and follow them."""
    text = " or ".join(f"id = {n}" for n in range(1, 1000))
    assert (await _subset(served, {"where": text})).status_code == httpx.codes.OK
    client = Follower(served, table="item", where=text)
    await client.catch_up()
    await conn.execute("insert into item values (998, 'in', 1), (1001, 'out', 1)")
    found = await conn.execute("select id::text, title, n::text from item where id < 1000")
    await client.until(
        {
            f'"public"."item"/"{key}"': {"id": key, "title": title, "n": n}
            for key, title, n in await found.fetchall()
        }
    )


SUBSETS: dict[str, Any] = {
    "a digit that is no number": ({"where": "n = $1", "params": {"\u00b2": "1"}}, "no value"),
    "a long number": ({"where": "n = $1", "params": {"1" * 5000: "1"}}, "no value"),
    "NUL": ({"where": "title = $1", "params": {"1": "\0"}}, "NUL"),
    "an object": ({"where": "n = $1", "params": {"1": {"a": 1}}}, "integer"),
    "a long limit": ({"order_by": "id", "limit": "1" * 5000}, "limit"),
    "a fraction": ({"order_by": "id", "limit": 1.5}, "limit"),
    "a negative offset": ({"order_by": "id", "offset": -1}, "offset"),
    "a list": ({"where": ["n = 1"]}, "syntax"),
    "a statement": ({"order_by": "id; drop table item"}, "syntax"),
    "a query": ({"order_by": "(select 1)"}, "syntax"),
    "a quote": ({"order_by": '"id\0"'}, "syntax"),
}


@pytest.mark.few(4)
@pytest.mark.parametrize(("body", "word"), SUBSETS.values(), ids=SUBSETS.keys())
async def test_an_odd_subset_is_refused(served: Served, body: dict[str, Any], word: str) -> None:
    """With what is wrong, and no error of the server."""
    answer = await _subset(served, body)
    assert (answer.status_code, word in answer.text) == (BAD, True), answer.text


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 100_000, BAD),
        (b'{"where":' * 50_000, BAD),
        (b"\xff\xfe", BAD),
        (b'{"limit": NaN}', BAD),
        (b"x" * (2 << 20), httpx.codes.CONTENT_TOO_LARGE),
    ],
    ids=["a deep list", "a deep object", "no text", "no number", "two megabytes"],
)
async def test_a_body_that_is_none_is_refused(served: Served, body: bytes, status: int) -> None:
    """Nothing is read of it."""
    assert (await _subset(served, body)).status_code == status


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "query",
    [
        {"table": "item", "offset": "-1", "params[1]": "\0", "where": "title = $1"},
        {"table": "item", "offset": "-1", "params[\u0661]": "x", "where": "title = $1"},
        {"table": "item", "offset": "-1", "params[2]": "x", "where": "title = $2"},
        {"table": "item", "offset": "-1", "columns": '"id","x\0"'},
        {"table": '"item\0"', "offset": "-1"},
        {"table": '"it""em"', "offset": "-1"},
        {"table": "pg_toast.pg_toast_1255", "offset": "-1"},
        {"table": '"PG_CATALOG".pg_authid', "offset": "-1"},
        {"table": "i" * 9000, "offset": "-1"},
    ],
)
async def test_an_odd_request_is_refused(served: Served, query: dict[str, str]) -> None:
    """As others are."""
    assert (await served.get(**query)).status_code == BAD
