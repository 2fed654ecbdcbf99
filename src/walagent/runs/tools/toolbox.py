"""Execute tool calls, so that the effect of a call commits with its step.

SQL function, update_row     one statement: fence, origin marker, role, call, step
built-in, in the database    one transaction of the worker: fence, origin marker, agent, call, step
built-in, outside            the call; then the step
query                        a read-only transaction as a role that can only read; then the step
Python, transactional        one transaction around the function
Python, outside; MCP; HTTP   intent recorded; the call; result recorded

A transaction that meets a lock or serialization conflict is repeated for up to two seconds.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TypeVar

from psycopg import Error

from walagent.base import faults
from walagent.base.retries import CONFLICT, seconds
from walagent.domain.run import RunSpec, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import result_to_json
from walagent.errors import (
    ToolFailedError,
    WalagentError,
)
from walagent.guard.read_limits import ReadLimits
from walagent.message import Json
from walagent.moves import Call, RunLog
from walagent.runs.awake_timeout import awake_for
from walagent.runs.tools.admission import (
    Admission,
    ArgumentsChanged,
    RefusedResult,
    check_output,
    retrieval,
)
from walagent.runs.tools.builtin_tools import OUTSIDE, Services
from walagent.runs.tools.outside_calls import OutsideCalls
from walagent.runs.tools.query_tool import LIMITS, Bounds, answer_query
from walagent.runs.tools.slots import Gate
from walagent.runs.tools.steps import ToolSteps
from walagent.runs.tools.work import Work, check_fits, failed, said, text_of
from walagent.store import builtins, runs, tool_calls
from walagent.store.errors import is_conflict, is_passing
from walagent.store.runs import NewStep
from walagent.store.sessions.connections import Pool
from walagent.store.sessions.step_session import StepSession
from walagent.store.sessions.tool_connections import ToolConnections
from walagent.store.trampolines import TRAMPOLINE_LOST, through_trampolines
from walagent.tools.builtin_results import show_result
from walagent.tools.callee import Servers
from walagent.tools.python import PythonTool, ToolContext
from walagent.tools.statements import statement_of

C = TypeVar("C")

# Seconds for which a call is repeated after conflicts.  Most transactions are short; for a long
# one, the run waits without a slot.
_PATIENCE = 2.0
_MARGIN = 5.0  # seconds beyond a tool's timeout for which its transaction can be idle
_MOST_CHANGES = 3  # of the arguments of a call, by policies


class Toolbox:
    """Executes the calls of runs.  Each method records its steps and returns them."""

    def __init__(  # noqa: PLR0913 - what the kinds of tools need
        self,
        calls: ToolConnections,
        python: Mapping[str, PythonTool],
        reading: ReadLimits = LIMITS,
        *,
        servers: Servers | None = None,
        http: Servers | None = None,
        services: Services | None = None,
    ) -> None:
        """Take what tools need.

        Args:
            calls: connections for code of others, and those of the worker.
            python: by target.
            reading: limits of statements that models write.
            servers: of MCP.
            http: calls tools over HTTP.
            services: what built-in tools use.
        """
        self.services = services or Services()
        self._pool: Pool = calls.worker
        self.calls = calls
        self._reading = reading
        self._steps = ToolSteps(calls)
        self._outside = OutsideCalls(
            self._pool,
            self._steps,
            python=python,
            servers=servers,
            http=http,
            services=self.services,
        )
        self._gate = Gate(self._pool.max_size)

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        """Execute a call and record it.

        Raises (also as PostgreSQL errors):
            LeaseLostError, StepTakenError, RunCancelledError: leave the run.
            DatabaseLostError: retry later.
            ConflictError: conflicts with other transactions persisted.
            RoleRefusedError: the run's role cannot be assumed.
            BrokenAttachmentError: the attachment is broken.
        """
        work = Work(run, call, log.seq, log=log)
        for step in await self._persist(work):
            log.append(step.recorded)

    async def _persist(self, work: Work) -> list[NewStep]:
        """Execute a call; after a timeout that rolled it back, repeat it if its tool says so."""
        tool = work.tool
        for tried in count():
            try:
                return await self._admitted(work)
            except TimeoutError:
                if tried >= tool.retries:
                    return [await self._timed_out(work)]
            await asyncio.sleep(tool.retry_after)
        raise AssertionError("count() has no end")

    async def _timed_out(self, work: Work) -> NewStep:
        text = f"{work.tool.name} did not end within {work.tool.timeout:g} s and was rolled back"
        return await self._steps.record(work, failed(work.call, text))

    async def _admitted(self, work: Work) -> list[NewStep]:
        """Execute a call with the arguments that policies make of it."""
        for _ in range(_MOST_CHANGES):
            try:
                return await self._dispatch(work)
            except ArgumentsChanged as changed:
                work = work.changed(changed.arguments)
            except ToolFailedError as error:
                content = failed(work.call, str(error))
                return [await self._steps.record(work, content)]
            except RefusedResult as refused:
                return [await self._steps.record(work, refused.content)]
        text = "policies changed the arguments again and again"
        content = {**failed(work.call, text), "denied": text}
        return [await self._steps.record(work, content)]

    async def _dispatch(self, work: Work) -> list[NewStep]:
        tool = work.tool
        if tool.target == "do_nothing":
            return [await self._steps.record(work, result_to_json(work.call, "ok", is_error=False))]
        outside = tool.effect in {Effect.IDEMPOTENT, Effect.UNSAFE}
        if tool.kind == "llm":
            return await self._outside.ask_model(work)
        if tool.kind in {"mcp", "http"} or (tool.kind in {"python", "builtin"} and outside):
            return await self._outside.call(work)
        if tool.kind == "builtin" and tool.target != "update_row":
            admission = await self._steps.admit(work, intent=False)
            if admission.refused is not None:
                return [NewStep(work.seq, StepKind.RESULT, admission.refused)]
            work = replace(work, admission=admission)
        return [await self._insist(work, min(_PATIENCE, tool.timeout / 2))]

    async def _inside_call(self, work: Work) -> NewStep:
        """Execute a call that has no effect outside the database."""
        if work.tool.kind == "python":
            return await self._python_call(work)
        if work.tool.kind == "builtin" and work.tool.target in builtins.NAMES:
            return await self._builtin_call(work)
        if work.tool.kind == "builtin" and work.tool.target in OUTSIDE:
            return await self._outside.read(work)
        if work.tool.target == "query" and work.tool.kind == "builtin":
            return await self._query(work)
        return await self._sql_call(work)

    async def _builtin_call(self, work: Work) -> NewStep:
        """Execute a built-in tool as the agent of the run, and record its result."""
        claim, name, given = work.run.claim, work.tool.target, work.arguments
        if name in builtins.RETRIEVING:
            given = (await self._retrieval(work, "before"))["arguments"]
        arguments = await self.services.with_embedding(work.tool, given)
        async with self._within(work, self._pool.connection()) as conn, conn.transaction():
            check_fits(conn, work.arguments)
            faults.hit("tool.started")
            try:
                async with conn.transaction(), builtins.acting(conn, claim):
                    result = await builtins.call(conn, claim, name, arguments)
                if name in builtins.RETRIEVING:
                    result = (await self._retrieval(work, "after", result))["result"]
            except Error as error:
                if (
                    error.sqlstate == TRAMPOLINE_LOST
                    or is_passing(error)
                    or (error.sqlstate or "") in builtins.FENCED
                ):
                    raise
                content = failed(work.call, said(error))
                content["sqlstate"] = error.sqlstate
            else:
                text = text_of(show_result(name, result, claim.run_id))
                content = result_to_json(work.call, text, is_error=False)
            faults.hit("tool.done")
            step = NewStep(work.seq, StepKind.RESULT, await self._steps.judge(work, content))
            await runs.record_step(conn, claim, step)
            faults.hit("tool.recorded")
        faults.hit("tool.committed")
        return step

    async def _retrieval(self, work: Work, phase: str, *result: Json) -> Mapping[str, Json]:
        """Let the policies of the tenant decide about a search, or what it found."""
        call = {
            "tool": work.tool.name,
            "agent": work.run.agent.name,
            "run": work.run.run_id,
            "arguments": work.arguments,
            **({"result": result[0]} if result else {}),
        }
        return await retrieval(self.calls, work.run.claim.tenant, phase, call)

    async def _query(self, work: Work) -> NewStep:
        """Execute a query in a read-only transaction, and record its rows in another."""
        async with (
            self._within(work, self.calls.connection(work.run.actor)) as tools,
            self.calls.catalog() as conn,
        ):
            faults.hit("tool.started")
            worker = self._pool.connection if self.calls.is_one_transaction else None
            bounds = Bounds(self._reading, work.run.authority.search_path, worker)
            content = await answer_query(
                (conn, tools),
                work.tool,
                work.call,
                work.arguments,
                bounds,
            )
        faults.hit("tool.done")
        return await self._steps.record(work, await self._steps.judge(work, content))

    async def _insist(self, work: Work, patience: float) -> NewStep:
        """Execute a transaction; after a conflict, repeat it for *patience* seconds.

        Nothing is held between two attempts.
        """
        started, queue = time.monotonic(), work.run.claim.queue_id
        for attempt in count(1):
            try:
                step = await through_trampolines(
                    lambda: self._inside_call(work),
                    self._pool.connection,
                    role=work.run.authority.run_as,
                    policies=True,
                )
            except Error as error:
                if not is_conflict(error):
                    raise
                self._gate.jam(queue, jammed=True)
                if time.monotonic() - started > patience:
                    raise
            else:
                self._gate.jam(queue, jammed=False)
                return step
            await asyncio.sleep(seconds(CONFLICT, attempt))
        raise AssertionError("count() has no end")

    @asynccontextmanager
    async def _within(
        self, work: Work, connection: AbstractAsyncContextManager[C]
    ) -> AsyncGenerator[C]:
        """Yield a connection for the timeout of a tool.

        The timeout starts with the connection: an unavailable database does not count.
        """
        async with (
            self._gate.place(work.run.claim.queue_id),
            connection as conn,
            awake_for(work.tool.timeout),
        ):
            yield conn

    async def _sql_call(self, work: Work) -> NewStep:
        target, authority, tool = work.run.table, work.run.authority, work.tool
        since = work.since if target.only_unchanged else None
        text, parameter = statement_of(tool, target, work.arguments, work.run.claim.last, since)
        builtin = tool.kind == "builtin"
        statement = tool_calls.ToolStatement(
            text,
            parameter,
            authority,
            must_find=builtin,
            relation=target.relation_oid if builtin else None,
        )
        async with self._within(work, self.calls.connection(work.run.actor)) as conn:
            check_fits(conn.conn, parameter)
            faults.hit("tool.started")
            content = await tool_calls.call_tool(
                conn, work.run.claim, work.seq, work.call, statement, partial(_check_content, tool)
            )
        faults.hit("tool.committed")  # planted: two-transactions-sql/caller
        return NewStep(work.seq, StepKind.RESULT, content)

    async def _python_call(self, work: Work) -> NewStep:
        function, claim = self._outside.function(work.tool), work.run.claim
        role, path = work.run.authority.run_as, work.run.authority.search_path
        async with (
            self._within(work, self.calls.connection(work.run.actor)) as conn,
            conn.transaction() as transaction,
        ):
            faults.hit("tool.started")
            rest, started = work.tool.timeout + _MARGIN, time.monotonic()
            opened = await tool_calls.open_step(transaction, claim, work.seq, work.call, role, rest)
            admission = Admission.of(opened)
            if admission.refused is not None:
                return NewStep(work.seq, StepKind.RESULT, admission.refused)
            session = StepSession(transaction, role, path)
            content = await self._inside(session, work, function, admission.key)
            content = await self._steps.judge(replace(work, admission=admission), content)
            faults.hit("tool.done")
            step = NewStep(work.seq, StepKind.RESULT, content)
            took = time.monotonic() - started
            await tool_calls.close_step(  # planted: two-transactions-python
                transaction, claim, step, took
            )
            faults.hit("tool.recorded")
        faults.hit("tool.committed")
        return step

    async def _inside(
        self, session: StepSession, work: Work, function: PythonTool, key: str
    ) -> dict[str, Json]:
        """Call a function in the step's transaction, within a savepoint."""
        claim, call = work.run.claim, work.call
        context = ToolContext(session, key, claim.run_id, claim.last)
        try:
            async with session.transaction():
                text = text_of(await function.call(context, work.arguments))
                await session.check_constraints()
        except Error as error:
            if is_passing(error) or error.sqlstate == TRAMPOLINE_LOST:
                raise
            return {
                **failed(call, said(error)),
                **({"sqlstate": error.sqlstate} if error.sqlstate else {}),
            }
        except WalagentError as error:
            return failed(call, str(error))
        return result_to_json(call, text, is_error=False)


def _check_content(tool: Tool, content: Mapping[str, Json]) -> None:
    """Check what agent_signed.call_tool() returned, before it commits.

    Raises:
        ApprovalNeeded, ArgumentsChanged: nothing was executed.
        ToolFailedError: the output schema refuses the result.
    """
    if "verdict" in content:
        Admission.of(content["verdict"])
    elif not content["is_error"]:
        check_output(tool, str(content["content"]))
