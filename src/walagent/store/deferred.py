"""Deferred changes, which could not be evaluated when they were ingested."""

from collections.abc import Mapping
from typing import Any

import orjson
from psycopg import AsyncConnection

from walagent.domain.run import Claim
from walagent.message import Json
from walagent.store.codecs.exact import exact

Connection = AsyncConnection[Any]


async def deferred_change(conn: Connection, run_id: int) -> str | None:
    """Read the whole change of a run; None if it was evaluated."""
    cursor = await conn.execute(
        "select change::text from agent_internal.deferred_change where run_id = %(run)s",
        {"run": run_id},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def accept_deferred(
    conn: Connection, claim: Claim, change: Mapping[str, Json], key: str | None
) -> None:
    """Release a deferred run for execution, with its change as the agent sees it now.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: leave the run.
    """
    await conn.execute(
        "select agent_internal.accept_deferred(_run => %(run)s, _lease => %(lease)s,"
        " _change => %(change)s::jsonb, _key => %(key)s)",
        {
            "run": claim.run_id,
            "lease": claim.lease,
            "change": orjson.dumps(change, default=exact).decode(),
            "key": key,
        },
    )
