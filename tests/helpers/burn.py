"""The example Burn in a test's database: installed as by psql, with people who are signed in."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import httpx2 as httpx
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from tests.helpers.commands import Running, running
from tests.helpers.database import DEADLINE, rows, run_all
from tests.integration.threads.show import troupe
from walagent.testing.provider import KEY, FakeProvider

BURN = Path(__file__).parents[2] / "examples" / "burn"
SOURCE = Path(__file__).parents[2] / "src"
MODEL = "insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake')"


async def install(conn: AsyncConnection) -> None:
    """Run the files of the example, as psql does."""
    await run_all(conn, MODEL)
    for name in ("schema.sql", "agents.sql", "web.sql"):
        await run_all(conn, (BURN / name).read_text().replace(":'model'", "'fake'"))
    await run_all(conn, "reset search_path")


async def sign_in(
    conn: AsyncConnection, name: str, avatar: str | None = None, known_by: str | None = None
) -> tuple[str, str]:
    """Sign a user in; return its ID and a token."""
    statement = "select id::text, token from burn.sign_in(%s, %s, %s)"
    ((key, token),) = await rows(conn, statement, name, avatar, known_by)
    return cast("str", key), cast("str", token)


def mutation(kind: str, relation: str, row: dict[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return a mutation as TanStack DB sends it."""
    return {
        "mutationId": str(uuid4()),
        "type": kind,
        "original": {} if kind == "insert" else row,
        "modified": row | changes,
        "changes": row if kind == "insert" else changes,
        "key": row["id"],
        "globalKey": f"KEY::{relation}/{row['id']}",
        "metadata": None,
        "syncMetadata": {"relation": ["public", relation]},
        "optimistic": True,
        "createdAt": "2026-01-01T00:00:00.000Z",
    }


def payload(*mutations: dict[str, Any]) -> str:
    """Return mutations as the argument of burn.ingest()."""
    return json.dumps(mutations)


class Played:
    """`walagent serve example burn` as a process, with a scripted provider."""

    def __init__(self, url: str, model: FakeProvider, process: Running) -> None:
        self.url = url
        self.model = model
        self.process = process

    @property
    def cookie(self) -> str:
        """The name of its cookie."""
        return f"walagent_session_{httpx.URL(self.url).port}"

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client that keeps cookies."""
        async with httpx.AsyncClient(base_url=self.url, timeout=DEADLINE) as client:
            yield client


@asynccontextmanager
async def playing(
    dsn: str, folder: Path, *options: str, latency: float = 0.0
) -> AsyncIterator[Played]:
    """Start the example on a database of the test."""
    environment = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    environment |= {"HOME": str(folder), "PYTHONPATH": str(SOURCE), "FAKE_API_KEY": KEY}
    async with FakeProvider([troupe], latency=latency) as model:
        (folder / "burn.yaml").write_text(
            f"models: {{fake: {{provider: openai, model_id: fake, credential: FAKE_API_KEY,"
            f" base_url: 'http://127.0.0.1:{model.port}/v1'}}}}\n"
            f"replication: {{slot: {conninfo_to_dict(dsn)['dbname']}}}\n"
        )
        async with running(
            *("serve", "example", "burn", "--model", "fake"),
            *("--config", "burn.yaml", "--dsn", dsn, "--http", "0", *options),
            folder=folder,
            environment=environment,
            read=["stdout"],
        ) as process:
            assert process.stdout is not None
            line = (await asyncio.wait_for(process.stdout.readline(), DEADLINE)).decode()
            assert line.startswith("Burn: "), line
            yield Played(line.removeprefix("Burn: ").strip().rstrip("/"), model, process)
