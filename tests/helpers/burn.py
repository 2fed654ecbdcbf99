"""The example Burn in a test's database: installed as by psql, with people who are signed in."""

import json
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all

BURN = Path(__file__).parents[2] / "examples" / "burn"
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
