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
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, TypeVar, cast

import orjson
from psycopg import AsyncConnection, Error

from walagent import faults
from walagent.agent.tools.builtin import show_result
from walagent.agent.tools.callee import Callee, NoServers, Servers
from walagent.agent.tools.http import HttpCallee
from walagent.agent.tools.python import PythonTool, ToolContext
from walagent.agent.tools.statements import bound, statement_of
from walagent.agent.transcript import result_to_json
from walagent.backoff import brief, delay
from walagent.encodings import misfit
from walagent.errors import (
    ModelRejectedError,
    OutcomeUnknownError,
    ToolBrokenError,
    ToolFailedError,
    WalagentError,
)
from walagent.guard.query import ReadLimits
from walagent.message import Json, ToolCall
from walagent.moves import Call, RunLog, ToolReply, ToolRequest
from walagent.run import RunSpec, StepKind
from walagent.runs.admission import (
    ADMITTED,
    REFUSED,
    Admission,
    ArgumentsChanged,
    RefusedResult,
    check_output,
    denied,
    judged,
    make_trampolines,
    retrieval,
)
from walagent.runs.awake_timeout import awake_for
from walagent.runs.builtin_tools import OUTSIDE, Services
from walagent.runs.query_tool import LIMITS, Bounds, answer_query
from walagent.runs.tool_slots import Gate
from walagent.store import builtins, runs, tool_calls
from walagent.store.connections import Pool
from walagent.store.errors import is_conflict, is_passing
from walagent.store.runs import NewStep
from walagent.store.step_session import StepSession
from walagent.store.tool_connections import ToolConnections
from walagent.tool_spec import Effect, Tool

C = TypeVar("C")

