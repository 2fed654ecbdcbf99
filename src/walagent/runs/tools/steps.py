"""Steps of a tool call: what admits it, what judges its result, and what records them."""

import time
from collections.abc import Mapping

from psycopg import Error

from walagent.base import faults
from walagent.domain.run import StepKind
from walagent.message import Json
from walagent.moves import ToolReply
from walagent.runs.tools.admission import (
    REFUSED,
    Admission,
    RefusedResult,
    check_output,
    denied,
    judged,
)
from walagent.runs.tools.work import Work
from walagent.store import runs, tool_calls
from walagent.store.runs import NewStep
from walagent.store.sessions.tool_connections import ToolConnections
from walagent.store.trampolines import through_trampolines

_STALE = 2.0  # seconds after which a check of the lease is repeated before a call outside


class ToolSteps:
    """Records the steps of calls."""

    def __init__(self, calls: ToolConnections) -> None:
        """Use these connections."""
        self._calls = calls

    async def admit(self, work: Work, *, intent: bool, again: bool = False) -> Admission:
        """Let the database decide about a call, and record its refusal or its intent."""

        async def admitted() -> Mapping[str, Json]:
            async with self._calls.connection() as conn:
                return await tool_calls.admit_call(
                    conn, work.run.claim, work.seq, work.call, intent=intent, again=again
                )

        role = work.run.authority.run_as
        verdict = await through_trampolines(
            admitted, self._calls.worker.connection, role=role, policies=True
        )
        return Admission.of(verdict)

    async def announce(self, work: Work) -> Admission:
        """Check a call outside the database, and record its intent or its refusal.

        A process that was suspended since the statement was sent checks its lease again: another
        worker might have the run, or a person might have resolved the call.
        """
        again = work.again
        while True:
            sent = _clock()
            admission = await self.admit(work, intent=True, again=again)
            if admission.refused is not None:
                return admission
            faults.hit("tool.started")
            if _clock() - sent < _STALE:
                return admission
            again = True

    async def judge(self, work: Work, content: Mapping[str, Json]) -> Mapping[str, Json]:
        """Return a result as its schema and policies leave it.

        Raises:
            ToolFailedError: the output schema refuses it.
            RefusedResult: a policy denies it.
        """
        if not content["is_error"]:
            check_output(work.tool, str(content["content"]))
        try:
            return await judged(self._calls, work.admission, content)
        except Error as error:
            if error.sqlstate != REFUSED:
                raise
            raise RefusedResult(denied(content, error)) from error

    async def record(
        self, work: Work, content: Mapping[str, Json], reply: ToolReply | None = None
    ) -> NewStep:
        """Record the result of a call, with what a model used for it."""
        if work.is_changed:
            content = {**content, "arguments": dict(work.call.arguments or {})}
        step = NewStep(work.seq, StepKind.RESULT, content)
        if reply is not None:
            used = (reply.usage, reply.cost, reply.duration_ms)
            step = NewStep(work.seq, StepKind.RESULT, content, *used)
        async with self._calls.worker.connection() as conn:
            reserved = reply is not None and reply.reserved
            await runs.record_step(conn, work.run.claim, step, reserved=reserved)
        return step


def _clock() -> float:
    """Return seconds that also pass while the process or the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
