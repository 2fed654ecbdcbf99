"""What an agent's run does next: a pure function of its recorded steps.

A fresh run, a run after a crash, a run that a person has approved and a run in a test all take the
same path: the steps are the state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import orjson

from walagent.deciders.fall_back import after_refusal, prompt_of
from walagent.deciders.written_calls import written_call
from walagent.domain.agent_spec import AgentSpec, Finish
from walagent.domain.run import Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import (
    CUT_OFF,
    reply_from_json,
    result_to_json,
    transcript,
    without_unsure,
)
from walagent.message import Json, Reply, Stop, ToolCall
from walagent.moves import Act, Ask, Call, Move, Note, Wait, fail, succeed

_CUT = frozenset({Stop.LENGTH, Stop.REFUSAL})  # ends at which a reply may not be whole
MAX_SAME_CALLS = 3  # the same call with the same result this often is an endless loop


Check = Callable[[Tool, Mapping[str, Json]], str | None]  # what is wrong with the arguments


def next_move(steps: Sequence[Step], agent: AgentSpec, check: Check) -> Move:
    """Decide from the recorded steps alone.

    Args:
        steps: oldest first.
        check: says what is wrong with a call's arguments, or None.
    """
    steps = since_fresh(steps)
    recent = since_retry(steps)
    steps = transcript(steps)
    at = next((n for n in reversed(range(len(steps))) if steps[n].kind == StepKind.REPLY), None)
    reply = None if at is None else reply_from_json(steps[at].content)
    after = () if at is None else steps[at + 1 :]
    if at is not None and CUT_OFF in steps[at].content:  # what was said instead is absorbed
        return fail(reason) if (reason := _used_up(recent, agent)) else _ask(recent, agent)
    if reply is not None and reply.stop in _CUT and not _has_note(after):
        return _refuse_cut(reply, after, recent, agent)
    if reply is not None and (pause := _pause_after(reply, after, agent)) is not None:
        return pause
    if reply is not None and _is_done(reply, after, agent):
        return succeed(reply.text)
    if reason := _used_up(recent, agent):
        return fail(reason)
    if reply is None:
        return _ask(recent, agent)
    if reply.calls and reply.stop not in _CUT:
        must = must_call(steps, agent)
        return _next_call(reply, after, recent, agent, _checked(check, must))
    if _has_note(after):
        return _ask(recent, agent)
    return _judge_words(reply, steps, recent, agent)


def _ask(recent: Sequence[Step], agent: AgentSpec) -> Ask:
    return Ask((prompt_of(recent, agent),))


def refuse(call: ToolCall, reason: str, *, correction: bool = True) -> Note:
    """Answer a call with an error, without carrying it out.

    Args:
        correction: the call itself was wrong, as opposed to refused by a person.
    """
    content = result_to_json(call, reason, is_error=True)
    return Note(StepKind.RESULT, {**content, "correction": True} if correction else content)


def correct(text: str) -> Note:
    """Tell the model what was wrong with its reply."""
    return Note(StepKind.NOTE, {"text": text, "correction": True})


def _refuse_cut(
    reply: Reply, after: Sequence[Step], recent: Sequence[Step], agent: AgentSpec
) -> Move:
    """End a run whose model did not come to an end, or ask again with a higher output limit.

    None of the reply's calls is carried out: where it was cut, half a call may look like a whole
    one.  Each gets its answer first, as no provider reads back a call without one.
    """
    if reply.stop is Stop.REFUSAL and (note := after_refusal(recent, agent, reply.why)):
        return note
    answered = {step.content["call_id"] for step in after if step.kind == StepKind.RESULT}
    for call in reply.calls:
        if call.id not in answered:
            return refuse(call, "not carried out: the reply was cut off")
    if reply.stop is Stop.REFUSAL:
        by = f" (the provider stopped it: {reply.why})" if reply.why else ""
        said = f": {reply.text[:500]}" if reply.text.strip() else ""
        return fail(f"the model refused{by}{said}")
    if _may_ask_longer(recent, agent):
        return correct("Your reply was cut off by its token limit. Answer again, in fewer words.")
    return fail("the model was cut off by its token limit; raise max_output_tokens or max_cost")


def _may_ask_longer(recent: Sequence[Step], agent: AgentSpec) -> bool:
    """Whether the limit that cut a reply was a default, and the run can have another reply."""
    replies = sum(step.kind == StepKind.REPLY for step in recent)
    limits = agent.limits
    return (
        limits.max_output_tokens is None
        and replies < limits.max_steps
        and corrections(recent) < agent.limits.max_corrections
    )


def _has_note(after: Sequence[Step]) -> bool:
    return any(step.kind == StepKind.NOTE for step in after)


def times_cut(steps: Sequence[Step]) -> int:
    """Count the replies that were cut off by their token limit since the last retry."""
    return sum(
        step.kind == StepKind.REPLY and step.content["stop"] == Stop.LENGTH
        for step in since_retry(steps)
    )


def _is_done(reply: Reply, after: Sequence[Step], agent: AgentSpec) -> bool:
    """Whether the run ends without an answer in words.

    Each call of the reply has succeeded, and one of them did something: a model that has only read
    is asked again, because it reads in order to act.
    """
    if agent.finish is not Finish.AFTER_CALL or not reply.calls:
        return False
    good = {
        step.content["call_id"]
        for step in after
        if step.kind == StepKind.RESULT and not step.content["is_error"]
    }
    return all(call.id in good for call in reply.calls) and any(
        _acts(agent.tool(call.name), agent) for call in reply.calls
    )


def _acts(tool: Tool | None, agent: AgentSpec) -> bool:
    return tool is not None and (
        tool.effect is not Effect.READ
        or tool.target == "do_nothing"
        or tool.name == agent.tool_choice
    )


def _checked(check: Check, must: str | None) -> Check:
    """Refuse any tool but the one that must be called first: not every server enforces it."""
    if must is None or must == "required":
        return check

    def first(tool: Tool, arguments: Mapping[str, Json]) -> str | None:
        return check(tool, arguments) if tool.name == must else f"{must} must be called first"

    return first


def _next_call(
    reply: Reply,
    after: Sequence[Step],
    recent: Sequence[Step],
    agent: AgentSpec,
    check: Check,
) -> Move:
    """Take the first call without an answer; when all are answered, ask the model again."""
    answered = {step.content["call_id"] for step in after if step.kind == StepKind.RESULT}
    for call in reply.calls:
        if call.id in answered:
            continue
        if reason := _what_is_wrong(call, agent, check):
            if corrections(recent) >= agent.limits.max_corrections:
                return fail(f"the model did not correct itself: {reason}")
            note = refuse(call, reason)
            unknown = agent.tool(call.name) is None  # a refusal, which the audit has
            return replace(note, content={**note.content, "denied": reason}) if unknown else note
        tool = agent.tool(call.name)
        assert tool is not None  # noqa: S101 - _what_is_wrong has just found it
        return start_call(call, tool, after, check)
    return _ask(recent, agent)


def start_call(call: ToolCall, tool: Tool, after: Sequence[Step], check: Check) -> Move:
    """Carry the call out, unless a person has to say something first.

    Args:
        after: the steps since the call was made; they have no result of it.
    """
    if is_question(tool):
        decision = _of_call(after, StepKind.DECISION, call)
        return Wait("approval", call, tool) if decision is None else _answered(call, decision)
    decision = _of_call(after, StepKind.DECISION, call)
    if tool.approval and decision is None:
        return Wait("approval", call, tool)
    if decision is not None:  # also one that a policy required
        if decision.content["decision"] != "approved":
            return refuse(call, _refusal(decision.content), correction=False)
        call = as_decided(call, decision.content)
        if reason := check(tool, call.arguments or {}):
            return refuse(
                call, f"not carried out as a person edited it: {reason}", correction=False
            )
    if _of_call(after, StepKind.INTENT, call) is None:
        return Act((Call(call, tool),))
    if tool.effect is Effect.UNSAFE:
        return Wait("review", call, tool)
    return Act((Call(call, tool, again=True),))


def as_decided(call: ToolCall, decision: Mapping[str, Json]) -> ToolCall:
    """Return a call with the arguments that were approved, if a person edited them."""
    edited = decision.get("edited")
    return call if edited is None else replace(call, arguments=edited)


def _pause_after(reply: Reply, after: Sequence[Step], agent: AgentSpec) -> Move | None:
    """Wait after an executed call until a person continues the run; None: no need to."""
    if not agent.pause_after_tool:
        return None
    for call in reply.calls:
        tool, result = agent.tool(call.name), _of_call(after, StepKind.RESULT, call)
        if tool is None or result is None or {"correction", "denied"} & result.content.keys():
            continue
        later = [step for step in after if step.seq > result.seq]
        decision = _of_call(later, StepKind.DECISION, call)
        if decision is None:
            return Wait("approval", call, tool)
        if decision.content["decision"] != "approved":
            return fail(f"stopped after {call.name}: {_refusal(decision.content)}")
    return None


def is_question(tool: Tool) -> bool:
    """Return whether a call of *tool* is a question to a person, whose decision is the answer."""
    return tool.kind == "builtin" and tool.target == "ask_human"


def _answered(call: ToolCall, decision: Step) -> Note:
    """Pass a person's answer on; the model cannot correct that there is none."""
    content = decision.content
    match content["decision"]:
        case "approved":
            text = content.get("reason") or "yes"
            return Note(StepKind.RESULT, result_to_json(call, str(text), is_error=False))
        case "rejected":
            reason = content.get("reason")
            text = "a person declined to answer" + (f": {reason}" if reason else "")
        case _:
            text = "nobody answered in time"
    return refuse(call, text, correction=False)