# Seconds for which a call is repeated after conflicts.  Most transactions are short; for a long
# one, the run waits without a slot.
_PATIENCE = 2.0
_MARGIN = 5.0  # seconds beyond a tool's timeout for which its transaction can be idle
_STALE = 2.0  # seconds after which a check of the lease is repeated before a call outside
_MOST_CHANGES = 3  # of the arguments of a call, by policies
_MOST_TEXT = 65_536  # characters of a result that are kept
_MOST_TOKENS = 2048  # of the answer of a tool that is a model


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
        self._python = python
        self._reading = reading
        self._servers = servers or NoServers()
        self._http = http or NoServers()
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
        work = _Work(run, call, log.seq, log=log)
        for step in await self._persist(work):
            log.append(step.recorded)

    async def _persist(self, work: "_Work") -> list[NewStep]:
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

    async def _timed_out(self, work: "_Work") -> NewStep:
        text = f"{work.tool.name} did not end within {work.tool.timeout:g} s and was rolled back"
        return await self._record(work, result_to_json(work.call, text, is_error=True))

    async def _admitted(self, work: "_Work") -> list[NewStep]:
        """Execute a call with the arguments that policies make of it."""
        for _ in range(_MOST_CHANGES):
            try:
                return await self._dispatch(work)
            except ArgumentsChanged as changed:
                work = work.changed(changed.arguments)
            except ToolFailedError as error:
                content = result_to_json(work.call, str(error), is_error=True)
                return [await self._record(work, content)]
            except RefusedResult as refused:
                return [await self._record(work, refused.content)]
        text = "policies changed the arguments again and again"
        content = {**result_to_json(work.call, text, is_error=True), "denied": text}
        return [await self._record(work, content)]

    async def _dispatch(self, work: "_Work") -> list[NewStep]:
        tool = work.tool
        if tool.target == "do_nothing":
            return [await self._record(work, result_to_json(work.call, "ok", is_error=False))]
        outside = tool.effect in {Effect.IDEMPOTENT, Effect.UNSAFE}
        if tool.kind == "llm":
            return await self._model_call(work)
        if tool.kind in {"mcp", "http"} or (tool.kind in {"python", "builtin"} and outside):
            return await self._outside(work)
        if tool.kind == "builtin" and tool.target != "update_row":
            admission = await self._admit(work, intent=False)
            if admission.refused is not None:
                return [NewStep(work.seq, StepKind.RESULT, admission.refused)]
            work = replace(work, admission=admission)
        return [await self._insist(work, min(_PATIENCE, tool.timeout / 2))]

    async def _inside_call(self, work: "_Work") -> NewStep:
        """Execute a call that has no effect outside the database."""
        if work.tool.kind == "python":
            return await self._python_call(work)
        if work.tool.kind == "builtin" and work.tool.target in builtins.NAMES:
            return await self._builtin_call(work)
        if work.tool.kind == "builtin" and work.tool.target in OUTSIDE:
            return await self._read_outside(work)
        if work.tool.target == "query" and work.tool.kind == "builtin":
            return await self._query(work)
        return await self._sql_call(work)

    async def _builtin_call(self, work: "_Work") -> NewStep:
        """Execute a built-in tool as the agent of the run, and record its result."""
        claim, name, given = work.run.claim, work.tool.target, work.arguments
        if name in builtins.RETRIEVING:
            given = (await self._retrieval(work, "before"))["arguments"]
        arguments = await self.services.with_embedding(work.tool, given)
        async with self._within(work, self._pool.connection()) as conn, conn.transaction():
            _check_fits(conn, work.arguments)
            faults.hit("tool.started")
            try:
                async with conn.transaction(), builtins.acting(conn, claim):
                    result = await builtins.call(conn, claim, name, arguments)
                if name in builtins.RETRIEVING:
                    result = (await self._retrieval(work, "after", result))["result"]
            except Error as error:
                if (
                    error.sqlstate == tool_calls.TRAMPOLINE_LOST
                    or is_passing(error)
                    or (error.sqlstate or "") in builtins.FENCED
                ):
                    raise
                content = result_to_json(work.call, _said(error), is_error=True)
                content["sqlstate"] = error.sqlstate
            else:
                text = _text(show_result(name, result, claim.run_id))
                content = result_to_json(work.call, text, is_error=False)
            faults.hit("tool.done")
            step = NewStep(work.seq, StepKind.RESULT, await self._judge(work, content))
            await runs.record_step(conn, claim, step)
            faults.hit("tool.recorded")
        faults.hit("tool.committed")
        return step

    async def _retrieval(self, work: "_Work", phase: str, *result: Json) -> Mapping[str, Json]:
        """Let the policies of the tenant decide about a search, or what it found."""
        call = {
            "tool": work.tool.name,
            "agent": work.run.agent.name,
            "run": work.run.run_id,
            "arguments": work.arguments,
            **({"result": result[0]} if result else {}),
        }
        return await retrieval(self.calls, work.run.claim.tenant, phase, call)

    async def _read_outside(self, work: "_Work") -> NewStep:
        """Execute a built-in tool that reads outside the database, and record its result."""
        callee = self._callee(work.tool)
        context = ToolContext(None, "", work.run.run_id, work.run.claim.change)
        faults.hit("tool.started")
        try:
            async with awake_for(work.tool.timeout):
                text = _text(await callee.call(context, work.arguments))
            content = result_to_json(work.call, text, is_error=False)
        except ToolFailedError as error:
            content = result_to_json(work.call, str(error)[:_MOST_TEXT], is_error=True)
        faults.hit("tool.done")
        return await self._record(work, await self._judge(work, content))

    async def _tenant_of(self, run_id: int) -> str:
        async with self._pool.connection() as conn:
            return await builtins.tenant_of(conn, run_id)

    async def _query(self, work: "_Work") -> NewStep:
        """Execute a query in a read-only transaction, and record its rows in another."""
        async with (
            self._within(work, self.calls.connection(work.run.actor)) as tools,
            self._pool.connection() as conn,
        ):
            faults.hit("tool.started")
            bounds = Bounds(self._reading, work.run.authority.search_path)
            content = await answer_query(
                (conn, tools), work.tool, work.call, work.arguments, bounds
            )
        faults.hit("tool.done")
        return await self._record(work, await self._judge(work, content))

    async def _admit(self, work: "_Work", *, intent: bool, again: bool = False) -> Admission:
        """Let the database decide about a call, and record its refusal or its intent."""
        for attempt in count(1):
            try:
                async with self.calls.connection() as conn:
                    verdict = await tool_calls.admit_call(
                        conn, work.run.claim, work.seq, work.call, intent=intent, again=again
                    )
            except Error as error:
                if error.sqlstate != tool_calls.TRAMPOLINE_LOST or attempt > 1:
                    raise
                await make_trampolines(self._pool, work.run.authority.run_as)
            else:
                return Admission.of(verdict)
        raise AssertionError("count() has no end")

    async def _judge(self, work: "_Work", content: Mapping[str, Json]) -> Mapping[str, Json]:
        """Return a result as its schema and policies leave it.

        Raises:
            ToolFailedError: the output schema refuses it.
            RefusedResult: a policy denies it.
        """
        if not content["is_error"]:
            check_output(work.tool, str(content["content"]))
        try:
            return await judged(self.calls, work.admission, content)
        except Error as error:
            if error.sqlstate != REFUSED:
                raise
            raise RefusedResult(denied(content, error)) from error

    async def _record(self, work: "_Work", content: Mapping[str, Json]) -> NewStep:
        if work.is_changed:
            content = {**content, "arguments": dict(work.call.arguments or {})}
        step = NewStep(work.seq, StepKind.RESULT, content)
        async with self._pool.connection() as conn:
            await runs.record_step(conn, work.run.claim, step)
        return step

    async def _insist(self, work: "_Work", patience: float) -> NewStep:
        """Execute a transaction; after a conflict, repeat it for *patience* seconds.

        Nothing is held between two attempts.
        """
        started, queue = time.monotonic(), work.run.claim.queue_id
        for attempt in count(1):
            try:
                step = await self._inside_call(work)
            except Error as error:
                if error.sqlstate == tool_calls.TRAMPOLINE_LOST and attempt == 1:
                    await make_trampolines(self._pool, work.run.authority.run_as)
                    continue
                if not is_conflict(error):
                    raise
                self._gate.jam(queue, jammed=True)
                if time.monotonic() - started > patience:
                    raise
            else:
                self._gate.jam(queue, jammed=False)
                return step
            await asyncio.sleep(brief(attempt))
        raise AssertionError("count() has no end")

    @asynccontextmanager
    async def _within(
        self, work: "_Work", connection: AbstractAsyncContextManager[C]
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

    async def _sql_call(self, work: "_Work") -> NewStep:
        target, authority, tool = work.run.table, work.run.authority, work.tool
        text, parameter = statement_of(tool, target, work.arguments, work.run.claim.change)
        builtin = tool.kind == "builtin"
        statement = tool_calls.ToolStatement(
            text,
            parameter,
            authority,
            must_find=builtin,
            relation=target.relation_oid if builtin else None,
        )
        async with self._within(work, self.calls.connection(work.run.actor)) as conn:
            _check_fits(conn.conn, parameter)
            faults.hit("tool.started")
            content = await tool_calls.call_tool(
                conn, work.run.claim, work.seq, work.call, statement, partial(_check_content, tool)
            )
        faults.hit("tool.committed")  # planted: two-transactions-sql/caller
        return NewStep(work.seq, StepKind.RESULT, content)

    async def _python_call(self, work: "_Work") -> NewStep:
        function, claim = self._function(work.tool), work.run.claim
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
            content = await self._judge(replace(work, admission=admission), content)
            faults.hit("tool.done")
            step = NewStep(work.seq, StepKind.RESULT, content)
            took = time.monotonic() - started
            await tool_calls.close_step(  # planted: two-transactions-python
                transaction, claim, step, took
            )
            faults.hit("tool.recorded")
        faults.hit("tool.committed")
        return step

    async def _prepared(self, work: "_Work") -> Callee:
        """Return the prepared callee of a call; nothing has started, so no intent is needed."""
        tool = work.tool
        try:
            found = self._callee(tool)
            await found.prepare()
        except ToolFailedError as error:
            if not work.again:
                raise
            raise ToolFailedError(f"{error}; the attempt before may have acted") from error
        return found

    def _callee(self, tool: Tool) -> Callee:
        match tool.kind:
            case "mcp":
                return self._servers.callee(tool)
            case "http":
                return self._http.callee(tool)
            case "builtin":
                return self.services.callee(tool, self._tenant_of)
            case _:
                return self._function(tool)

    def _function(self, tool: Tool) -> PythonTool:
        if (function := self._python.get(tool.target)) is None:
            raise ToolFailedError(f"{tool.target} is not installed on this worker")
        return function

    async def _inside(
        self, session: StepSession, work: "_Work", function: PythonTool, key: str
    ) -> dict[str, Json]:
        """Call a function in the step's transaction, within a savepoint."""
        claim, call = work.run.claim, work.call
        context = ToolContext(session, key, claim.run_id, claim.change)
        try:
            async with session.transaction():
                text = _text(await function.call(context, work.arguments))
                await session.check_constraints()
        except Error as error:
            if is_passing(error) or error.sqlstate == tool_calls.TRAMPOLINE_LOST:
                raise
            return {
                **result_to_json(call, _said(error), is_error=True),
                **({"sqlstate": error.sqlstate} if error.sqlstate else {}),
            }
        except WalagentError as error:
            return result_to_json(call, str(error)[:_MOST_TEXT], is_error=True)
        return result_to_json(call, text, is_error=False)

    async def _outside(self, work: "_Work") -> list[NewStep]:
        """Record the intent, call, record the result.

        After a crash between them, a timeout or an error of the server, the outcome is unknown.
        If the call can be repeated, that is after a pause: the server might be overloaded.
        """
        claim, call, again, steps = work.run.claim, work.call, work.again, list[NewStep]()
        callee = await self._prepared(work)
        admission = await self._announce(work)
        if admission.refused is not None:
            return [NewStep(work.seq, StepKind.RESULT, admission.refused)]
        work = replace(work, admission=admission)
        _limit(callee, admission)
        key = admission.key
        if not again:
            content = {"call_id": call.id, "name": call.name, "idempotency_key": key}
            steps.append(NewStep(work.seq, StepKind.INTENT, content))
        context = ToolContext(None, key, claim.run_id, claim.change)
        try:
            async with awake_for(work.tool.timeout):
                text = _text(await callee.call(context, work.arguments))
            result = result_to_json(call, text, is_error=False)
        except (TimeoutError, OutcomeUnknownError) as error:
            if not again:
                if work.tool.effect is Effect.IDEMPOTENT:
                    await asyncio.sleep(delay(1))
                return steps
            text = str(error) or f"{work.tool.name} did not end within {work.tool.timeout:g} s"
            result = result_to_json(call, f"{text}; it may have acted", is_error=True)
        except ToolFailedError as error:
            result = result_to_json(call, str(error)[:_MOST_TEXT], is_error=True)
        except Error as error:  # of a connection of the tool
            raise ToolBrokenError(f"{work.tool.name} raised {_said(error)}") from error
        faults.hit("tool.done")
        work = replace(work, seq=work.seq + len(steps))
        try:
            result = await self._judge(work, result)
        except ToolFailedError as error:
            result = result_to_json(call, str(error)[:_MOST_TEXT], is_error=True)
        except RefusedResult as refused:
            result = refused.content
        steps.append(await self._record(work, result))
        return steps

    async def _model_call(self, work: "_Work") -> list[NewStep]:
        """Record the intent, ask the model, record its answer with what that used."""
        admission = await self._announce(work)
        if admission.refused is not None:
            return [NewStep(work.seq, StepKind.RESULT, admission.refused)]
        tool, call, steps = work.tool, work.call, list[NewStep]()
        if not work.again:
            content = {"call_id": call.id, "name": call.name, "idempotency_key": admission.key}
            steps.append(NewStep(work.seq, StepKind.INTENT, content))
        work = replace(work, admission=admission, seq=work.seq + len(steps))
        assert work.log is not None  # noqa: S101 - every call has the log of its run
        asked = ToolRequest(
            tool.target,
            str(tool.llm.get("system", "")),
            _asked(work.arguments),
            int(cast("int", tool.llm.get("max_tokens", _MOST_TOKENS))),
            tool.timeout,
            work.seq,
        )
        reply: ToolReply | None = None
        try:
            async with awake_for(tool.timeout):
                reply = await work.log.ask(asked)
            result = result_to_json(call, _text(reply.text), is_error=False)
            result = {**await self._judge(work, result), "registered": reply.model}
        except (TimeoutError, ModelRejectedError, ToolFailedError) as error:
            text = str(error) or f"{tool.name} did not answer within {tool.timeout:g} s"
            result = result_to_json(call, text[:_MOST_TEXT], is_error=True)
        except RefusedResult as refused:
            result = refused.content
        faults.hit("tool.done")
        step = NewStep(work.seq, StepKind.RESULT, result)
        if reply is not None:
            used = (reply.usage, reply.cost, reply.duration_ms)
            step = NewStep(work.seq, StepKind.RESULT, result, *used)
        async with self._pool.connection() as conn:
            reserved = reply is not None and reply.reserved
            await runs.record_step(conn, work.run.claim, step, reserved=reserved)
        return [*steps, step]

    async def _announce(self, work: "_Work") -> Admission:
        """Check a call outside the database, and record its intent or its refusal.

        A process that was suspended since the statement was sent checks its lease again: another
        worker might have the run, or a person might have resolved the call.
        """
        again = work.again
        while True:
            sent = _clock()
            admission = await self._admit(work, intent=True, again=again)
            if admission.refused is not None:
                return admission
            faults.hit("tool.started")
            if _clock() - sent < _STALE:
                return admission
            again = True


@dataclass(frozen=True, slots=True)
class _Work:
    """One call of one run, and the number of its step."""

    run: RunSpec
    of: Call
    seq: int
    admission: Admission = ADMITTED
    is_changed: bool = False
    log: RunLog | None = None

    def changed(self, arguments: Mapping[str, Json]) -> "_Work":
        """Return the same with other arguments."""
        call = replace(self.of.call, arguments=arguments)
        return replace(self, of=replace(self.of, call=call), is_changed=True)

    @property
    def call(self) -> ToolCall:
        return self.of.call

    @property
    def tool(self) -> Tool:
        return self.of.tool

    @property
    def again(self) -> bool:
        return self.of.again

    @property
    def arguments(self) -> dict[str, Json]:
        return bound(self.tool, self.call, self.run.claim.change)


def _limit(callee: Callee, admission: Admission) -> None:
    """Limit a request as the egress rule of its target says."""
    if isinstance(callee, HttpCallee):
        callee.most_bytes = admission.most_bytes


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


def _check_fits(conn: AsyncConnection[Any], parameter: Json) -> None:
    """Check that the database's encoding can represent what a tool writes.

    Raises:
        ToolFailedError: it cannot; nothing was written.
    """
    encoding = conn.info.parameter_status("server_encoding") or "UTF8"
    if (letter := misfit(parameter, encoding)) is not None:
        raise ToolFailedError(
            f"encoding {encoding} of the database cannot represent {letter!r}",
            sqlstate="22P05",
        )


def _said(error: Error) -> str:
    """Return PostgreSQL's primary message, without its detail, which can quote a row."""
    words = error.diag.message_primary or str(error).strip() or type(error).__name__
    return f"{words} (SQLSTATE {error.sqlstate})" if error.sqlstate else words


def _clock() -> float:
    """Return seconds that also pass while the process or the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _text(result: object) -> str:
    text = result if isinstance(result, str) else orjson.dumps(result, default=str).decode()
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:_MOST_TEXT]


def _asked(arguments: Mapping[str, Json]) -> str:
    """Return what a model is asked: one text as it is, several arguments as JSON."""
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return orjson.dumps(arguments, option=orjson.OPT_INDENT_2).decode()
