"""Calls outside the database: the intent is recorded before, the result after."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import orjson
from psycopg import Error

from walagent.base import faults
from walagent.base.retries import delay
from walagent.domain.run import StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import result_to_json
from walagent.errors import (
    ModelRejectedError,
    OutcomeUnknownError,
    ToolBrokenError,
    ToolFailedError,
)
from walagent.message import Json
from walagent.moves import ToolReply, ToolRequest
from walagent.runs.awake_timeout import awake_for
from walagent.runs.tools.admission import Admission, RefusedResult
from walagent.runs.tools.builtin_tools import Services
from walagent.runs.tools.steps import ToolSteps
from walagent.runs.tools.work import Work, failed, said, text_of
from walagent.store import builtins
from walagent.store.runs import NewStep
from walagent.store.sessions.connections import Pool
from walagent.tools.callee import Callee, NoServers, Servers
from walagent.tools.http import HttpCallee
from walagent.tools.python import PythonTool, ToolContext

_MOST_TOKENS = 2048  # of the answer of a tool that is a model


class OutsideCalls:
    """Calls what is outside the database."""

    def __init__(  # noqa: PLR0913 - what the kinds of tools need
        self,
        pool: Pool,
        steps: ToolSteps,
        *,
        python: Mapping[str, PythonTool],
        servers: Servers | None,
        http: Servers | None,
        services: Services,
    ) -> None:
        """Take what is called; the parameters are those of `Toolbox`."""
        self._pool = pool
        self._steps = steps
        self._python = python
        self._servers = servers or NoServers()
        self._http = http or NoServers()
        self._services = services

    async def call(self, work: Work) -> list[NewStep]:
        """Record the intent, call, record the result.

        After a crash between them, a timeout or an error of the server, the outcome is unknown.
        If the call can be repeated, that is after a pause: the server might be overloaded.
        """
        claim, call, again, steps = work.run.claim, work.call, work.again, list[NewStep]()
        callee = await self._prepared(work)
        admission = await self._steps.announce(work)
        if admission.refused is not None:
            return [NewStep(work.seq, StepKind.RESULT, admission.refused)]
        work = replace(work, admission=admission)
        _limit(callee, admission)
        if not again:
            steps.append(_intent(work))
        context = ToolContext(None, admission.key, claim.run_id, claim.last)
        try:
            async with awake_for(work.tool.timeout):
                text = text_of(await callee.call(context, work.arguments))
            result = result_to_json(call, text, is_error=False)
        except (TimeoutError, OutcomeUnknownError) as error:
            if not again:
                if work.tool.effect is Effect.IDEMPOTENT:
                    await asyncio.sleep(delay(1))
                return steps
            text = str(error) or f"{work.tool.name} did not end within {work.tool.timeout:g} s"
            result = failed(call, f"{text}; it may have acted")
        except ToolFailedError as error:
            result = failed(call, str(error))
        except Error as error:  # of a connection of the tool
            raise ToolBrokenError(f"{work.tool.name} raised {said(error)}") from error
        faults.hit("tool.done")
        work = replace(work, seq=work.seq + len(steps))
        try:
            result = await self._steps.judge(work, result)
        except ToolFailedError as error:
            result = failed(call, str(error))
        except RefusedResult as refused:
            result = refused.content
        steps.append(await self._steps.record(work, result))
        return steps

    async def ask_model(self, work: Work) -> list[NewStep]:
        """Record the intent, ask the model, record its answer with what that used."""
        admission = await self._steps.announce(work)
        if admission.refused is not None:
            return [NewStep(work.seq, StepKind.RESULT, admission.refused)]
        work = replace(work, admission=admission)
        tool, call, steps = work.tool, work.call, list[NewStep]()
        if not work.again:
            steps.append(_intent(work))
        work = replace(work, seq=work.seq + len(steps))
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
            result = result_to_json(call, text_of(reply.text), is_error=False)
            result = {**await self._steps.judge(work, result), "registered": reply.model}
        except (TimeoutError, ModelRejectedError, ToolFailedError) as error:
            text = str(error) or f"{tool.name} did not answer within {tool.timeout:g} s"
            result = failed(call, text)
        except RefusedResult as refused:
            result = refused.content
        faults.hit("tool.done")
        return [*steps, await self._steps.record(work, result, reply)]

    async def read(self, work: Work) -> NewStep:
        """Execute a built-in tool that reads outside the database, and record its result."""
        callee = self.callee(work.tool)
        context = ToolContext(None, "", work.run.run_id, work.run.claim.last)
        faults.hit("tool.started")
        try:
            async with awake_for(work.tool.timeout):
                text = text_of(await callee.call(context, work.arguments))
            content = result_to_json(work.call, text, is_error=False)
        except ToolFailedError as error:
            content = failed(work.call, str(error))
        faults.hit("tool.done")
        return await self._steps.record(work, await self._steps.judge(work, content))

    async def _prepared(self, work: Work) -> Callee:
        """Return the prepared callee of a call; nothing has started, so no intent is needed."""
        tool = work.tool
        try:
            found = self.callee(tool)
            await found.prepare()
        except ToolFailedError as error:
            if not work.again:
                raise
            raise ToolFailedError(f"{error}; the attempt before may have acted") from error
        return found

    def callee(self, tool: Tool) -> Callee:
        """Return what a call of a tool reaches."""
        match tool.kind:
            case "mcp":
                return self._servers.callee(tool)
            case "http":
                return self._http.callee(tool)
            case "builtin":
                return self._services.callee(tool, self._tenant_of)
            case _:
                return self.function(tool)

    def function(self, tool: Tool) -> PythonTool:
        """Return the function of a tool in Python.

        Raises:
            ToolFailedError: this process has not imported it.
        """
        if (function := self._python.get(tool.target)) is None:
            raise ToolFailedError(f"{tool.target} is not installed on this worker")
        return function

    async def _tenant_of(self, run_id: int) -> str:
        async with self._pool.connection() as conn:
            return await builtins.tenant_of(conn, run_id)


def _intent(work: Work) -> NewStep:
    """Return the step that the database recorded when it admitted a call."""
    call, key = work.call, work.admission.key
    content = {"call_id": call.id, "name": call.name, "idempotency_key": key}
    return NewStep(work.seq, StepKind.INTENT, content)


def _limit(callee: Callee, admission: Admission) -> None:
    """Limit a request as the egress rule of its target says."""
    if isinstance(callee, HttpCallee):
        callee.most_bytes = admission.most_bytes


def _asked(arguments: Mapping[str, Json]) -> str:
    """Return what a model is asked: one text as it is, several arguments as JSON."""
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return orjson.dumps(arguments, option=orjson.OPT_INDENT_2).decode()
