"""Calls whose reply equal first calls of other runs share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from psycopg import AsyncConnection

from walagent.domain.run import Claim
from walagent.message import Json

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Shared:
    """The call of another run.

    Args:
        run: the other run.
        content: its reply, as a step has it; None: it has none yet, and this run was released.
        wait: seconds until this run is looked at again, if nothing wakes it before.
    """

    run: int
    content: Mapping[str, Json] | None
    wait: float

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        """Build from the result of agent_internal.share_call()."""
        return cls(raw["run"], raw.get("content"), float(raw.get("wait", 0)))


async def share_call(conn: Connection, claim: Claim, digest: bytes) -> Shared | None:
    """Find an equal first call of another run; None: the caller asks the model, for all.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: leave the run.
    """
    cursor = await conn.execute(
        "select agent_internal.share_call(_run => %s, _lease => %s, _digest => %s)",
        [claim.run_id, claim.lease, digest],
    )
    row = await cursor.fetchone()
    return Shared.from_json(row[0]) if row and row[0] else None


async def wake_waiting(conn: Connection, run_id: int) -> None:
    """Let the runs go on that wait for the reply of a run."""
    await conn.execute("select agent_internal.wake_waiting(_run => %s)", [run_id])


async def forget_calls(conn: Connection, batch: int) -> bool:
    """Remove calls whose replies are no longer shared; return whether more are left."""
    cursor = await conn.execute("select agent_internal.forget_calls(_batch => %s)", [batch])
    row = await cursor.fetchone()
    return row is not None and row[0] == batch
