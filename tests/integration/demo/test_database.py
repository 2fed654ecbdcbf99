"""Where the demo plays, while others come and go."""

import asyncio
from pathlib import Path

import psycopg

from walagent.config import Embedded
from walagent.demo.database import open_database
from walagent.embedded.server import EmbeddedServer


async def test_a_stage_whose_owner_leaves_is_taken_over(tmp_path: Path) -> None:
    """Joining the server of a demo that just ends is no error: the next one starts its own."""
    embedded = Embedded(data_dir=tmp_path / "postgres")
    owner = EmbeddedServer(embedded.data_dir)
    await owner.start()
    stage = open_database(embedded, keep=False)
    entering = asyncio.create_task(stage.__aenter__())
    await asyncio.sleep(0)  # it is about to join; what follows waits for its turn after that
    await owner.stop()
    dsn = await entering
    try:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            assert conn.info.dbname == "demo"
    finally:
        await stage.__aexit__(None, None, None)
