"""The kind of runs that changes of tables start: an agent acts on a row."""

from collections.abc import Awaitable, Callable

from walagent.deciders.agent import AgentDecider
from walagent.domain.agent_spec import keeps_columns
from walagent.domain.run import RunSpec, RunState
from walagent.moves import End, Kind
from walagent.runs.kinds.visibility import Visibility
from walagent.runs.tools.toolbox import Toolbox
from walagent.store import attachments, runs
from walagent.store.sessions.connections import Pool

# Evaluates a deferred change: returns the run with the change as the agent sees it, or its end.
Evaluate = Callable[[RunSpec], Awaitable[RunSpec | End]]


def agent_kind(pool: Pool, toolbox: Toolbox, secret: bytes, evaluate: Evaluate) -> Kind:
    """Create the kind `agent`.

    Args:
        secret: agent_internal.secret, which the markers of data blocks are derived from.
    """
    opener = _Opener(pool, Visibility(pool, toolbox.calls), evaluate)
    return Kind(AgentDecider(secret), toolbox, opens=opener.open)


class _Opener:
    def __init__(self, pool: Pool, visibility: Visibility, evaluate: Evaluate) -> None:
        self._pool = pool
        self._visibility = visibility
        self._evaluate = evaluate

    async def open(self, run: RunSpec) -> RunSpec | End:
        """Evaluate a deferred change; end the run if its role cannot see the row, or a later run
        does its work.
        """
        if run.claim.is_deferred:
            evaluated = await self._evaluate(run)
            if isinstance(evaluated, End):
                return evaluated
            run = evaluated
        if (end := await self._is_outdated(run)) is not None:
            return end
        if await self._visibility.allows(run, begun=run.claim.was_shown):
            return run
        async with self._pool.connection() as conn:
            await attachments.check_drift(conn, run.claim)
        role = run.authority.run_as
        return End(RunState.SKIPPED, reason=f'role "{role}" cannot see the row, or it is gone')

    async def _is_outdated(self, run: RunSpec) -> End | None:
        """End a run whose row has changed since, if the run of that change does its work."""
        if run.claim.was_shown or not keeps_columns(run.agent, run.table):
            return None
        async with self._pool.connection() as conn:
            later = await runs.later_run(conn, run.claim)
        if later is None:
            return None
        return End(
            RunState.SKIPPED, reason=f"the row has changed since: run {later} has the change"
        )