def _what_is_wrong(call: ToolCall, agent: AgentSpec, check: Check) -> str | None:
    tool = agent.tool(call.name)
    if tool is None:
        known = ", ".join(tool.name for tool in agent.tools) or "none"
        return f'there is no tool "{call.name[:64]}"; the tools are: {known}'
    if call.arguments is None:
        why = call.problem or "they are not a JSON object"
        return f"the arguments of {call.name} cannot be used: {why}"
    return check(tool, call.arguments)


def called_wrongly(call: ToolCall, agent: AgentSpec, check: Check, must: str | None) -> str | None:
    """Say what is wrong with a call, before it is carried out; None: nothing.

    Args:
        must: what `must_call` returned.
    """
    return _what_is_wrong(call, agent, _checked(check, must))


def _judge_words(
    reply: Reply, steps: Sequence[Step], recent: Sequence[Step], agent: AgentSpec
) -> Move:
    """A reply without calls ends the run, if it may."""
    if name := written_call(reply.text, {tool.name for tool in agent.tools}):
        if corrections(recent) >= agent.limits.max_corrections:
            return fail(
                f'the model wrote its call of "{name}" as text, which is never carried out;'
                " start its server with a parser for its calls, or set tool_mode of the model"
                " to schema"
            )
        return correct(
            f"Your answer is a text that looks like a call of {name}. Nothing was carried out."
            " Call the tool itself, or answer in words."
        )
    if must_call(steps, agent) is not None:
        if corrections(recent) >= agent.limits.max_corrections:
            return fail("the model answered in words where a tool call is required")
        return correct("A tool call is required here. Answer with a call of one of the tools.")
    if reply.text.strip() or any(_is_answer(step) for step in steps):
        return succeed(reply.text)
    if corrections(recent) >= agent.limits.max_corrections:
        return fail("the model answered nothing")
    return correct("Your answer was empty. Do the task, or say that there is nothing to do.")


