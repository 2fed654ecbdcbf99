"""Where the demo plays, while others come and go."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from walagent.config import Embedded
from walagent.demo.database import open_database
from walagent.embedded.server import EmbeddedServer
from walagent.errors import ModelUnauthorizedError


async def _nothing(_dsn: str) -> None:
    pass


async def test_a_demo_that_cannot_be_prepared_keeps_the_last_one(tmp_path: Path) -> None:
    """Without a key, the tickets of the last demo are still there, and no other database is."""
    embedded = Embedded(data_dir=tmp_path / "postgres")

    async def first(dsn: str) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await conn.execute("create table tickets ()")

    async def second(_dsn: str) -> None:
        raise ModelUnauthorizedError("no key")

    async with open_database(embedded, first, keep=False):
        pass
    with pytest.raises(ModelUnauthorizedError):
        async with open_database(embedded, second, keep=False):
            pass
    server = EmbeddedServer(embedded.data_dir)
    await server.start()
    try:
        async with await psycopg.AsyncConnection.connect(server.dsn("demo")) as conn:
            cursor = await conn.execute("select to_regclass('tickets') is not null")
            assert await cursor.fetchone() == (True,)
            cursor = await conn.execute("select count(*) from pg_database where datname ~ 'demo'")
            assert await cursor.fetchone() == (1,)
    finally:
        await server.stop()


@pytest.mark.slow
async def test_a_stage_whose_owner_leaves_is_taken_over(tmp_path: Path) -> None:
    """Joining the server of a demo that just ends is no error: the next one starts its own."""
    embedded = Embedded(data_dir=tmp_path / "postgres")
    owner = EmbeddedServer(embedded.data_dir)
    await owner.start()
    stage = open_database(embedded, _nothing, keep=False)
    entering = asyncio.create_task(stage.__aenter__())
    await asyncio.sleep(0)  # it is about to join; what follows waits for its turn after that
    await owner.stop()
    dsn = await entering
    try:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            assert conn.info.dbname == "demo"
    finally:
        await stage.__aexit__(None, None, None)
