"""Execute one run from its claim to its end: decide, act, record, repeat.

The kind's decider chooses the next move from the recorded steps; the moves of all kinds are
executed here.  No transaction or connection is held during a model call.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from walagent.base import faults
from walagent.base.retries import DATABASE, seconds
from walagent.domain.run import RunSpec, RunState, Step, StepKind
from walagent.domain.transcript import CUT_OFF, reply_from_json
from walagent.errors import (
    DatabaseLostError,
    RunCancelledError,
    StepTakenError,
    WalagentError,
)
from walagent.message import Json, ModelSpec, Reply
from walagent.models.batches import Batches
from walagent.models.cost import cost_of
from walagent.moves import (
    Act,
    Acting,
    Ask,
    Asking,
    Call,
    End,
    Kind,
    Move,
    Note,
    Prompt,
    Recorded,
    RunEvent,
    Wait,
    fail,
)
from walagent.runs.batching import Batching, reply_in
from walagent.runs.live_replies import cut_reply, private, wanted
from walagent.runs.metering import agent_of, count_usage
from walagent.runs.model_calls import ModelCalls, as_float, in_tier
from walagent.runs.reply_steps import content_of, kind_of
from walagent.runs.reservation import Reservations
from walagent.runs.resources import Resources
from walagent.runs.sharing import Sharing
from walagent.runs.step_log import StepLog
from walagent.runs.tools.admission import ApprovalNeeded
from walagent.store import runs
from walagent.store.calls.batched_calls import FromBatch
from walagent.store.calls.shared_calls import Shared
from walagent.store.errors import translating
from walagent.store.runs import NewStep, Record
from walagent.telemetry import metrics

T = TypeVar("T")


class Executor:
    """Executes one claimed run."""

    def __init__(
        self,
        resources: Resources,
        run: RunSpec,
        watch: Callable[[RunEvent], None] = lambda _: None,
    ) -> None:
        """Take the run.

        Args:
            watch: called with each event.
        """
        self._resources = resources
        self._kind: Kind = resources.kinds[run.claim.kind]
        self._run = run
        self._watch = watch
        self.log = StepLog(resources.pool, run.claim)
        self.reservations = Reservations(
            resources.pool, resources.budgets, run, self.log, self._kind.patience
        )
        self._calls = ModelCalls(resources, run, self.reservations, self._kind.patience)
        self.log.ask_through(self._calls.ask_for_tool)
        self.sharing = Sharing(resources, self.log)
        self._batching = Batching(resources, self.log)
        self.due: float | None = None  # seconds after which the run can be claimed again
        self.ended: End | None = None
        self.unblocked = False  # whether the end of this run made another one claimable

    async def execute(self) -> RunState:
        """Execute until the run ends or waits; return its state."""
        opened = await self._kind.opens(self._run)
        if isinstance(opened, End):
            return await self._end(opened)
        begins = not self._run.claim.steps  # what it opened with is of this moment
        self._run = self._calls.run = opened
        self.log.adopt(opened.claim.steps)
        takes = self._kind.takes_in
        while True:
            move = self._next()
            if takes and isinstance(move, Ask) and not begins and await takes(self._run, self.log):
                continue
            begins = False
            if (state := await self._carry_out(move)) is not None:
                return state

    @property
    def _agent(self) -> str:
        return agent_of(self._run)

    def _tool(self, result: Mapping[str, Json]) -> str:
        """The tool of a refused call for metrics: a model can call what does not exist."""
        known = {tool.name for tool in self._run.agent.tools}
        return str(result["name"]) if result.get("name") in known else ""

    def _next(self) -> Move:
        return self._kind.decider.next_move(self._run, self.log.steps)

    async def _carry_out(self, move: Move) -> RunState | None:
        match move:
            case Ask(prompts):
                asked = self._numbered(prompts)
                return await _side_by_side([self._ask_or_fall_back(*each) for each in asked])
            case Act(calls):
                return await _side_by_side([self._act(call) for call in calls])
            case Note(kind, content):
                if kind is StepKind.RESULT:
                    outcome = "invalid" if content.get("correction") else "refused"
                    metrics.tool_calls.labels(self._agent, self._tool(content), outcome).inc()
                await self.log.record(kind, content)
            case Wait():
                return await self._wait(move)
            case End():
                return await self._end(move)
        return None

    # Ask.

    def _numbered(self, prompts: Sequence[Prompt]) -> Iterator[tuple[Prompt, int, bool]]:
        """Yield each prompt with the number of its call, and whether it is the only one.

        The number of a single call is that of its step.
        """
        for number, prompt in enumerate(prompts, self.log.seq):
            yield prompt, number, len(prompts) == 1

    async def _ask_or_fall_back(self, prompt: Prompt, number: int, alone: bool) -> RunState | None:  # noqa: FBT001
        """Ask; if the model is out and another one may be asked, record that it is."""
        try:
            return await self._ask(prompt, number, alone)
        except WalagentError as error:
            if (note := self._calls.note_of(error, prompt)) is None:
                raise
        await self.reservations.release(number)
        state = await self._carry_out(note)
        await self.sharing.end()
        return state

    async def _ask(self, prompt: Prompt, number: int, alone: bool) -> RunState | None:  # noqa: FBT001
        """Ask, then record.  The last reply is recorded with the end of the run."""
        tenant = self._run.claim.tenant
        model = self._resources.model_of(prompt.model or self._run.agent.model, tenant)
        others = self._calls.instead(prompt)
        shared = await self.sharing.find(self._run, prompt, model.spec) if alone else None
        if shared is not None:
            return await self._reuse(shared, prompt)
        batches = self._batching.of(self._run, prompt, model) if alone else None
        if batches is not None:
            found = await self._batching.find(self._run, number)
            if found is not None:
                return await self._answered_in_batch(found, batches, prompt, model.spec)
        self._watch(Asking(prompt))
        await self._calls.pace()
        rendered = await self._kind.decider.render(self._run, self.log.steps, prompt, model.spec)
        request = in_tier(rendered, prompt, model.spec)
        specs = [each.spec for each in (model, *others)]
        reserved = await self.reservations.reserve(number, specs, request)
        request = reserved.request
        call = number if reserved.counted else None
        if batches is not None:
            await self._batching.wait(self._run, number, call, model.spec, batches, request)
            return RunState.WAITING_RETRY
        with self._resources.replies.writing(self._run) as live:
            faults.hit("model.asking")
            started = time.monotonic()
            said = live or private(self._run)
            asking = self._calls.answer(model, request, call, said, alone=prompt.alone)
            reply = await wanted(asking, self._kind, self._run, self.log.steps)
            cut_off = reply is None
            reply = reply or cut_reply(said, request, model.spec)
            faults.hit("model.answered")
            cost = cost_of(reply.usage, model.spec, reply.tier)
            count_usage(self._agent, model.spec.name, reply.usage, cost)
            content = content_of(self._run, prompt, request, reply, model.spec)
            took = int((time.monotonic() - started) * 1000)
            if cut_off:
                content[CUT_OFF] = True
            async with self.log.recording:
                seq = self.log.seq
                step = NewStep(seq, kind_of(reply), content, reply.usage, as_float(cost), took)
                answer = _Answer(prompt, reply, step, call)
                state = await self._keep(answer, may_end=alone)
            await self.sharing.end()
            return state

    async def _reuse(self, shared: Shared, prompt: Prompt) -> RunState | None:
        """Record the reply of another run as a step of this one, or leave this run, which waits.

        The calls in it are this run's: bound arguments come from its own row.
        """
        if shared.content is None:
            self.due = shared.wait
            return RunState.WAITING_RETRY
        async with self.log.recording:
            step = self.sharing.step_of(shared)
            reply = reply_from_json(step.content)
            return await self._keep(_Answer(prompt, reply, step, None), may_end=True)

    async def _answered_in_batch(
        self, found: FromBatch, batches: Batches, prompt: Prompt, model: ModelSpec
    ) -> RunState | None:
        """Record the reply of a batch, which is charged already; without one, ask directly."""
        if found.wait:
            return RunState.WAITING_RETRY
        request = await self._kind.decider.render(self._run, self.log.steps, prompt, model)
        reply = reply_in(found, batches, request)
        if isinstance(reply, Note):
            state = await self._carry_out(reply)
        else:
            cost = cost_of(reply.usage, model, reply.tier)
            count_usage(self._agent, model.name, reply.usage, cost)
            content = content_of(self._run, prompt, request, reply, model)
            content |= {"batch": found.batch}
            async with self.log.recording:
                seq = self.log.seq
                step = NewStep(seq, StepKind.REPLY, content, reply.usage, as_float(cost))
                state = await self._keep(_Answer(prompt, reply, step, None), may_end=True)
            await self._batching.used(self._run, seq)
        await self.sharing.end()
        return state

    async def _keep(self, answer: "_Answer", *, may_end: bool) -> RunState | None:
        step = answer.step
        if may_end:
            then = self._kind.decider.next_move(self._run, self.log.with_next(step.recorded))
            if isinstance(then, End):
                self.log.append(step.recorded)
                return await self._end(then, last=step)
        try:
            await self._store(lambda: self._record(answer))
        except RunCancelledError as error:
            self.log.append(step.recorded)
            return await self._end(End(RunState.CANCELLED, reason=str(error)), last=step)
        self.log.append(step.recorded)
        self.reservations.settled(answer.call)
        self._watch(Recorded(step.recorded, answer.prompt))
        faults.hit("step.recorded")
        return None

    async def _record(self, answer: "_Answer") -> None:
        claim, step, call = self._run.claim, answer.step, answer.call
        reserved, on_reply = call is not None, self._kind.on_reply
        on_cut = self._kind.on_cut if CUT_OFF in step.content else None
        if on_reply is None and on_cut is None:
            state, spent = None, self.log.spent
            await self._resources.recorder.record(
                Record(claim, state, spent, last=step, reserved=reserved, call=call)
            )
            return
        async with self._resources.pool.connection() as conn, conn.transaction():
            await runs.record_step(conn, claim, step, reserved=reserved, call=call)
            if on_reply is not None:
                await on_reply(conn, self._run, answer.prompt, answer.reply)
            if on_cut is not None:
                await on_cut(conn, self._run, answer.reply.text)

    # Act.

    async def _act(self, call: Call) -> RunState | None:
        """Execute a call; an approved one only with the approved arguments."""
        if call.tool.approval:
            async with self._resources.pool.connection() as conn:
                approved = await runs.is_approved(conn, self._run.claim, call.call)
            if not approved:
                reason = f"the arguments of {call.tool.name} are not the approved ones"
                return await self._end(fail(reason))
        self._watch(Acting(call))
        before = len(self.log.steps)
        try:
            await self._kind.actor.carry_out(self._run, call, self.log)
        except ApprovalNeeded:
            return await self._wait(Wait("approval", call.call, call.tool))
        done = next(
            step
            for step in self.log.steps[before:]
            if step.kind is not StepKind.RESULT or step.content["call_id"] == call.call.id
        )
        if (result := self._result(call, before)) is not None:  # else the outcome is unknown
            outcome = "failed" if result.content.get("is_error") else "ok"
            metrics.tool_calls.labels(self._agent, call.tool.name, outcome).inc()
        self._watch(Recorded(done, call))
        return None

    def _result(self, call: Call, before: int) -> Step | None:
        """Return the result of a call, if it is among the steps from *before* on."""
        for step in self.log.steps[before:]:
            if step.kind is StepKind.RESULT and step.content["call_id"] == call.call.id:
                return step
        return None

    # Wait and end.

    async def _wait(self, move: Wait) -> RunState | None:
        """Wait for a person, unless grants refuse the call whatever the person answers."""
        claim, spent = self._run.claim, self.log.spent
        if move.until == "approval":
            async with self._resources.pool.connection() as conn:
                refused = await runs.refused_by_grants(conn, claim, move.call)
            if refused is not None:
                return await self._carry_out(Note(StepKind.RESULT, refused))
        async with self._resources.pool.connection() as conn, conn.transaction():
            if move.until == "approval":
                authority = self._run.authority
                role, ttl = authority.run_as, move.seconds or authority.approval_seconds
                await runs.ask_approval(conn, claim, self.log.seq, move.call, role, ttl, spent)
                return RunState.WAITING_APPROVAL
            metrics.tool_calls.labels(self._agent, move.tool.name, "unknown").inc()
            reason = f"outcome of {move.tool.name} is unknown"
            error = {"reason": reason, "call_id": move.call.id}
            await runs.park_run(
                conn, claim, RunState.NEEDS_REVIEW, refund=True, error=error, spent=spent
            )
            return RunState.NEEDS_REVIEW

    async def _end(self, end: End, *, last: NewStep | None = None) -> RunState:
        faults.hit("run.finished")
        self.unblocked = bool(await self._store(lambda: self._finish(end, last)))
        self.ended = end
        faults.hit("run.committed")
        return end.state

    async def _finish(self, end: End, last: NewStep | None) -> bool:
        record = Record(
            self._run.claim,
            end.state,
            self.log.spent,
            end.result,
            end.error,
            last,
            reserved=self.reservations.open,
        )
        on_end = self._kind.on_end
        if on_end is None:
            return await self._resources.recorder.record(record)
        async with self._resources.pool.connection() as conn, conn.transaction():
            unblocked = await runs.record(conn, record)
            await on_end(conn, self._run, self.log.steps, end)
        return unblocked

    async def _store(self, write: Callable[[], Awaitable[T]]) -> T | None:
        """Store a reply or an end; after a lost connection, repeat: do not ask the model again.

        Ends if the run is lost or cancelled, or exceeds its time.
        """
        for attempt in count(1):
            try:
                with translating():
                    return await write()
            except DatabaseLostError:
                await asyncio.sleep(seconds(DATABASE, attempt))
            except StepTakenError:
                if attempt == 1:
                    raise
                return None  # it was stored; only the server's reply was lost
        return None


@dataclass(frozen=True, slots=True)
class _Answer:
    """A reply to record; *call* is its number if budgets reserved for it."""

    prompt: Prompt
    reply: Reply
    step: NewStep
    call: int | None


async def _side_by_side(
    parts: Sequence[Coroutine[Any, Any, RunState | None]],
) -> RunState | None:
    """Await all, then raise the first error: successful parts are recorded."""
    if len(parts) == 1:
        return await parts[0]
    ends = await asyncio.gather(*parts, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    return next((end for end in ends if isinstance(end, RunState)), None)
