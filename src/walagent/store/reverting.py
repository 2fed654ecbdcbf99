"""What a run changed, and the transaction that takes it back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.domain.run import Claim
from walagent.message import Json
from walagent.store.queries import query
from walagent.store.sessions.tool_connections import ToolConnection

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Reverted:
    """A run to take back.

    Args:
        definition: of the attachment that the run acted for; None: it had none.
        changes: result of agent_internal.changes_to_revert().
        outside: calls that acted outside the database: step and name.
        unseen: other calls without a change that was recorded.
    """

    definition: Mapping[str, Any] | None
    changes: Sequence[Mapping[str, Any]]
    outside: Sequence[Mapping[str, Any]]
    unseen: Sequence[Mapping[str, Any]]


async def is_ingested(conn: Connection, lsn: str) -> bool:
    """Return whether the reader has come to a position."""
    cursor = await conn.execute(
        "select exists (select from agent.checkpoint where end_lsn >= %(lsn)s::pg_lsn)",
        {"lsn": lsn},
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def run_to_revert(conn: Connection, run_id: int) -> Reverted | None:
    """Read what a run changed; None if the run was removed."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query("run_to_revert"), {"run": run_id})
    found = await cursor.fetchone()
    return None if found is None else Reverted(**found)


async def revert_run(  # noqa: PLR0913, PLR0917 - who, which step, what
    conn: ToolConnection,
    claim: Claim,
    seq: int,
    definition: Mapping[str, Any],
    steps: Sequence[Mapping[str, Json]],
    about: Mapping[str, Json],
) -> Mapping[str, Json]:
    """Take steps back and record the result, in one statement; return the content of the step.

    Args:
        steps: of `deciders.revert_plan`.
        about: run, dry_run and only_unchanged, and what else the result has.

    Raises: as `store.tool_calls.call_tool`.
    """
    request: dict[str, Json] = {
        "run": claim.run_id,
        "lease": claim.lease,
        "seq": seq,
        "call": "revert",
        "name": "revert",
        "run_as": definition["run_as"],
        "path": definition.get("search_path") or "",
        "definition": dict(definition),
        "dry_run": about.get("dry_run", False),
        "only_unchanged": about.get("only_unchanged", False),
        "steps": list(steps),
        "about": dict(about),
    }
    async with conn.transaction() as transaction:
        return await transaction.call("revert_run", request)
