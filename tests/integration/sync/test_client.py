"""The Python client, and the command that prints what it receives."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, run_all, until
from tests.helpers.shapes import SECRET, Served, serving
from walagent import ShapeClient
from walagent.config import Replication
from walagent.errors import ConfigError, PreconditionError
from walagent.replication.bootstrap import ensure_slot
from walagent.shapes import Row

FREE = "select not active from pg_replication_slots where slot_name = %s"


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server of shapes over a table."""
    await run_all(
        conn, "create table item (id int primary key, n int); insert into item values (1, 1)"
    )
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as found:
        yield found


def plain(rows: Mapping[str, Row]) -> list[tuple[str | None, str | None]]:
    """The rows as pairs."""
    return sorted((row["id"], row["n"]) for row in rows.values())


@pytest.mark.slow
async def test_rows_are_yielded_whenever_they_change(
    conn: AsyncConnection, dsn: str, served: Served
) -> None:
    """At first, after changes, and after a restart of the server."""
    base = served.url.removesuffix("/v1/shape")
    async with asyncio.timeout(DEADLINE), ShapeClient(base, secret=SECRET) as shapes:
        rows = shapes.rows("item", where="n < $1", params={"1": "10"})
        assert plain(await anext(rows)) == [("1", "1")]
        await run_all(
            conn, "insert into item values (2, 2), (3, 30); update item set n = 5 where id = 1"
        )
        found = await anext(rows)
        while plain(found) != [("1", "5"), ("2", "2")]:
            found = await anext(rows)
        await served.stop()
        await until(conn, FREE, conn.info.dbname)
        await run_all(conn, "delete from item where id = 1")
        async with serving(conn, dsn, port=served.port):
            while plain(found) != [("2", "2")]:
                found = await anext(rows)
        await rows.aclose()


async def test_what_is_refused_is_an_error(served: Served) -> None:
    """With what the server says of it."""
    base = served.url.removesuffix("/v1/shape")
    async with ShapeClient(base, secret=SECRET) as shapes:
        with pytest.raises(ConfigError, match=r"where: .*pg_sleep"):
            await anext(shapes.rows("item", where="pg_sleep(1) is null"))
    async with ShapeClient(base, secret="another") as shapes:
        with pytest.raises(PreconditionError, match="secret"):
            await anext(shapes.rows("item"))
    with pytest.raises(ConfigError, match="not open"):
        await anext(ShapeClient(base).rows("item"))


@pytest.mark.slow
async def test_watch_prints_rows_and_changes(conn: AsyncConnection, served: Served) -> None:
    """One document a line, and it ends when its reader does."""
    base = served.url.removesuffix("/v1/shape")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "walagent", "wal", "watch", "item", "--url", base,
        "--secret", "THE_SECRET",
        env={**os.environ, "THE_SECRET": SECRET}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        line = json.loads(await process.stdout.readline())
        assert line == {
            "operation": "insert",
            "key": '"public"."item"/"1"',
            "value": {"id": "1", "n": "1"},
        }
        await run_all(conn, "delete from item")
        assert json.loads(await process.stdout.readline())["operation"] == "delete"
    process.terminate()
    await process.wait()


@pytest.mark.slow
async def test_watch_names_what_is_missing(served: Served) -> None:
    """A variable that is not set, a parameter without a value."""
    base = served.url.removesuffix("/v1/shape")
    for options, words in (
        (["--secret", "NO_SUCH_VARIABLE"], b"NO_SUCH_VARIABLE is not set"),
        (["--shape"], b"WALAGENT_TOKEN is not set"),
        (["--param", "x"], b"NAME=VALUE"),
        ([], b"secret"),
    ):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "walagent", "wal", "watch", "item", "--url", base, *options,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, errors = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert process.returncode != 0
        assert words in errors


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("127.0.0.1:8642", 2, "http://HOST:PORT"),
        ("http://127.0.0.1:1", 1, "nothing answers at http://127.0.0.1:1"),
        ("{served}/healthz?", 2, "is not walagent"),
    ],
)
async def test_watch_ends_where_no_walagent_answers(
    served: Served, url: str, code: int, words: str
) -> None:
    """With --once, it would wait silently and for ever."""
    base = served.url.removesuffix("/v1/shape")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "walagent", "wal", "watch", "item", "--once", "--url",
        url.format(served=base), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert (process.returncode, words in errors.decode(), out) == (code, True, b""), errors


async def test_watch_says_that_it_waits() -> None:
    """Once, and goes on: the daemon may start later."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "walagent", "wal", "watch", "item", "--url", "http://127.0.0.1:1",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    line = await asyncio.wait_for(process.stderr.readline(), DEADLINE)
    assert line.startswith(b"waiting for http://127.0.0.1:1: ")
    assert process.returncode is None
    process.terminate()
    await process.wait()


async def test_a_shape_that_ends_follows_again(conn: AsyncConnection, served: Served) -> None:
    """Rows that went meanwhile are gone; `changes` says that they follow again."""
    base = served.url.removesuffix("/v1/shape")
    async with asyncio.timeout(DEADLINE), ShapeClient(base, secret=SECRET) as shapes:
        rows, changes = shapes.rows("item"), shapes.changes("item")
        assert plain(await anext(rows)) == [("1", "1")]
        seen = [(await anext(changes)).operation for _ in range(2)]
        assert seen == ["insert", "current"]
        served.engine.drop_all("the test says so")
        await run_all(conn, "delete from item; insert into item values (2, 2)")
        while (found := plain(await anext(rows))) != [("2", "2")]:
            assert found in ([("1", "1")], [])
        seen = [(await anext(changes)).operation for _ in range(3)]
        assert seen == ["refetch", "insert", "current"]
        await rows.aclose()
        await changes.aclose()
