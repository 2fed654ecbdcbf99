"""Check whether an agent's role can see a row: the WAL is not subject to privileges."""

import asyncio
import time

from walagent.domain.run import RunSpec
from walagent.store import tool_calls
from walagent.store.sessions.connections import Pool
from walagent.store.sessions.tool_connections import ToolConnections
from walagent.tools.statements import visibility_statement

# Seconds for which a result is reused if it does not depend on the row.  Under load this saves a
# round trip for each run.
_FRESH = 1.0


class Visibility:
    """Checks as each attachment's role, whose privileges can change."""

    def __init__(self, pool: Pool, calls: ToolConnections) -> None:
        self._pool = pool
        self._calls = calls
        self._until: dict[tuple[int, int], float] = {}
        self._row_security: set[tuple[int, int]] = set()  # versions that need a check of each row
        self._asking: dict[tuple[int, int], asyncio.Lock] = {}

    async def allows(self, run: RunSpec, *, begun: bool) -> bool:
        """Whether the role can see the row of the run's change.

        Args:
            begun: the model was shown the row; only the role is checked.

        Raises (as a PostgreSQL error):
            RoleRefusedError: see `store.tool_calls.check_reader`.
        """
        version = (run.claim.attachment_id, run.claim.attachment_version)
        if self._until.get(version, 0.0) > time.monotonic():
            return True
        if version in self._row_security:
            return await self._ask(run, version, begun=begun)
        # One check at a time: its result often serves all runs of a claim.
        async with self._asking.setdefault(version, asyncio.Lock()):
            if self._until.get(version, 0.0) > time.monotonic():
                return True
            return await self._ask(run, version, begun=begun)

    async def _ask(self, run: RunSpec, version: tuple[int, int], *, begun: bool) -> bool:
        asked = None if begun else visibility_statement(run.table, run.claim.last)
        question = tool_calls.RowQuestion(
            run.table.relation_oid, _columns(run), *(asked or (None, None))
        )
        role, asked_at = run.authority.run_as, time.monotonic()
        async with self._pool.connection() as conn:
            has_policies = await tool_calls.check_reader(conn, role, question)
        if has_policies is None:
            return False
        if not has_policies:
            self._row_security.discard(version)
            self._until[version] = asked_at + _FRESH
            return True
        self._row_security.add(version)
        if begun:
            return True
        # Policies are code of others.
        async with self._calls.connection(run.actor) as conn:
            return await tool_calls.can_see(conn, role, question)


def _columns(run: RunSpec) -> list[str] | None:
    """The columns that the agent or its tools receive; None: all."""
    if run.table.columns is None:
        return None
    return sorted(run.table.columns | run.agent.bound)
