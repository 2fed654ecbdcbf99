"""Carrying out a tool call, so that its effect and its step are one.

SQL function, update_row     one statement: fence, tag, role, call, step
query                        read-only, as a role that can only read; the rows recorded
Python, transactional        one transaction around the function
Python, outside; MCP         intent recorded; the call; result recorded

What is a transaction is carried out again for a moment where somebody else's was in the way.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import orjson
from psycopg import AsyncConnection, Error
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb

from walagent import faults
from walagent.agent.loop import RunTool
from walagent.agent.tools.callee import Callee, NoServers, Servers
from walagent.agent.tools.python import PythonTool, ToolContext
from walagent.agent.tools.statements import bound, statement_of
from walagent.agent.transcript import result_to_json
from walagent.attachment import Attachment
from walagent.encodings import misfit
from walagent.errors import (
    OutcomeUnknownError,
    StepBrokenError,
    ToolBrokenError,
    ToolFailedError,
    WalagentError,
)
from walagent.guard.query import Limits
from walagent.message import Json, ToolCall
from walagent.run import Claim, StepKind
from walagent.runs.awake_timeout import awake_for
from walagent.runs.backoff import brief
from walagent.runs.query_tool import LIMITS, answer_query
from walagent.runs.tool_slots import Gate
from walagent.store import runs
from walagent.store.connections import Pool
from walagent.store.errors import is_conflict, is_passing
from walagent.store.runs import NewStep
from walagent.tool import Effect, Tool

# Seconds for which a call is tried again while others are in the way.  Their transactions are
# short as a rule; where one is not, the run waits without a slot.
_PATIENCE = 2.0
_MARGIN = 5.0  # seconds after a tool's time in which its transaction must go on
_LONG = 1.0  # seconds; a heartbeat makes up for less
_MOST_TEXT = 65_536  # characters of a result that are kept


class Toolbox:
    """Carries out the calls of runs.  Each method records what it did and returns the steps."""

    def __init__(
        self,
        pool: Pool,
        python: Mapping[str, PythonTool],
        reading: Limits = LIMITS,
        servers: Servers | None = None,
    ) -> None:
        """Take what tools are carried out with.

        Args:
            python: by target.
            reading: of the statements that models write.
            servers: carry out the tools of MCP servers.
        """
        self._pool = pool
        self._python = python
        self._reading = reading
        self._servers = servers or NoServers()
        self._gate = Gate(pool.max_size)

    async def carry_out(
        self, claim: Claim, attachment: Attachment, seq: int, move: RunTool
    ) -> list[NewStep]:
        """Carry a call out and record it.

        Raises (also as PostgreSQL errors):
            LeaseLostError, StepTakenError, RunCancelledError: leave the run.
            DatabaseLostError: again later.
            ConflictError: somebody else was in the way for long.
            RoleRefusedError: nothing can be done as the attachment's role.
            BrokenAttachmentError: the tool fails because the attachment is not what it was.
            StepBrokenError: the tool has ended the step's transaction.
        """
        tool, call = move.tool, move.call
        arguments = bound(tool, call, claim.change)
        if tool.target == "do_nothing":
            return [await self._record(claim, seq, result_to_json(call, "ok", is_error=False))]
        try:
            outside = tool.effect in {Effect.IDEMPOTENT, Effect.UNSAFE}
            if tool.kind == "mcp" or (tool.kind == "python" and outside):
                return await self._outside(claim, seq, move, arguments)
            return [
                await self._insist(
                    attachment,
                    lambda: self._inside_call(claim, attachment, seq, move, arguments),
                    min(_PATIENCE, tool.timeout / 2),
                )
            ]
        except TimeoutError:
            text = f"{tool.name} did not end within {tool.timeout:g} s and was taken back"
            return [await self._record(claim, seq, result_to_json(call, text, is_error=True))]
        except ToolFailedError as error:
            return [await self._record(claim, seq, result_to_json(call, str(error), is_error=True))]

    def _inside_call(
        self,
        claim: Claim,
        attachment: Attachment,
        seq: int,
        move: RunTool,
        arguments: Mapping[str, Json],
    ) -> Awaitable[NewStep]:
        """Carry out a call that stays in the database."""
        tool, call = move.tool, move.call
        if tool.kind == "python":
            return self._python_call(claim, attachment, seq, move, arguments)
        if tool.target == "query" and tool.kind == "builtin":
            return self._query(claim, attachment, seq, move, arguments)
        return self._sql_call(claim, attachment, seq, tool, call, arguments)

    async def _query(
        self,
        claim: Claim,
        attachment: Attachment,
        seq: int,
        move: RunTool,
        arguments: Mapping[str, Json],
    ) -> NewStep:
        """Read what the model asks for, and record it: two transactions, the first read-only."""
        async with self._within(attachment, move.tool) as conn:
            faults.hit("tool.started")
            content = await answer_query(
                conn, move.tool, move.call, attachment, arguments, self._reading
            )
        faults.hit("tool.done")
        return await self._record(claim, seq, content)

    async def _record(self, claim: Claim, seq: int, content: Mapping[str, Json]) -> NewStep:
        step = NewStep(seq, StepKind.RESULT, content)
        async with self._pool.connection() as conn:
            await runs.record_step(conn, claim, step)
        return step

    async def _insist(
        self,
        attachment: Attachment,
        carry_out: Callable[[], Awaitable[NewStep]],
        patience: float,
    ) -> NewStep:
        """Carry a transaction out; again where others are in the way, for *patience* seconds.

        Between two tries nothing is held.
        """
        started = time.monotonic()
        for attempt in count(1):
            try:
                step = await carry_out()
            except Error as error:
                if not is_conflict(error):
                    raise
                self._gate.jam(attachment.id, jammed=True)
                if time.monotonic() - started > patience:
                    raise
            else:
                self._gate.jam(attachment.id, jammed=False)
                return step
            await asyncio.sleep(brief(attempt))
        raise AssertionError("count() has no end")

    @asynccontextmanager
    async def _within(
        self, attachment: Attachment, tool: Tool
    ) -> AsyncGenerator[AsyncConnection[Any]]:
        """Give a connection for as long as a tool may take.

        Its time begins with the connection: that the database was away is not its fault.
        """
        async with (
            self._gate.place(attachment.id),
            self._pool.connection() as conn,
            awake_for(tool.timeout),
        ):
            yield conn

    async def _sql_call(  # noqa: PLR0913, PLR0917 - run, attachment, place and call
        self,
        claim: Claim,
        attachment: Attachment,
        seq: int,
        tool: Tool,
        call: ToolCall,
        arguments: Mapping[str, Json],
    ) -> NewStep:
        text, parameter = statement_of(tool, attachment, arguments, claim.change)
        async with self._within(attachment, tool) as conn:
            _check_fits(conn, parameter)
            faults.hit("tool.started")
            cursor = await conn.execute(
                "select agent_internal.call_tool(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    claim.run_id,
                    claim.lease,
                    seq,
                    call.id,
                    call.name,
                    attachment.authority.run_as,
                    text,
                    Jsonb(parameter),
                    attachment.authority.search_path,
                    tool.kind == "builtin",
                    attachment.target.relation_oid if tool.kind == "builtin" else None,
                ],
            )
            row = await cursor.fetchone()
        faults.hit("tool.committed")
        return NewStep(seq, StepKind.RESULT, row[0] if row else {})

    async def _python_call(
        self,
        claim: Claim,
        attachment: Attachment,
        seq: int,
        move: RunTool,
        arguments: Mapping[str, Json],
    ) -> NewStep:
        function = self._function(move.tool)
        async with self._within(attachment, move.tool) as conn, conn.transaction():
            faults.hit("tool.started")
            rest, started = move.tool.timeout + _MARGIN, time.monotonic()
            transaction = await runs.begin_write(conn, claim, rest)
            content = await self._inside(conn, claim, attachment, move.call, function, arguments)
            if await runs.clean_session(conn) != transaction:
                raise _broken(move.call)
            faults.hit("tool.done")
            step = NewStep(seq, StepKind.RESULT, content)
            await runs.record_step(conn, claim, step)
            if (took := time.monotonic() - started) > _LONG:
                await runs.prolong(conn, claim, took)
            faults.hit("tool.recorded")
        faults.hit("tool.committed")
        return step

    async def _prepared(self, move: RunTool) -> Callee:
        """Give what carries a call out, ready for it; nothing is begun, so there is no intent."""
        tool = move.tool
        try:
            found = self._servers.callee(tool) if tool.kind == "mcp" else self._function(tool)
            await found.prepare()
        except ToolFailedError as error:
            if not move.again:
                raise
            raise ToolFailedError(f"{error}; the attempt before may have acted") from error
        return found

    def _function(self, tool: Tool) -> PythonTool:
        if (function := self._python.get(tool.target)) is None:
            raise ToolFailedError(f"{tool.target} is not installed on this worker")
        return function

    async def _inside(  # noqa: PLR0913, PLR0917 - as above, and the open transaction
        self,
        conn: AsyncConnection[Any],
        claim: Claim,
        attachment: Attachment,
        call: ToolCall,
        function: PythonTool,
        arguments: Mapping[str, Json],
    ) -> dict[str, Json]:
        """Call a function on the step's own transaction; what it raises leaves nothing behind."""
        context = ToolContext(conn, _key(claim, call), claim.run_id, claim.change)
        began = False
        try:
            async with conn.transaction():  # a savepoint
                await runs.become(
                    conn, attachment.authority.run_as, attachment.authority.search_path
                )
                began = True
                text = _text(await function.call(context, arguments))
                await conn.execute("set constraints all immediate")
                await conn.execute("reset role")
        except Error as error:
            if not began or is_passing(error):
                raise
            if conn.info.transaction_status is not TransactionStatus.INTRANS:
                raise _broken(call) from error
            return {
                **result_to_json(call, _said(error), is_error=True),
                **({"sqlstate": error.sqlstate} if error.sqlstate else {}),
            }
        except WalagentError as error:
            return result_to_json(call, str(error)[:_MOST_TEXT], is_error=True)
        return result_to_json(call, text, is_error=False)

    async def _outside(
        self,
        claim: Claim,
        seq: int,
        move: RunTool,
        arguments: Mapping[str, Json],
    ) -> list[NewStep]:
        """Record the intent, act, record the result: a crash between them is seen afterwards.

        So is a call that did not end in time: nobody knows whether it acted.
        """
        call, steps = move.call, list[NewStep]()
        callee = await self._prepared(move)
        if not move.again:
            content = {"call_id": call.id, "name": call.name, "idempotency_key": _key(claim, call)}
            intent = NewStep(seq, StepKind.INTENT, content)
            async with self._pool.connection() as conn:
                await runs.record_step(conn, claim, intent)
            steps.append(intent)
        faults.hit("tool.started")
        context = ToolContext(None, _key(claim, call), claim.run_id, claim.change)
        try:
            async with awake_for(move.tool.timeout):
                text = _text(await callee.call(context, arguments))
            result = result_to_json(call, text, is_error=False)
        except (TimeoutError, OutcomeUnknownError) as error:
            if not move.again:
                return steps
            text = str(error) or f"{move.tool.name} did not end within {move.tool.timeout:g} s"
            result = result_to_json(call, f"{text}; it may have acted", is_error=True)
        except ToolFailedError as error:
            result = result_to_json(call, str(error)[:_MOST_TEXT], is_error=True)
        except Error as error:  # of a connection of its own, which says nothing about ours
            raise ToolBrokenError(f"{move.tool.name} raised {_said(error)}") from error
        faults.hit("tool.done")
        steps.append(await self._record(claim, seq + len(steps), result))
        return steps


