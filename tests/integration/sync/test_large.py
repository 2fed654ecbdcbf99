"""A large table: its first rows are sent while the others are read."""

import asyncio

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, rows, run_all
from tests.helpers.shapes import Follower, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.definition import Definition
from walagent.sync.limits import EngineLimits

LIMITS = EngineLimits(chunk_bytes=100_000)
COUNT = 100_000
TABLE = f"""
create table item (id bigint primary key, title text);
insert into item select n, repeat('x', 200) from generate_series(1, {COUNT}) n;
"""
DEFINITION = Definition("public", "item")
END = """
select pg_terminate_backend(pid) from pg_stat_activity
 where datname = current_database() and query like 'copy %'
"""


@pytest.fixture
async def prepared(conn: AsyncConnection, dsn: str) -> None:
    """A table of 20 MB."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))


async def present(conn: AsyncConnection) -> dict[str, dict[str, str]]:
    """The rows of the table, as a client has them."""
    found = await rows(conn, "select id::text, title from item")
    return {f'"public"."item"/"{key}"': {"id": key, "title": title} for key, title in found}


@pytest.mark.slow
@pytest.mark.usefixtures("prepared")
async def test_the_first_rows_do_not_wait_for_the_last(conn: AsyncConnection, dsn: str) -> None:
    """What changes meanwhile follows after them."""
    async with serving(conn, dsn, limits=LIMITS) as served:
        client = Follower(served, table="item")
        await client.step()
        shape = served.engine.find(DEFINITION)
        assert shape is not None
        assert not shape.ready.done()
        assert 0 < len(client.rows) < COUNT / 10
        await run_all(conn, f"update item set title = 'new' where id in (1, {COUNT})")
        await run_all(conn, "delete from item where id = 2")
        await client.until(await present(conn), within=4 * DEADLINE)
        assert client.refetches == 0
        other = Follower(served, table="item")
        await other.until(await present(conn), within=4 * DEADLINE)
        assert other.refetches == 0


@pytest.mark.slow
@pytest.mark.usefixtures("prepared")
async def test_rows_that_cannot_be_read_to_the_end_are_fetched_again(
    conn: AsyncConnection, dsn: str
) -> None:
    """The client has a part of them, and starts again."""
    async with serving(conn, dsn, limits=LIMITS) as served:
        client = Follower(served, table="item")
        await client.step()
        shape = served.engine.find(DEFINITION)
        assert shape is not None
        assert not shape.ready.done()
        await run_all(conn, END)
        async with asyncio.timeout(DEADLINE):
            await shape.ready
            while not client.is_up_to_date:
                try:
                    await client.step()
                except httpx.HTTPStatusError as error:  # while the connection is replaced
                    assert error.response.status_code == httpx.codes.SERVICE_UNAVAILABLE  # noqa: PT017
        assert shape.error is not None
        assert client.refetches == 1
        assert client.rows == await present(conn)
