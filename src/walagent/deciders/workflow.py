"""Decides for runs of workflows: what the present node does next, then a checkpoint.

A node of kind model is the loop of agents over the steps of the node, a tool is a call, a person
is an approval: all of it is recorded as in any run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import orjson

from walagent.deciders.agent_prompt import tool_choice
from walagent.deciders.arguments import what_is_wrong
from walagent.deciders.fall_back import as_asked
from walagent.deciders.loop import (
    as_decided,
    correct,
    corrections,
    must_call,
    next_move,
    since_retry,
    start_call,
    times_cut,
)
from walagent.deciders.output_limit import output_limit
from walagent.domain.agent_spec import AgentSpec
from walagent.domain.run import RunSpec, RunState, Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import messages, reply_from_json
from walagent.domain.untrusted import RULE, framed, marker
from walagent.domain.workflow_graph import (
    NEXT,
    Definition,
    Position,
    as_text,
    definition_of,
    filled,
    filled_text,
    inner,
    placeholders,
    position_of,
    with_result,
)
from walagent.message import Json, ModelSpec, Request, Stop, ToolCall
from walagent.moves import Act, Ask, Call, End, Move, Prompt, Wait, fail, succeed

_RULES = f"""\
You are a step of a workflow. Data of the workflow is shown between two lines that carry the same \
marker. {RULE} Answer with the result of your step alone: it is passed on as it is."""
_JSON = "Answer with JSON alone: no text before or after it."
_MOST_SHOWN: Final = 4000  # characters of a prompt for a person
CHECKPOINT: Final = Tool(NEXT, "workflow", NEXT, "", {"type": "object"}, Effect.READ)


class _Done(Exception):  # noqa: N818 - no error: the node has a result
    def __init__(self, value: Json) -> None:
        super().__init__()
        self.value = value


class WorkflowDecider:
    """Implements `Decider`."""

    def __init__(self, secret: bytes) -> None:
        """Take agent_internal.secret, which the markers of data blocks are derived from."""
        self._secret = secret

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Decide from the recorded steps."""
        at = position_of(steps)
        if at is None:
            return _checkpoint(0, None, steps)
        if at.node is None:
            return succeed(orjson.dumps(at.state, default=str).decode())
        most = definition_of(run)["max_steps"]
        if at.number > most:
            return fail(f"max_steps reached: {most} nodes")
        return _Visit(run, at).next_move()

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        """Build the request of a node."""
        at = position_of(steps)
        assert at is not None  # noqa: S101 - the checkpoint came before the prompt
        visit = _Visit(run, at)
        name = str(prompt.about["node"])
        own = at.steps if name == at.node else ()
        node, agent = visit.node(name), as_asked(since_retry(own), visit.agent(name))
        mark = marker(self._secret, run.run_id)
        return Request(
            system="\n\n".join(part for part in _system(agent, node) if part),
            messages=messages(_opening(node, visit.state, mark), own),
            tools=tuple(tool.spec for tool in agent.tools) if name == at.node else (),
            choice=tool_choice(must_call(own, agent), agent),
            max_tokens=output_limit(agent, model, times_cut(own)),
            parameters=agent.parameters,
            examples=agent.examples,
            timeout=model.timeout,
            run_id=run.run_id,
        )


