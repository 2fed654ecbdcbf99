"""Steps to messages and back: what is recorded is what the model is shown again.

The messages only ever grow at their end, so the prefix of a run's requests stays byte-equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import orjson

from walagent.domain.run import Step, StepKind
from walagent.message import (
    Json,
    Message,
    Part,
    Reply,
    Request,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

# In a note: the model, or the tier, that is asked from then on.
FALLBACK = "fallback"
TIER = "tier"
# In a note: the next model of a cascade, which is asked from then on.
CASCADE = "cascade"
# In a note: the request with rows of several runs had no answer for this one, which asks alone.
ALONE = "alone"
# In a reply or a note: the last model of a cascade was asked, and what it says has no effect.
CONTROL = "control"
# In a note: the run and step that a fork goes on from.
FORK = "fork"
# In a reply: a person interrupted it, and this is what was said until then.
CUT_OFF = "cut_off"
_NOTHING = "(an empty answer)"
# Of a provider's reasoning: what it needs to read it back, and what people can read.
_OPAQUE = frozenset({"signature", "data", "extra_content"})
_READABLE = frozenset({"thinking", "text", "reasoning", "reasoning_content", "summary"})
# Said after a retry to a model that has said its last words: providers want the user to speak last.
_AGAIN = "That did not end this task. Try again."


def reply_to_json(reply: Reply) -> dict[str, Json]:
    """Write a reply as a step's content."""
    content: dict[str, Json] = {
        "parts": [_part_to_json(part) for part in reply.parts],
        "stop": reply.stop.value,
        "model": reply.model,
    }
    said = {"note": reply.note, "why": reply.why, "tier": reply.tier}
    rows = {"rows": reply.rows} if reply.rows > 1 else {}
    return {**content, **{key: text for key, text in said.items() if text}, **rows}


def without_thinking(reply: Reply) -> Reply:
    """Leave the readable reasoning out; what only the provider can read stays, to be sent back."""
    parts = (_unread(part) for part in reply.parts)
    return replace(reply, parts=tuple(part for part in parts if part is not None))


def _unread(part: Text | Thinking | ToolCall) -> Text | Thinking | ToolCall | None:
    if not isinstance(part, Thinking):
        return part
    raw = cast("dict[str, Json]", part.raw) if isinstance(part.raw, dict) else {}
    if not _OPAQUE & raw.keys():
        return None
    return Thinking(part.provider, {**raw, **dict.fromkeys(_READABLE & raw.keys(), "")})


def reply_from_json(content: Mapping[str, Any]) -> Reply:
    """Read a reply back."""
    parts = tuple(_part_from_json(part) for part in content["parts"])
    return Reply(
        parts,
        Stop(content["stop"]),
        model=content.get("model", ""),
        note=content.get("note", ""),
        why=content.get("why", ""),
        tier=content.get("tier", ""),
    )


def request_to_json(request: Request) -> dict[str, Json]:
    """Write what a request says, for people: instructions and texts, without schemas of tools."""
    return {
        "system": request.system,
        "messages": [
            {"role": message.role, "text": "\n".join(_texts(message))}
            for message in request.messages
        ],
        "tools": [tool.name for tool in request.tools],
    }


