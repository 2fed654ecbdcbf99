"""Workflows: the versions that runs are pinned to, and their policies."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.domain.run import Claim
from walagent.message import Json
from walagent.store.sessions.tool_connections import ToolConnection

Connection = AsyncConnection[Any]


async def definition(conn: Connection, claim: Claim) -> Mapping[str, Any] | None:
    """Read the version that a run is pinned to; None: it does not exist."""
    new = claim.change["new"]
    cursor = await conn.execute(
        "select agent_internal.workflow_definition(_tenant => %(tenant)s,"
        " _workflow => %(workflow)s, _version => %(version)s)",
        {key: new[key] for key in ("tenant", "workflow", "version")},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def exchanged_name(conn: Connection, used: Sequence[Json]) -> str | None:
    """Say which name, of those that were written, somebody else has given to something else."""
    cursor = await conn.execute("select agent_internal.exchanged_name(%s)", (Jsonb(list(used)),))
    row = await cursor.fetchone()
    return row[0] if row else None


async def age(conn: Connection, claim: Claim) -> float:
    """Return the seconds since a run was created, by the database's clock."""
    cursor = await conn.execute(
        "select extract(epoch from agent_internal.now() - %(at)s)", {"at": claim.created_at}
    )
    row = await cursor.fetchone()
    return float(row[0]) if row else 0.0


async def decide(
    conn: ToolConnection, phase: str, call: Mapping[str, Json], tenant: str
) -> Mapping[str, Any]:
    """Ask the policies of a tenant about a node; return their decision, see docs/tools.md.

    Raises (as a PostgreSQL error): TRAMPOLINE_LOST: see `through_trampolines`.
    """
    request: dict[str, Json] = {
        "point": "node",
        "phase": phase,
        "call": dict(call),
        "tenant": tenant,
    }
    async with conn.transaction() as transaction:
        return await transaction.call("decide_policy", request)
