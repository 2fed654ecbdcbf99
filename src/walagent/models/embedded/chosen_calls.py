"""From choices to tool calls: a pure decision.

A call is made when the model is sure enough and every argument can be filled: from a list, or
by quoting the row.  Numbers and ids are never made up.  What is not called goes to the fallback.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from walagent.message import Json, Request, ToolSpec
from walagent.models.embedded.choices import (
    SETTER,
    actions,
    as_schema,
    enum_values,
    properties,
)
from walagent.models.embedded.labels import LabelChoice
from walagent.models.embedded.subject import Subject

Choices = Mapping[tuple[str, str], LabelChoice]  # by tool and argument; ("", "") chose the tool

_FALLBACKS = ("escalate_to_human", "ask_human", "do_nothing")  # when none is named: the first there
_LEAST_MARGIN = 0.8  # in a cascade
_QUOTE = 300  # characters of the row in an argument

# A string that must look like something cannot be a quotation.
_SHAPED = ("format", "pattern", "contentEncoding")


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What an agent's parameters may say about deciding.

    Args:
        threshold: confidence from 0 to 1 below which nothing is chosen.  A half means: likelier
            than everything else together.
        margin: how likely a tool that writes more than its row must be beside the second one alone,
            from 0.5 to 1.  Of two tools, one is always above a half.
        fallback: the tool that is called instead, or "" for the usual ones.
    """

    threshold: float = 0.5
    margin: float = 0.8
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A tool and its arguments."""

    tool: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """All calls that a text asks for, and why, in words."""

    calls: tuple[PlannedCall, ...] = ()
    why: tuple[str, ...] = field(default=())


def plan(request: Request, subject: Subject, choices: Choices, settings: PlanSettings) -> ToolPlan:
    """Decide what to call about *subject*, whether or not some of it is done already."""
    if request.choice.mode == "none":
        return ToolPlan((), (_ranking(choices),))
    if request.choice.mode == "named":
        named = next((t for t in request.tools if t.name == request.choice.name), None)
        call = _fill(named, subject, choices, 0.0) if named else None
        return ToolPlan((call,) if call else (), (f"{request.choice.name} was asked for",))
    set_columns = _set_columns(request, subject, choices, settings)
    act = _act(request, subject, choices, settings)
    return ToolPlan(set_columns.calls + act.calls, set_columns.why + act.why)


def why_unsure(
    request: Request, subject: Subject, choices: Choices, settings: PlanSettings
) -> str | None:
    """Say why *subject* is left to the next model of a cascade; None: all of it is sure.

    As a stage, the model chooses from lists alone: it leaves no column out, quotes nothing, and
    holds nothing back.  No parameter lowers the margin of a tool that writes more than its row.
    """
    settings = replace(settings, margin=max(settings.margin, _LEAST_MARGIN))
    if subject.failed:
        return "; ".join(f"{name} failed: {why}" for name, why in subject.failed.items())
    setter = next((tool for tool in request.tools if tool.name == SETTER), None)
    acting = choices.get(("", ""))
    if setter is None and acting is None:
        return "no tool to choose"
    if setter is not None and (why := _why_not_sure(setter, choices, settings, whole=True)):
        return why
    if acting is None:
        return None
    tool = next(tool for tool in actions(request.tools) if tool.name == acting.name)
    if len(acting.odds) == 1 and not tool.reads:  # it would be called for each row
        return f"{tool.name} has no second tool beside it"
    if acting.confidence < settings.threshold or _is_close(acting, tool, settings):
        return f"not sure enough: {_ranking(choices)}"
    return _why_not_sure(tool, choices, settings, whole=False)


def _why_not_sure(
    tool: ToolSpec, choices: Choices, settings: PlanSettings, *, whole: bool
) -> str | None:
    """Say which argument of a tool is not sure; None: each is.

    Args:
        whole: optional arguments, too.
    """
    required: Json = tool.input_schema.get("required") or ()
    for name, schema in properties(tool).items():
        if "const" in schema or not (whole or name in required):
            continue
        choice = choices.get((tool.name, name))
        if choice is None:
            return f"{name} of {tool.name} has no list of values"
        if choice.confidence < settings.threshold:
            return f"not sure enough: {name} {choice.name} {choice.confidence:.0%}"
    return None


def _set_columns(
    request: Request, subject: Subject, choices: Choices, settings: PlanSettings
) -> ToolPlan:
    setter = next((tool for tool in request.tools if tool.name == SETTER), None)
    call = _fill(setter, subject, choices, settings.threshold) if setter else None
    if call is None or not call.arguments:
        return ToolPlan()
    sure = (choices[SETTER, name] for name in call.arguments if (SETTER, name) in choices)
    return ToolPlan((call,), tuple(f"{choice.name} {choice.confidence:.0%}" for choice in sure))


def _act(request: Request, subject: Subject, choices: Choices, settings: PlanSettings) -> ToolPlan:
    tools = {tool.name: tool for tool in actions(request.tools)}
    choice = choices.get(("", ""))
    if choice is None:
        return ToolPlan()
    why = _ranking(choices)
    if failed := subject.failed.get(choice.name):
        return _instead(f"{choice.name} failed: {failed}", request, subject, settings)
    if choice.confidence < settings.threshold or _is_close(choice, tools[choice.name], settings):
        return _instead(f"not sure enough: {why}", request, subject, settings)
    call = _fill(tools[choice.name], subject, choices, settings.threshold)
    if call is None:
        return _instead(f"cannot fill {choice.name} ({why})", request, subject, settings)
    return ToolPlan((call,), (why,))


def _is_close(choice: LabelChoice, tool: ToolSpec, settings: PlanSettings) -> bool:
    """Return whether a tool that writes is not much likelier than the second one."""
    if tool.reads or tool.name in {settings.fallback, *_FALLBACKS}:
        return False
    second = max((odds for name, odds in choice.odds.items() if name != choice.name), default=0.0)
    return choice.confidence < settings.margin * (choice.confidence + second)


def _instead(why: str, request: Request, subject: Subject, settings: PlanSettings) -> ToolPlan:
    """Hold back: call the fallback, with the reason where it takes words."""
    wanted = (settings.fallback,) if settings.fallback else _FALLBACKS
    known = {tool.name: tool for tool in request.tools}
    tool = next((known[name] for name in wanted if name in known), None)
    call = _fill(tool, subject, {}, 0.0, because=why) if tool else None
    return ToolPlan((call,) if call else (), (why,))


def _fill(
    tool: ToolSpec, subject: Subject, choices: Choices, threshold: float, because: str = ""
) -> PlannedCall | None:
    """Fill a tool's arguments; None when one that it needs cannot be filled."""
    required: Json = tool.input_schema.get("required") or ()
    arguments: dict[str, Json] = {}
    for name, schema in properties(tool).items():
        choice = choices.get((tool.name, name))
        if "const" in schema:
            arguments[name] = schema["const"]
        elif choice and choice.confidence >= threshold:
            arguments[name] = enum_values(schema)[choice.name]
        elif name in required and _takes_words(schema):
            arguments[name] = _words(schema, subject.text, because)
        elif name in required:
            return None
    return PlannedCall(tool.name, arguments)


def _takes_words(schema: Mapping[str, Json]) -> bool:
    kinds: Json = as_schema(schema).get("type")
    is_string = kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
    return is_string and "enum" not in schema and not any(key in schema for key in _SHAPED)


def _words(schema: Mapping[str, Json], text: str, because: str) -> str:
    """Quote the row, cut where it is long; nothing is said that the row does not say."""
    line = " ".join(text.split())
    quoted = f"“{line if len(line) <= _QUOTE else line[: _QUOTE - 1].rstrip() + '…'}”"
    said = f"{because}. {quoted}" if because else quoted
    limit: Json = schema.get("maxLength")
    return said[:limit] if isinstance(limit, int) else said


def _ranking(choices: Choices) -> str:
    """Show the likeliest tools: refund_customer 64%, close_ticket 12%."""
    choice = choices.get(("", ""))
    if choice is None:
        return "no tool to choose"
    best = sorted(choice.odds.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {odds:.0%}" for name, odds in best)
