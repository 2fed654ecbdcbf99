"""The kind of runs in which an agent takes part in a thread.

The thread is read when the turn starts: whether its rule still wakes the agent, and what the model
is shown, follow from the rows of that moment.  Both are recorded as the first step.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from walagent.deciders.loop import since_retry
from walagent.deciders.turn import SUMMARIZER, TurnDecider, pinned_of, upto_of
from walagent.domain.agent_spec import Finish
from walagent.domain.run import RunSpec, RunState, Step, StepKind
from walagent.domain.thread import ThreadView
from walagent.domain.transcript import reply_from_json
from walagent.domain.untrusted import marker
from walagent.errors import LeaseLostError, ToolBrokenError
from walagent.message import Json
from walagent.moves import Connection, End, Kind, fail
from walagent.runs.interrupts import Interrupts
from walagent.runs.kinds.meanwhile import Meanwhile
from walagent.runs.rendering.thread_burn import render_burn
from walagent.runs.rendering.thread_json import render_for_summary, render_json
from walagent.runs.rendering.thread_template import TemplateError, render_template
from walagent.runs.tools.toolbox import Toolbox
from walagent.store import runs, tool_calls, turns
from walagent.store.codecs.decoded_rows import by_documents
from walagent.store.runs import NewStep
from walagent.store.sessions.connections import Pool
from walagent.store.trampolines import through_trampolines
from walagent.tools.thread_functions import PREFIX, ThreadFunction

_TOKENS = 24_000  # of the events in a prompt
_BYTES = 4  # of a token
_CORRECTIONS = 3
_FUNCTION = 30.0  # seconds of a function in Python
# An event as the condition of an attachment sees it.
_EVENT = {
    "tenant": "text", "thread_id": "uuid", "number": "bigint", "id": "uuid", "type": "text",
    "author": "name", "data": "jsonb", "run_id": "bigint", "created_at": "timestamptz",
}  # fmt: skip
_CALL = "select {function}(($1 ->> 'thread')::uuid, ($1 ->> 'seen')::bigint)::text"
_ASLEEP = "the wake rule does not hold now"


def turn_kind(pool: Pool, toolbox: Toolbox, secret: bytes, interrupts: Interrupts) -> Kind:
    """Create the kind `turn`.

    Args:
        interrupts: where notifications of interruptions arrive.
        secret: agent_internal.secret, which the markers of data blocks are derived from.
    """
    turn = _Turns(pool, toolbox, secret)
    while_on = Meanwhile(pool, secret, interrupts, _size)
    return Kind(
        TurnDecider(),
        toolbox,
        opens=turn.open,
        on_end=turn.end,
        takes_in=while_on.take_in,
        unwanted=while_on.interrupted,
        on_cut=while_on.cut,
    )


class _Turns:
    def __init__(self, pool: Pool, toolbox: Toolbox, secret: bytes) -> None:
        self._pool = pool
        self._calls = toolbox.calls
        self._secret = secret
        self._functions = toolbox.services.functions

    async def open(self, run: RunSpec) -> RunSpec | End:
        """Ask the wake rule on fresh rows, render the context, and record both as a step."""
        run = replace(
            run,
            agent=replace(
                run.agent, limits=replace(run.agent.limits, max_corrections=_CORRECTIONS)
            ),
        )
        if run.claim.reason == "summary":
            return await self._open_summary(run)
        if run.claim.steps:
            return run
        how, size = run.turns or {}, _size(run)
        async with self._pool.connection() as conn:
            view = ThreadView.from_json(await turns.look(conn, run.claim, size), size // 2)
        if view is None or view.seen is None:
            return _skipped(f'agent "{run.agent.name}" is not a member of the thread')
        if not await self._is_woken(run, how, view):
            return _skipped(_ASLEEP, view.last)
        try:
            context = await self._context(run, how, view)
        except TemplateError as error:
            return fail(f"template: {error}")
        content: dict[str, Json] = {
            "turn": {
                "context": context,
                "instructions": list(view.instructions),
                "seen": view.seen,
                "upto": view.last,
            }
        }
        async with self._pool.connection() as conn:
            refusal = await turns.begin(conn, run.claim, content)
        if refusal == "paused":
            raise LeaseLostError(f"run {run.run_id} waits until its thread is resumed")
        if refusal is not None:
            return _skipped(refusal)
        begun = Step(0, StepKind.NOTE, content)
        return replace(run, claim=replace(run.claim, steps=(begun,)))

    async def end(self, conn: Connection, run: RunSpec, steps: Sequence[Step], end: End) -> None:
        """Post the answer, and store what the agent has seen."""
        seen = end.about.get("seen")
        if end.state is RunState.SUCCEEDED and run.claim.reason == "summary":
            upto = pinned_of(steps)["upto"]
            await turns.store_summary(conn, run.claim, _answer(steps) or "", upto)
        elif end.state is RunState.SUCCEEDED:
            await turns.end(conn, run.claim, _answer(steps), upto_of(steps), _size(run))
        elif seen is not None:
            await turns.end(conn, run.claim, None, int(str(seen)))

    async def _open_summary(self, run: RunSpec) -> RunSpec | End:
        """Let the agent's model summarize older events: without tools, as an agent of its own."""
        agent = replace(
            run.agent,
            system_prompt=SUMMARIZER,
            tools=(),
            tool_choice="auto",
            examples=(),
            finish=Finish.ANSWER,
        )
        run = replace(run, agent=agent)
        if run.claim.steps:
            return run
        async with self._pool.connection() as conn:
            size = _size(run)
            view = ThreadView.from_json(await turns.look_summary(conn, run.claim, size), size // 2)
        if view is None or not view.events:
            return _skipped("the events are summarized, or gone")
        context = render_for_summary(view, marker(self._secret, run.run_id))
        content: dict[str, Json] = {
            "turn": {
                "context": context,
                "instructions": [],
                "seen": view.summary_upto,
                "upto": view.events[-1].number,
            }
        }
        step = NewStep(0, StepKind.NOTE, content)
        async with self._pool.connection() as conn:
            await runs.record_step(conn, run.claim, step)
        return replace(run, claim=replace(run.claim, steps=(step.recorded,)))

    async def _is_woken(self, run: RunSpec, how: Mapping[str, Any], view: ThreadView) -> bool:
        condition, function = how.get("condition"), how.get("wake_function")
        if condition is None and function is None:
            return any(event.type == "text" and not event.is_by_agent for event in view.new)
        if condition is not None:
            text = by_documents(str(condition), _EVENT, given="$1").decode()
            found = await self._read(run, text, _documents(view, run))
            if not any(verdict for _, verdict, *_ in orjson.loads(found or "[]")):
                return False
        if function is None:
            return True
        if not str(function).startswith(PREFIX):
            return await self._asked(run, str(function), view) == "true"
        return bool(await self._called(str(function), view, bool))

    async def _context(self, run: RunSpec, how: Mapping[str, Any], view: ThreadView) -> str:
        if (template := how.get("template")) is not None:
            return await render_template(str(template), view)
        if (function := how.get("context")) is not None:
            if str(function).startswith(PREFIX):
                return str(await self._called(str(function), view, str))
            return await self._asked(run, str(function), view) or ""
        if how.get("format") == "burn":
            return render_burn(view)
        return render_json(view, marker(self._secret, run.run_id))

    async def _called(self, name: str, view: ThreadView, kind: type) -> object:
        """Call a function in Python.

        Raises:
            ToolBrokenError: it raised an error, returned something else, or is not in this worker.
        """
        function: ThreadFunction | None = self._functions.get(name.removeprefix(PREFIX))
        if function is None:
            raise ToolBrokenError(
                f'function "{name}" is not on this worker',
                hint="Declare it with @thread_function in a module of tools.modules.",
            )
        try:
            async with asyncio.timeout(_FUNCTION):
                found = await function(view)
        except Exception as error:
            raise ToolBrokenError(f'function "{name}" raised {error!r}') from error
        if not isinstance(found, kind):
            raise ToolBrokenError(f'function "{name}" returned {found!r:.100}, not {kind.__name__}')
        return found

    async def _asked(self, run: RunSpec, function: str, view: ThreadView) -> str | None:
        """Call a function of the attachment."""
        text = _CALL.format(function=function.removeprefix("sql:"))
        return await self._read(run, text, {"thread": view.id, "seen": view.seen})

    async def _read(self, run: RunSpec, text: str, arguments: Json) -> str | None:
        async with self._calls.connection(run.actor) as conn:
            role = run.authority.run_as
            return await through_trampolines(
                lambda: tool_calls.read_as(conn, role, text, arguments, run=run.run_id),
                self._pool.connection,
                role=role,
            )


def _size(run: RunSpec) -> int:
    """Bytes of the events that a prompt has room for."""
    return int((run.turns or {}).get("max_context_tokens", _TOKENS)) * _BYTES


def _documents(view: ThreadView, run: RunSpec) -> list[dict[str, Json]]:
    """The events that the agent has not seen, as rows of agent.event."""
    tenant = run.claim.change["new"]["tenant"]
    return [
        {
            "n": n,
            "new": {
                "tenant": tenant,
                "thread_id": view.id,
                "number": event.number,
                "id": event.id,
                "type": event.type,
                "author": event.author,
                "data": orjson.loads(orjson.dumps(event.data, default=str)),
                "run_id": event.run_id,
                "created_at": event.created_at,
            },
        }
        for n, event in enumerate(view.new)
    ]


def _skipped(reason: str, seen: int | None = None) -> End:
    return End(RunState.SKIPPED, reason=reason, about={} if seen is None else {"seen": seen})


def _answer(steps: Sequence[Step]) -> str | None:
    """The text of the last reply, if it is one; beside a call, it is not addressed to anyone."""
    last = next((s for s in reversed(since_retry(steps)) if s.kind is StepKind.REPLY), None)
    reply = None if last is None else reply_from_json(last.content)
    if reply is None or reply.calls or not reply.text.strip():
        return None
    return reply.text.strip()