def must_call(steps: Sequence[Step], agent: AgentSpec) -> str | None:
    """Say which tool the model must call next: a name, "required" for any, None for no must.

    What `tool_choice` asks for counts until a tool has answered.
    """
    if agent.tool_choice == "auto" or any(_is_answer(step) for step in steps):
        return None
    return agent.tool_choice


def corrections(steps: Sequence[Step]) -> int:
    """Count the replies before the last one that went back to the model as wrong."""
    count = wrong = 0
    for step in steps:
        if step.kind == StepKind.REPLY:
            count, wrong = count + wrong, 0
        elif step.content.get("correction"):
            wrong = 1
    return count


def _is_answer(step: Step) -> bool:
    return step.kind == StepKind.RESULT and not step.content.get("correction")


def _used_up(steps: Sequence[Step], agent: AgentSpec) -> str | None:
    """Name the limit that the run has reached, if its next move would go beyond it."""
    if _has_ended(steps):
        return None
    limits = agent.limits
    said = without_unsure(steps)
    replies = [step for step in said if step.kind == StepKind.REPLY]
    open_calls = bool(replies) and not _is_settled(said)
    if not open_calls and len(replies) >= limits.max_steps:
        return f"{limits.max_steps} replies of the model were not enough (max_steps)"
    if _goes_in_circles(steps):
        return f"the same call had the same result {MAX_SAME_CALLS} times"
    tokens = sum(step.tokens for step in steps)
    if limits.max_tokens is not None and tokens > limits.max_tokens:
        return f"{tokens} tokens used, {limits.max_tokens} allowed (max_tokens)"
    cost = sum(step.cost or 0 for step in steps)
    if limits.max_cost is not None and cost > limits.max_cost:
        return f"{cost:.6f} US dollars spent, {limits.max_cost} allowed (max_cost)"
    return None


