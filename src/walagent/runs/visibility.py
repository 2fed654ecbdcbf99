"""Whether a row may be shown to an agent.  The WAL knows no privileges, so PostgreSQL is asked."""

import asyncio
import time

from walagent.agent.tools.statements import visibility_statement
from walagent.run import RunSpec
from walagent.store import tool_calls
from walagent.store.connections import Pool

# Seconds for which an answer holds where it does not depend on the row.  Under load that spares a
# round trip for each run; a run takes longer to be shown to its model.
_FRESH = 1.0


class Visibility:
    """Asks as each attachment's role; what it may see can change while the attachment stays."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._until: dict[tuple[int, int], float] = {}
        self._row_security: set[tuple[int, int]] = set()  # versions whose every row is asked about
        self._asking: dict[tuple[int, int], asyncio.Lock] = {}

    async def allows(self, run: RunSpec, *, begun: bool) -> bool:
        """Whether the row of the run's change may be shown; of a run that has begun, it was.

        Raises (as a PostgreSQL error):
            RoleRefusedError: no row may; see `store.tool_calls.row_visibility`.
        """
        version = (run.claim.attachment_id, run.claim.attachment_version)
        if self._until.get(version, 0.0) > time.monotonic():
            return True
        if version in self._row_security:
            return await self._ask(run, version, begun=begun)
        # One asks where the answer may serve all: a claim can bring hundreds of runs at once.
        async with self._asking.setdefault(version, asyncio.Lock()):
            if self._until.get(version, 0.0) > time.monotonic():
                return True
            return await self._ask(run, version, begun=begun)

    async def _ask(self, run: RunSpec, version: tuple[int, int], *, begun: bool) -> bool:
        asked = None if begun else visibility_statement(run.table, run.claim.change)
        text, key = ("select true", None) if begun else (asked or (None, None))
        question = tool_calls.RowQuestion(run.table.relation_oid, _columns(run), text, key)
        asked_at = time.monotonic()
        async with self._pool.connection() as conn:
            seen, row_security = await tool_calls.row_visibility(
                conn, run.authority.run_as, question
            )
        if row_security:
            self._row_security.add(version)
        else:
            self._row_security.discard(version)
            self._until[version] = asked_at + _FRESH
        return seen


def _columns(run: RunSpec) -> list[str] | None:
    """What the agent is shown of a row, and what its tools are given; None: all of it."""
    if run.table.columns is None:
        return None
    return sorted(run.table.columns | run.agent.bound)