class _Visit:
    """The execution of one node, from its checkpoint to the next."""

    def __init__(self, run: RunSpec, at: Position) -> None:
        self._run = run
        self._at = at
        self._here: Definition = inner(definition_of(run), at.frames)
        self._name = at.node or ""
        self.state: dict[str, Json] = dict(at.state)
        self._decision = "approved"

    def node(self, name: str) -> Mapping[str, Any]:
        """Return the definition of a node."""
        return self._here["nodes"][name]

    def agent(self, name: str) -> AgentSpec:
        """Return the agent of a node of kind model."""
        node = self.node(name)
        if "agent" in node:
            return AgentSpec.from_json(node["agent"])
        return AgentSpec(name, node["model"])

    def next_move(self) -> Move:
        """Decide what the node does next."""
        policy = self._at.policy or {}
        if policy.get("action") == "deny":
            return fail(f"node {self._name} is refused: {policy.get('reason')}")
        node = self.node(self._name)
        before = node["interrupt_before"] or policy.get("action") == "require"
        reason = str(policy.get("reason") or "")
        if before and (move := self._interrupt("before", reason)) is not None:
            return move
        try:
            return self._node_move(node)
        except _Done as done:
            state = self.state
            if node["kind"] not in {"router", "subgraph", "parallel"}:
                state = with_result(state, node, self._name, done.value)
            self.state = state
        if node["interrupt_after"] and (move := self._interrupt("after", "")) is not None:
            return move
        return self._next()

    def _node_move(self, node: Mapping[str, Any]) -> Move:
        """Return the next move of the node itself.

        Raises:
            _Done: it has a result.
        """
        match node["kind"]:
            case "model":
                return self._model(node)
            case "tool" | "function":
                return self._tool(self._name)
            case "human":
                return self._human(node)
            case "parallel":
                return self._parallel(node)
            case _:
                raise _Done(None)

    # Interrupts.

    def _interrupt(self, when: str, reason: str) -> Move | None:
        """Wait for a person; None: a person has approved."""
        node = self.node(self._name)
        kind = "escalation" if reason else node.get("type", "review")
        move = self._wait_for(f"{self._at.number}-{when}", kind, reason)
        if not isinstance(move, Step):
            return move
        decision = str(move.content["decision"])
        if decision == "approved":
            return None
        why = move.content.get("reason")
        return fail(f"node {self._name} is {decision} {when} it" + (f": {why}" if why else ""))

    def _human(self, node: Mapping[str, Any]) -> Move:
        move = self._wait_for(f"{self._at.number}-human", node.get("type", "approval"), "")
        if not isinstance(move, Step):
            return move
        self._decision = str(move.content["decision"])
        raise _Done(
            {
                "decision": self._decision,
                "by": move.content.get("by"),
                "answer": move.content.get("reason"),
            }
        )

    def _wait_for(self, call_id: str, kind: str, reason: str) -> Wait | Step:
        """Wait for the decision of a person; or return it, with its patch in the state."""
        node = self.node(self._name)
        decided = self._found(StepKind.DECISION, call_id)
        if decided is not None:
            edited: Mapping[str, Any] = decided.content.get("edited") or {}
            self.state |= edited.get("patch") or {}
            return decided
        prompt = reason or filled_text(str(node.get("prompt") or ""), self.state)
        shown = {"interrupt": call_id, "type": kind, "prompt": prompt[:_MOST_SHOWN]}
        tool = Tool(self._name, "workflow", "interrupt", "", {"type": "object"}, Effect.READ)
        return Wait("approval", ToolCall(call_id, self._name, shown), tool, node["expires"])

    # Tools and functions.

    def _tool(self, name: str) -> Move:
        """Call a tool; after a failure, again as often as the node says.

        Raises:
            _Done: it has succeeded.
        """
        node = self.node(name)
        prefix = f"{self._at.number}-{name}-"
        failed = 0
        for step in self._at.steps:
            if step.kind is StepKind.RESULT and step.content["call_id"].startswith(prefix):
                if not step.content["is_error"]:
                    raise _Done(_value(step))
                failed += 1
        recent = [
            step
            for step in since_retry(self._at.steps)
            if step.kind is StepKind.RESULT and step.content["call_id"].startswith(prefix)
        ]
        if len(recent) >= node["attempts"]:
            return fail(f"node {name} failed: {recent[-1].content['content']}")
        tool = self._defined_tool(node)
        call = ToolCall(f"{prefix}{failed}", tool.name, self._arguments(node, tool))
        after = [step for step in self._at.steps if step.content.get("call_id") == call.id]
        decided = next((step for step in after if step.kind is StepKind.DECISION), None)
        checked = as_decided(call, decided.content) if decided else call
        if reason := what_is_wrong(tool, checked.arguments or {}):
            return fail(f"node {name} failed: {reason}")
        if decided is not None and decided.content["decision"] != "approved":
            why = decided.content.get("reason")
            words = f"the call of {tool.name} is {decided.content['decision']}"
            return fail(f"node {name} failed: {words}" + (f": {why}" if why else ""))
        return start_call(call, tool, after, what_is_wrong)

    def _defined_tool(self, node: Mapping[str, Any]) -> Tool:
        raw = node["function"] if node["kind"] == "function" else node["tool"]
        approve = node["kind"] == "tool" and raw["name"] in _started(self._run).get("approve", ())
        return Tool.from_json({**raw, "approval": raw["approval"] or approve})

    def _arguments(self, node: Mapping[str, Any], tool: Tool) -> dict[str, Json]:
        if node["kind"] == "function":
            return {tool.arguments[0][0]: self.state}
        return filled(node.get("arguments", {}), self.state)

    # Models.

    def _model(self, node: Mapping[str, Any]) -> Move:
        """Let the agent of the node work until it has answered.

        Raises:
            _Done: it has.
        """
        agent = self.agent(self._name)
        own, move = self._prompt(self._name, agent), next_move(self._own(), agent, what_is_wrong)
        match move:
            case Ask((prompt,)):
                about, model = {**prompt.about, **own.about}, prompt.model or own.model
                # Not in another tier, which takes longer than a node may.
                return Ask((replace(prompt, by=own.by, about=about, model=model, tier=""),))
            case End(state=RunState.SUCCEEDED):
                if node.get("format") != "json":
                    raise _Done(move.result or "")
                try:
                    value = _parsed(move.result or "")
                except orjson.JSONDecodeError:
                    recent = since_retry(self._own())
                    if corrections(recent) >= agent.limits.max_corrections:
                        return fail(f"node {self._name} failed: the answer is not JSON")
                    return correct(_JSON)
                raise _Done(value)
            case End():
                return fail(f"node {self._name} failed: {move.reason}")
            case _:
                return move

    def _own(self) -> list[Step]:
        """The steps of the node that its agent has made."""
        interrupts = {f"{self._at.number}-{when}" for when in ("before", "after")}
        return [step for step in self._at.steps if step.content.get("call_id") not in interrupts]

    def _prompt(self, name: str, agent: AgentSpec) -> Prompt:
        about: dict[str, Json] = {"node": name, "checkpoint": self._at.number}
        if self.node(name).get("agent"):
            about["agent"] = agent.name  # whom its tools act for
        return Prompt("node", about, model=agent.model)

    # Branches.

    def _parallel(self, node: Mapping[str, Any]) -> Move:
        """Ask the models of all branches at once; then call the tools, one after the other.

        Each branch has the state from before; the results are merged in the order of the branches.

        Raises:
            _Done: all branches have a result.
        """
        branches = list[str](node["branches"])
        asked = [name for name in branches if self.node(name)["kind"] == "model"]
        replies = {
            str(step.content.get("node")): step
            for step in since_retry(self._at.steps)
            if step.kind is StepKind.REPLY
        }
        if missing := [name for name in asked if name not in replies]:
            return Ask(tuple(self._prompt(name, self.agent(name)) for name in missing))
        values = dict[str, Json]()
        for name in branches:
            try:
                if name not in asked:
                    return self._tool(name)
                values[name] = _words(replies[name], self.node(name))
            except _Done as done:
                values[name] = done.value
            except ValueError as error:
                return fail(f"node {name} failed: {error}")
        for name, value in values.items():
            self.state = with_result(self.state, self.node(name), name, value)
        raise _Done(None)

    # The next node.

    def _next(self) -> Move:
        failures = [
            step for step in since_retry(self._at.steps) if step.content.get("name") == NEXT
        ]
        if failures:
            return fail(str(failures[-1].content["content"]))
        of: dict[str, Json] = {"state": self.state, "decision": self._decision}
        return _checkpoint(self._at.number, self._name, self._at.steps, of)

    def _found(self, kind: StepKind, call_id: str) -> Step | None:
        found = (s for s in self._at.steps if s.kind is kind and s.content["call_id"] == call_id)
        return next(found, None)