def transcript(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps that a model is shown: no fall-backs, nor the reply that one was made for.

    The model that is asked instead gets the request that the first one got, and so does the next
    one of a cascade.  Nor that the run was forked: a fork without changes goes on as the run that
    it is of.
    """
    silent = {n for n, step in enumerate(steps) if _is_silent(step)}
    refused = {n - 1 for n in silent if "refused" in steps[n].content}
    hidden = silent | refused | _unsure(steps)
    return [step for n, step in enumerate(steps) if n not in hidden] if hidden else steps


def without_unsure(steps: Sequence[Step]) -> Sequence[Step]:
    """Leave out the replies of models of a cascade that were not sure."""
    hidden = _unsure(steps)
    return [step for n, step in enumerate(steps) if n not in hidden] if hidden else steps


def is_control(step: Step) -> bool:
    """Return whether a step is of the control sample of a cascade."""
    return step.kind in {StepKind.REPLY, StepKind.NOTE} and CONTROL in step.content


def _unsure(steps: Sequence[Step]) -> set[int]:
    """Return the places of the replies that the next model of a cascade does not see."""
    found, last = set[int](), None
    for n, step in enumerate(steps):
        if step.kind == StepKind.REPLY:
            last = n
        elif last is not None and step.kind == StepKind.NOTE and _is_unsure(step):
            found.add(last)
    return found


def _is_unsure(step: Step) -> bool:
    return CASCADE in step.content and bool(step.content.get("unsure"))


def _is_silent(step: Step) -> bool:
    if is_control(step):
        return True
    silent = {FALLBACK, TIER, CASCADE, FORK, ALONE}
    return step.kind == StepKind.NOTE and not silent.isdisjoint(step.content)


def _texts(message: Message) -> Iterator[str]:
    return (part.text for part in message.parts if isinstance(part, Text))


def result_to_json(call: ToolCall, content: str, *, is_error: bool) -> dict[str, Json]:
    """Write a tool's answer as a step's content."""
    return {"call_id": call.id, "name": call.name, "content": content, "is_error": is_error}


def messages(opening: str, steps: Sequence[Step]) -> tuple[Message, ...]:
    """Rebuild the conversation: the data block, then replies, results and notes in order."""
    turns = [Message("user", (Text(opening),))]
    waiting: list[Part] = []  # the user's side since the last reply
    edits = dict[str, Json]()  # arguments that a person edited, by call
    for step in transcript(steps):
        match step.kind:
            case StepKind.REPLY if CUT_OFF in step.content and not step.content["parts"]:
                pass
            case StepKind.REPLY:
                _flush(turns, waiting)
                turns.append(Message("assistant", _said(reply_from_json(step.content))))
            case StepKind.RESULT:
                waiting.append(_result(step.content, edits.pop(step.content["call_id"], None)))
            case StepKind.DECISION if "edited" in step.content:
                edits[step.content["call_id"]] = step.content["edited"]
            case StepKind.NOTE if "text" in step.content:
                waiting.append(Text(step.content["text"]))
            case StepKind.NOTE if not waiting and not _goes_on(turns[-1]):
                waiting.append(Text(_AGAIN))
            case _:
                pass
    _flush(turns, waiting)
    return tuple(turns)


def _said(reply: Reply) -> tuple[Part, ...]:
    """Give what a reply said: roles must alternate, so nothing has to be something."""
    if reply.calls or reply.text.strip():
        return reply.parts
    return (*reply.parts, Text(_NOTHING))


def _goes_on(turn: Message) -> bool:
    """Whether somebody has something to say after a turn without being asked again."""
    return turn.role == "user" or any(isinstance(part, ToolCall) for part in turn.parts)


def _flush(turns: list[Message], waiting: list[Part]) -> None:
    if waiting and turns[-1].role == "user":  # roles must alternate
        turns[-1] = Message("user", (*turns[-1].parts, *waiting))
    elif waiting:
        turns.append(Message("user", tuple(waiting)))
    waiting.clear()


def _result(content: Mapping[str, Any], edited: Json = None) -> ToolResult:
    text: str = content["content"]
    if edited is not None:
        text = f"A person edited the arguments: {orjson.dumps(edited).decode()}\n{text}"
    return ToolResult(content["call_id"], content["name"], text, is_error=content["is_error"])


def _part_to_json(part: Text | Thinking | ToolCall) -> dict[str, Json]:
    match part:
        case Text(text):
            return {"text": text}
        case Thinking(provider, raw):
            return {"thinking": raw, "provider": provider}
        case ToolCall(call_id, name, None, raw, problem):
            call = {"call": call_id, "name": name, "arguments": None, "raw": raw}
            return {**call, "problem": problem} if problem else call
        case ToolCall(call_id, name, arguments, _):
            return {"call": call_id, "name": name, "arguments": dict(arguments or {})}


def _part_from_json(raw: Mapping[str, Any]) -> Text | Thinking | ToolCall:
    if "call" in raw:
        unusable = (raw.get("raw", ""), raw.get("problem", ""))
        return ToolCall(raw["call"], raw["name"], raw["arguments"], *unusable)
    if "thinking" in raw:
        return Thinking(raw["provider"], raw["thinking"])
    return Text(raw["text"])