def _check_fits(conn: AsyncConnection[Any], parameter: Json) -> None:
    """See that the database can hold what a tool is to write, letter by letter.

    Raises:
        ToolFailedError: not this letter; nothing was written.
    """
    encoding = conn.info.parameter_status("server_encoding") or "UTF8"
    if (letter := misfit(parameter, encoding)) is not None:
        raise ToolFailedError(
            f"the database's encoding {encoding} has no {letter!r}: write it without",
            sqlstate="22P05",
        )


def _broken(call: ToolCall) -> StepBrokenError:
    return StepBrokenError(
        f"{call.name} has ended the transaction of its step: what it wrote may stand",
        hint="a tool must neither commit nor roll back; look at what it did before a retry",
    )


def _said(error: Error) -> str:
    """Tell PostgreSQL's sentence without its detail, which may quote a row."""
    words = error.diag.message_primary or str(error).strip() or type(error).__name__
    return f"{words} (SQLSTATE {error.sqlstate})" if error.sqlstate else words


def _key(claim: Claim, call: ToolCall) -> str:
    """The same for every attempt at this call, and for no other."""
    return f"walagent-{claim.run_id}-{call.id}"


def _text(result: object) -> str:
    text = result if isinstance(result, str) else orjson.dumps(result, default=str).decode()
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:_MOST_TEXT]
