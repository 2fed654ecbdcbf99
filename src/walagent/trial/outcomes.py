"""What a run came to, and whether two runs on one change came to the same.  Pure.

    steps of a run → calls that acted → agrees?   right by its label?

Only calls that had an effect are compared: what a tool read, and what failed, changed nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from walagent.deciders.loop import since_fresh
from walagent.domain.run import Step, StepKind
from walagent.domain.tool_spec import Effect
from walagent.domain.transcript import reply_from_json, transcript
from walagent.message import Json

_SUCCEEDED = "succeeded"
_NOTHING = "do_nothing"


@dataclass(frozen=True, slots=True)
class Made:
    """A call of a tool.

    Args:
        arguments: as they were executed: those of a person, if one edited them.
        state: done, failed or open: nobody decided about it, or its outcome is unknown.
        reads: whether its tool has no effect.
    """

    tool: str
    arguments: Mapping[str, Json]
    state: str
    reads: bool = False

    @property
    def acted(self) -> bool:
        """Whether it had an effect."""
        return self.state == "done" and not self.reads


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Args:
        seconds: of its model's replies; a run also waits, for a worker and for people.
    """

    state: str
    result: str | None
    error: str | None
    calls: Sequence[Made]
    tokens: int
    cost: float | None
    seconds: float

    @property
    def acting(self) -> Sequence[Made]:
        """The calls that had an effect, in order."""
        return [call for call in self.calls if call.acted]

    def to_json(self) -> dict[str, Json]:
        """Write it as it is stored."""
        calls = [asdict(call) for call in self.calls]
        return {**asdict(self), "calls": calls}


def outcome_from_json(document: Mapping[str, Any]) -> Outcome:
    """Read an outcome as `Outcome.to_json` writes it, as far as the document has it."""
    get = document.get
    calls = tuple(
        Made(
            call.get("tool", ""),
            call.get("arguments", {}),
            call.get("state", ""),
            bool(call.get("reads")),
        )
        for call in get("calls", ())
    )
    tokens, seconds = get("tokens", 0), get("seconds", 0.0)
    return Outcome(
        get("state", ""), get("result"), get("error"), calls, tokens, get("cost"), seconds
    )


def is_succeeded(outcome: Outcome) -> bool:
    """Return whether a run came to its end: no other is right."""
    return outcome.state == _SUCCEEDED


def outcome_of(run: Mapping[str, Any], effects: Mapping[str, Effect]) -> Outcome:
    """Read the outcome of a run.

    Args:
        run: state, result, error, tokens, cost and steps, as `store.listings.show_run` has them.
        effects: of its tools by the name that the model uses; an unknown one acts.
    """
    raw: Sequence[Mapping[str, Any]] = run["steps"]
    steps = [Step(step["seq"], StepKind(step["kind"]), step["content"]) for step in raw]
    asked = sum(step["duration_ms"] or 0 for step in raw if step["kind"] == StepKind.REPLY)
    cost = run["cost"]
    return Outcome(
        run["state"],
        run["result"],
        run["error"],
        tuple(_calls(transcript(since_fresh(steps)), effects)),
        run["tokens"] or 0,
        None if cost is None else float(cost),
        asked / 1000,
    )


def _calls(steps: Sequence[Step], effects: Mapping[str, Effect]) -> Iterator[Made]:
    results = {s.content["call_id"]: s.content for s in steps if s.kind is StepKind.RESULT}
    edited = {
        step.content["call_id"]: step.content["edited"]
        for step in steps
        if step.kind is StepKind.DECISION and "edited" in step.content
    }
    for step in steps:
        if step.kind is not StepKind.REPLY:
            continue
        for call in reply_from_json(step.content).calls:
            result = results.get(call.id)
            state = "open" if result is None else "failed" if result["is_error"] else "done"
            given = edited.get(call.id, call.arguments or {})
            yield Made(call.name, given, state, effects.get(call.name) is Effect.READ)


def agree(recorded: Outcome, candidate: Outcome) -> bool:
    """Return whether two runs came to the same.

    Both succeeded or neither did, and the calls that acted are equal, in order.  The text counts
    where nothing acted: else it only says what was done, as it does beside do_nothing.
    """
    first, second = recorded.acting, candidate.acting
    if (recorded.state == _SUCCEEDED) != (candidate.state == _SUCCEEDED):
        return False
    if [_effect(call) for call in first] != [_effect(call) for call in second]:
        return False
    calls = [*recorded.calls, *candidate.calls]
    if first or recorded.state != _SUCCEEDED or any(call.tool == _NOTHING for call in calls):
        return True
    return _words(recorded.result) == _words(candidate.result)


def _effect(call: Made) -> tuple[str, Mapping[str, Json]]:
    return call.tool, call.arguments


def is_right(label: Mapping[str, Any], outcome: Outcome) -> bool:
    """Return whether a run came to what its label says: all of what that has.

    Args:
        label: values: arguments of the calls that acted, by name, the last one of a name; tools:
            their names, in order; result: the text.
    """
    if not is_succeeded(outcome):
        return False
    if "tools" in label and label["tools"] != [call.tool for call in outcome.acting]:
        return False
    if "result" in label and _words(label["result"]) != _words(outcome.result):
        return False
    values = _values(outcome)
    wanted: Mapping[str, Json] = label.get("values", {})
    return all(name in values and _same(values[name], value) for name, value in wanted.items())


def label_of(outcome: Outcome) -> dict[str, Json]:
    """Return the label for which a run is right."""
    tools: list[Json] = [call.tool for call in outcome.acting]
    if not tools:
        return {"tools": []}
    return {"tools": tools} | ({"values": values} if (values := _values(outcome)) else {})


def _values(outcome: Outcome) -> dict[str, Json]:
    return {name: value for call in outcome.acting for name, value in call.arguments.items()}


def _same(value: Json, expected: Json) -> bool:
    """Compare as PostgreSQL's text would: a label is often read from a column of another type."""
    if value is None or expected is None or isinstance(value, dict | list):
        return value == expected
    return value == expected or str(value) == str(expected)


def _words(text: str | None) -> str:
    return " ".join((text or "").split())
