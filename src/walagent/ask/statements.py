"""Carrying out the steps of a plan: bounded, side by side, each with one fallback."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from psycopg import Error

from walagent.ask.analysis import AnalysisLimits, analyze
from walagent.ask.fanout.repeats import find_repeats
from walagent.ask.health import Breaker
from walagent.ask.plan import PlanStep, StepType
from walagent.ask.results import StepResult
from walagent.ask.search import Searcher
from walagent.ask.search import carry_out as search
from walagent.ask.traps.find import find_traps
from walagent.ask.verify import check_rows, verify
from walagent.base.retries import CONFLICT, repeat
from walagent.errors import (
    CircuitBreakerOpenError,
    ConflictError,
    DatabaseLostError,
    InvalidCallError,
    StatementRefusedError,
    WalagentError,
)
from walagent.guard.query import Guard
from walagent.guard.redact import without_values
from walagent.rows.rows import Rows
from walagent.store.errors import is_conflict, translating
from walagent.store.sessions.connections import answers


class Statements:
    """Runs the statements of steps, as many at once as there are guards."""

    def __init__(  # noqa: PLR0913 - what the kinds of steps need
        self,
        guards: Sequence[Guard],
        limits: AnalysisLimits | None = None,
        searcher: Searcher | None = None,
        *,
        opening: Callable[[], Awaitable[Guard]] | None = None,
        most: int = 0,
        breaker: Breaker | None = None,
    ) -> None:
        """Take guards, each with a connection of its own, and what searches the web, if any.

        Args:
            opening: opens another guard, and one in place of a guard whose connection is closed.
            most: guards at once.
            breaker: of the database; by default, one of its own.
        """
        self._opening = opening
        # The guard that was used last is used next: others need not be opened.
        self._free: asyncio.LifoQueue[Guard | None] = asyncio.LifoQueue()
        for guard in (*[None] * (most - len(guards)), *guards):
            self._free.put_nowait(guard)
        self._limits = limits or AnalysisLimits()
        self._breaker = breaker or Breaker()
        self._searcher = searcher

    @property
    def searches(self) -> bool:
        """Whether the web can be searched."""
        return self._searcher is not None

    async def carry_out(self, step: PlanStep, results: Mapping[str, StepResult]) -> StepResult:
        """Execute a step, or its fallback if it fails; the result contains the error."""
        try:
            return await self._once(step, results)
        except (DatabaseLostError, CircuitBreakerOpenError):  # no plan changes that
            raise
        except WalagentError as error:
            failed = StepResult(step.id, step.type, query=_asked(step), error=without_values(error))
        if step.fallback is None:
            return failed
        instead = step.fallback.model_copy(
            update={"id": step.id, "depends_on": step.fallback.depends_on or step.depends_on}
        )
        try:
            found = await self._once(instead, results)
        except (DatabaseLostError, CircuitBreakerOpenError):
            raise
        except WalagentError as error:
            return replace(failed, error=f"{failed.error}; fallback: {without_values(error)}")
        return replace(found, fallback=True, first_error=failed.error)

    async def read(self, query: str) -> Rows:
        """Run a statement, if the guard lets it.

        Raises:
            StatementRefusedError: it does not.
        """
        async with self.guard() as guard:
            return await guard.read(query)

    async def _once(self, step: PlanStep, results: Mapping[str, StepResult]) -> StepResult:
        inputs = {name: results[name] for name in step.depends_on}
        match step.type:
            case StepType.SQL:
                return await self._query(step)
            case StepType.ANALYZE:
                found = await asyncio.to_thread(analyze, step, inputs, self._limits)
                return replace(found, findings=check_rows(found.rows))
            case StepType.VERIFY:
                return verify(step, inputs)
            case StepType.SEARCH:
                if self._searcher is None:
                    raise InvalidCallError("there is no web search here; answer from the database")
                return await search(step, self._searcher)

    async def _query(self, step: PlanStep) -> StepResult:
        query = step.text("query")
        async with self.guard() as guard:
            with self._breaker.watching():
                rows = await _read(guard, query)
                repeats = await find_repeats(guard, query, rows)
                traps = await find_traps(guard, query, rows)
        found = (*check_rows(rows), *repeats, *traps)
        return StepResult(step.id, step.type, rows, query, findings=found)

    @asynccontextmanager
    async def guard(self) -> AsyncGenerator[Guard]:
        """Lend a guard that nobody uses; wait until there is one.

        Raises:
            DatabaseLostError: there is no connection for it.
        """
        guard = await self._free.get()
        try:
            if guard is None or not all([await answers(conn) for conn in guard.connections]):
                guard = None
                guard = await self._open()
            yield guard
        finally:
            self._free.put_nowait(guard)

    async def _open(self) -> Guard:
        if self._opening is None:
            raise DatabaseLostError("database lost: the analyst's connection is closed")
        with self._breaker.watching(), translating():
            return await self._opening()


async def _read(guard: Guard, query: str) -> Rows:
    """Run a statement; if a lock is in its way, repeat it for as long as it may run itself.

    Raises:
        ConflictError: the lock was not released: no other plan would help.
    """
    waits = list[BaseException]()
    try:
        return await repeat(
            lambda: guard.read(query),
            lambda error: isinstance(error, Error | StatementRefusedError) and is_conflict(error),
            waits.append,
            wait=CONFLICT,
            within=guard.limits.seconds,
        )
    except (Error, StatementRefusedError) as error:
        if not is_conflict(error):
            raise
        raise ConflictError(f"{error}; tried {len(waits) + 1} times") from error


def _asked(step: PlanStep) -> str:
    return step.text("query") or step.text("sql") or step.text("expression")
