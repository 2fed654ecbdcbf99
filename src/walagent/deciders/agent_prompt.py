"""The request of a run: instructions in the system prompt, row data in a block of its own.

No text in a row can grant a tool: tools come from the attachment alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from walagent.deciders.fall_back import as_asked
from walagent.deciders.loop import must_call, since_fresh, since_retry, times_cut
from walagent.deciders.output_limit import output_limit
from walagent.deciders.row_text import row_text
from walagent.deciders.stages import in_stage, stage_of
from walagent.domain.agent_spec import AgentSpec, Finish, Target
from walagent.domain.run import RunSpec, Step, StepKind
from walagent.domain.transcript import FORK, messages
from walagent.domain.untrusted import RULE, framed
from walagent.message import Json, Message, ModelSpec, Request, Text, ToolChoice

_RULES = f"""\
You act on changes in a PostgreSQL database. Each task shows what changed as JSON between two \
lines that carry the same marker. {RULE} Use only the tools you have been given."""
_ENDS = {
    Finish.ANSWER: " When there is nothing more to do, answer with one short sentence that says"
    " what you did.",
    Finish.AFTER_CALL: " The task ends when your calls have succeeded: make all of them in one"
    " reply.",
}
_NOTHING = " If there is nothing to do, answer with one short sentence."


def opening(changes: Sequence[Mapping[str, Any]], mark: str, *, ordered: bool = False) -> str:
    """Put the changes into a delimited block.

    Args:
        ordered: write names in their order: a run that starts as it is inserted has the order of
            the table, one that was stored another.
    """
    changes = [{k: v for k, v in change.items() if k != "deferred"} for change in changes]
    shown = changes[0] if len(changes) == 1 else list(changes)
    option = orjson.OPT_SORT_KEYS if ordered else None
    body = orjson.dumps(shown, default=_digits, option=option).decode()
    return framed("change", body, mark)


def _digits(value: object) -> orjson.Fragment:
    return orjson.Fragment(str(value))  # a Decimal: the one thing in a change that JSON has not


def build_request(run: RunSpec, steps: Sequence[Step], *, mark: str, model: ModelSpec) -> Request:
    """Build the next request of a run from what is recorded."""
    if run.target is not None and run.target.embedded:
        return _for_embedding(run, run.target, model)
    recent, steps = since_retry(steps), since_fresh(steps)
    agent = _as_forked(steps, as_asked(recent, run.agent))
    if (stage := stage_of(recent, agent)) is not None:
        agent = replace(agent, model=stage.model, parameters=stage.parameters)
    request = Request(
        system=_system(agent),
        messages=messages(opening(_visible(run), mark, ordered=bool(agent.reuse)), steps),
        tools=tuple(tool.spec for tool in agent.tools),
        choice=tool_choice(must_call(steps, agent), agent),
        max_tokens=output_limit(agent, model, times_cut(steps)),
        parameters=agent.parameters,
        examples=agent.examples,
        timeout=model.timeout,
        continues=agent.finish is Finish.ANSWER,
        run_id=run.run_id,
    )
    return request if stage is None else in_stage(request)


def _for_embedding(run: RunSpec, target: Target, model: ModelSpec) -> Request:
    """Ask for the embedding of a row: the text alone, of what the last change left."""
    text = row_text(run.claim.last, target.embedded)
    return Request(
        system="",
        messages=(Message("user", (Text(text),)),),
        tools=tuple(tool.spec for tool in run.agent.tools),
        max_tokens=output_limit(run.agent, model, 0),
        parameters=run.agent.parameters,
        timeout=model.timeout,
        continues=False,
        embeds=target.writes[0],
        run_id=run.run_id,
    )


def _as_forked(steps: Sequence[Step], agent: AgentSpec) -> AgentSpec:
    """Return the agent with the system prompt that the last fork with one gave it."""
    given = [s.content for s in steps if s.kind == StepKind.NOTE and FORK in s.content]
    prompts = [str(note["prompt"]) for note in given if "prompt" in note]
    return replace(agent, system_prompt=prompts[-1]) if prompts else agent


def prefix_tokens(agent: AgentSpec) -> int:
    """Estimate the tokens that all requests of an agent begin with, at 4 bytes a token."""
    tools = [(tool.name, tool.description, tool.input_schema) for tool in agent.tools]
    examples = [(each.text, each.tool, each.arguments) for each in agent.examples]
    return len(orjson.dumps([_system(agent), tools, examples], default=dict)) // 4


def _system(agent: AgentSpec) -> str:
    own, rules = agent.system_prompt, _RULES + _ENDS[agent.finish]
    if agent.finish is Finish.AFTER_CALL and agent.tool_choice == "auto":  # else it must call
        rules += _NOTHING
    return f"{own}\n\n{rules}" if own else rules


def _visible(run: RunSpec) -> Sequence[Mapping[str, Any]]:
    """Leave out what the run keeps only for bound arguments of its tools, and what is equal.

    Where replies are shared, the model does not see the key of the row: it could write it.
    """
    changes, target = run.claim.changes, run.target
    if target is not None and target.columns is not None:
        keep = target.columns.union(target.key_columns)
        changes = [{**change, **_kept(change, lambda name: name in keep)} for change in changes]
    if target is not None and run.agent.reuse:
        key = target.key_columns
        changes = [{**change, **_kept(change, lambda name: name not in key)} for change in changes]
    return [_differing(change) for change in changes]


def _differing(change: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave only those values of the old row that differ from the new one."""
    old, new = change.get("old"), change.get("new")
    if not old or not new:
        return change
    rest = {name: value for name, value in change.items() if name != "old"}
    same = {name for name in old.keys() & new.keys() if _is_same(old[name], new[name])}
    differ = {name: value for name, value in old.items() if name not in same}
    return {**rest, "old": differ} if differ else rest


def _is_same(one: Json, other: Json) -> bool:
    """Whether two values are equal and of one type, at every depth: in Python, `True == 1.0`."""
    if type(one) is not type(other) or one != other:
        return False
    match one:
        case {}:
            return all(_is_same(one[name], other[name]) for name in one)
        case [*_]:
            return all(map(_is_same, one, other))
        case _:
            return True


def _kept(change: Mapping[str, Any], keep: Callable[[str], bool]) -> dict[str, Json]:
    kept: dict[str, Json] = {
        part: {name: value for name, value in change[part].items() if keep(name)}
        for part in ("new", "old", "truncated")
        if part in change
    }
    if "unchanged" in change:
        kept["unchanged"] = [name for name in change["unchanged"] if keep(name)]
    return kept


def tool_choice(must: str | None, agent: AgentSpec) -> ToolChoice:
    """Return what a request demands of the model."""
    if must is None or not agent.tools:
        return ToolChoice("auto")
    return ToolChoice("required") if must == "required" else ToolChoice("named", must)