def _is_settled(steps: Sequence[Step]) -> bool:
    """Whether every call of the last reply has its answer."""
    at = max(n for n, step in enumerate(steps) if step.kind == StepKind.REPLY)
    calls = {call.id for call in reply_from_json(steps[at].content).calls}
    return calls <= {s.content["call_id"] for s in steps[at:] if s.kind == StepKind.RESULT}


def _has_ended(steps: Sequence[Step]) -> bool:
    """Whether the model has said its last words; ending the run goes beyond no limit."""
    last = steps[-1] if steps else None
    return (
        last is not None and last.kind == StepKind.REPLY and not reply_from_json(last.content).calls
    )


def _goes_in_circles(steps: Sequence[Step]) -> bool:
    calls: dict[str, tuple[str, str]] = {}
    seen: dict[tuple[str, str, str], int] = {}
    for step in steps:
        if step.kind == StepKind.REPLY:
            calls.update(
                (call.id, (call.name, _canonical(call.arguments)))
                for call in reply_from_json(step.content).calls
            )
        elif step.kind == StepKind.RESULT and step.content["call_id"] in calls:
            what = (*calls[step.content["call_id"]], str(step.content["content"]))
            seen[what] = seen.get(what, 0) + 1
    return any(count >= MAX_SAME_CALLS for count in seen.values())


def _canonical(arguments: Mapping[str, Json] | None) -> str:
    """Write equal arguments alike: PostgreSQL gives keys back in an order of its own."""
    return orjson.dumps(arguments, default=str, option=orjson.OPT_SORT_KEYS).decode()


def since_retry(steps: Sequence[Step]) -> Sequence[Step]:
    """Limits count from the last time that a person let the run go on."""
    starts = [n + 1 for n, step in enumerate(steps) if _is_retry(step)]
    return steps[starts[-1] :] if starts else steps


def since_fresh(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps since the last retry that began with an empty transcript."""
    starts = [n + 1 for n, step in enumerate(steps) if _is_retry(step) and "fresh" in step.content]
    return steps[starts[-1] :] if starts else steps


def _is_retry(step: Step) -> bool:
    return step.kind == StepKind.NOTE and "retry" in step.content


def _of_call(steps: Sequence[Step], kind: StepKind, call: ToolCall) -> Step | None:
    found = [s for s in steps if s.kind == kind and s.content.get("call_id") == call.id]
    return found[-1] if found else None


def _refusal(decision: Mapping[str, Json]) -> str:
    if decision["decision"] == "expired":
        return "nobody decided about this call in time; it was not carried out"
    reason = decision.get("reason")
    return "a person refused this call" + (f": {reason}" if reason else "")