def _checkpoint(
    number: int,
    name: str | None,
    steps: Sequence[Step],
    of: Mapping[str, Json] = MappingProxyType({}),
) -> Act:
    """Record what follows a node; *name* is None at the start."""
    tried = sum(step.content.get("name") == NEXT for step in steps)
    arguments: dict[str, Json] = {"from": name, **of}
    return Act((Call(ToolCall(f"{number}-{NEXT}-{tried}", NEXT, arguments), CHECKPOINT),))


def _started(run: RunSpec) -> Mapping[str, Any]:
    return run.claim.change["new"]


def _value(step: Step) -> Json:
    """Return what a tool returned: JSON, or its text."""
    text = str(step.content["content"])
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _parsed(text: str) -> Json:
    """Read an answer in JSON, also in a fenced block of Markdown."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json")
    return orjson.loads(text)


def _words(step: Step, node: Mapping[str, Any]) -> Json:
    """Return the answer of a branch.

    Raises:
        ValueError: it is not complete, or not JSON.
    """
    reply = reply_from_json(step.content)
    if reply.stop in {Stop.LENGTH, Stop.REFUSAL}:
        raise ValueError(f"the model did not complete its answer ({reply.stop.value})")
    if node.get("format") != "json":
        return reply.text
    try:
        return _parsed(reply.text)
    except orjson.JSONDecodeError as error:
        raise ValueError("the answer is not JSON") from error


def _system(agent: AgentSpec, node: Mapping[str, Any]) -> list[str]:
    return [agent.system_prompt, _RULES, _JSON if node.get("format") == "json" else ""]


def _opening(node: Mapping[str, Any], state: Mapping[str, Json], mark: str) -> str:
    """Write the prompt of a node: each value of the state in a block that it cannot end."""
    if not (template := node.get("prompt")):
        return framed("state", as_text(dict(state)), mark)
    text, *rest = placeholders(str(template))
    for path, after in zip(rest[::2], rest[1::2], strict=True):
        value = filled("{{" + path + "}}", state)
        text += "\n" + framed("data", as_text(value), mark, source=path) + "\n" + after
    return text
