"""The kind of runs that take another run back, in one transaction as the role that it had.

The reader must have come to the position at which the revert was asked for: then all that the run
changed is recorded.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from psycopg import Error

from walagent.base import faults
from walagent.base.retries import CONFLICT, seconds
from walagent.deciders.revert import RevertDecider
from walagent.deciders.revert_plan import MOST_ROWS, revert_steps
from walagent.domain.agent_spec import AgentSpec, Authority
from walagent.domain.run import Claim, RunSpec, StepKind
from walagent.domain.tenant import Actor
from walagent.errors import ConflictError, WalagentError
from walagent.message import Json
from walagent.moves import Call, Kind, RunLog
from walagent.runs.awake_timeout import awake_for
from walagent.store import reverting
from walagent.store.errors import is_conflict
from walagent.store.reverting import Reverted
from walagent.store.runs import NewStep
from walagent.store.sessions.tool_connections import ToolConnections
from walagent.store.trampolines import through_trampolines

_READER: Final = 15.0  # seconds to wait for the reader; then the run waits without a slot
_POLL: Final = 0.05
_PATIENCE: Final = 5.0  # seconds for which a transaction is repeated after conflicts
_TIMEOUT: Final = 120.0  # seconds of the transaction


def revert_kind(calls: ToolConnections) -> Kind:
    """Create the kind `revert`."""
    return Kind(RevertDecider(), _Actor(calls), specify=_specified)


async def _specified(claim: Claim) -> RunSpec:
    return RunSpec(claim, AgentSpec("", ""), Authority(""), source="revert")


class _Actor:
    """Implements `Actor`."""

    def __init__(self, calls: ToolConnections) -> None:
        self._calls = calls
        self._pool = calls.worker

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        """Undo, or find out that it cannot be; the result is recorded in the same transaction.

        Raises:
            ConflictError: the reader is behind, or rows stay locked: the run is retried.
            WalagentError: the run cannot be undone.
        """
        del call  # there is one
        change = run.claim.change
        about = {
            name: change[name] for name in ("run", "dry_run", "only_unchanged") if name in change
        }
        await self._wait_for_reader(str(change["lsn"]))
        async with self._pool.connection() as conn:
            found = await reverting.run_to_revert(conn, int(about["run"]))
        content = await self._undo(run, log.seq, _checked(found, about), about)
        faults.hit("tool.committed")
        log.append(NewStep(log.seq, StepKind.RESULT, content).recorded)

    async def _wait_for_reader(self, lsn: str) -> None:
        until = time.monotonic() + _READER
        while True:
            async with self._pool.connection() as conn:
                if await reverting.is_ingested(conn, lsn):
                    return
            if time.monotonic() > until:
                raise ConflictError(
                    f"the reader has not come to {lsn}, when the revert was asked for"
                )
            await asyncio.sleep(_POLL)

    async def _undo(
        self, run: RunSpec, seq: int, found: Reverted, about: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        definition: Mapping[str, Any] = found.definition or {}
        steps = revert_steps(found.changes)
        about = {**about, "outside": list(found.outside), "unseen": list(found.unseen)}
        actor = Actor(run.claim.tenant, str(definition["agent"]))

        async def attempt() -> Mapping[str, Json]:
            async with self._calls.connection(actor) as conn, awake_for(_TIMEOUT):
                faults.hit("tool.started")
                return await reverting.revert_run(conn, run.claim, seq, definition, steps, about)

        until, tried = time.monotonic() + _PATIENCE, 0
        while True:
            tried += 1
            try:
                return await through_trampolines(
                    attempt, self._pool.connection, role=definition["run_as"]
                )
            except Error as error:
                if not is_conflict(error) or time.monotonic() > until:
                    raise
            await asyncio.sleep(seconds(CONFLICT, tried))


def _checked(found: Reverted | None, about: Mapping[str, Json]) -> Reverted:
    """Check that a run can be undone at all.

    Raises:
        WalagentError: it cannot.
    """
    if found is None or found.definition is None:
        raise WalagentError(f"run {about['run']} and its agent are not known any more")
    if not found.changes:
        raise WalagentError(f"run {about['run']} has no changes that were recorded")
    if len(found.changes) > MOST_ROWS:
        count = len(found.changes)
        raise WalagentError(f"run {about['run']} has {count} changes, more than {MOST_ROWS}")
    return found
