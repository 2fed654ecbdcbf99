"""The OpenAI Chat Completions format, outwards: a `Request` becomes a JSON body.  Pure."""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import orjson

from walagent.errors import ModelRejectedError
from walagent.message import (
    Json,
    Message,
    ModelSpec,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from walagent.models import prompt
from walagent.models.openai import NAME
from walagent.models.openai.tool_rules import is_deepseek, is_google
from walagent.models.replies import (
    as_object,
)

OWNED = frozenset(
    {
        "messages",
        "model",
        "n",
        "parallel_tool_calls",
        "stream",
        "stream_options",
        "tool_choice",
        "tools",
    }
)
# What servers call the output limit.  A parameter of one of these names chooses it.
LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")

REASONING = ("reasoning_content", "reasoning")  # vLLM, llama.cpp, DeepSeek; Ollama, OpenRouter
_OPENAI_MODEL = re.compile(r"(?:[\w.-]+/)*(?:o\d|chatgpt-|gpt-(?!oss))")
_O_SERIES = re.compile(r"(?:[\w.-]+/)*o\d")
# These reason by default, and then reject tools in Chat Completions.
_TOOLS_OR_REASONING = re.compile(r"(?:openai/)?gpt-(?:5\.6|6-(?:sol|luna))")
# These write to the prompt cache for a price, and find an entry only where one was marked to end.
_BREAKPOINTS = re.compile(r"(?:openai/)?gpt-(?:5\.[6-9]|[6-9])")
_SKIPPED = "skip_thought_signature_validator"  # Gemini takes it for another model's call
_CACHES = 16  # see _cache_key


def body_of(request: Request, spec: ModelSpec, *, official: bool) -> dict[str, Any]:
    """Write *request* as the body of ``POST /chat/completions``.

    Args:
        official: OpenAI itself answers, which refuses fields that others want, and has others.

    Raises:
        ModelRejectedError: a parameter names a field that is ours.
    """
    given = passed_on(request, spec, OWNED)
    body = opening(request, spec, official=official)
    body["messages"] = list(_messages(request, spec, official=official))
    if request.tools:
        body["tools"] = _tools(request)
        body["tool_choice"] = _choice(request.choice, spec, given)
        if not request.parallel_calls and not _O_SERIES.match(spec.model_id):
            body["parallel_tool_calls"] = False  # true is the default; the o models refuse it
        if _TOOLS_OR_REASONING.match(spec.model_id):
            body["reasoning_effort"] = "none"
    return prompt.assembled(body, given)


def opening(request: Request, spec: ModelSpec, *, official: bool) -> dict[str, Any]:
    """Build the fields that do not depend on how tools are sent."""
    body: dict[str, Any] = {"model": spec.model_id, **_limit(request, spec, official=official)}
    if request.tier:
        body["service_tier"] = request.tier
    if official:
        body["prompt_cache_key"] = _cache_key(request)
        if not request.continues and _marks(spec, official=official):
            body["prompt_cache_options"] = {"mode": "explicit"}  # no mark behind the row
    return body


def passed_on(request: Request, spec: ModelSpec, owned: frozenset[str]) -> dict[str, Json]:
    """Give the parameters to lay over the body, without those that only choose the limit's name.

    Raises:
        ModelRejectedError: one of them is a field that is ours.
    """
    given = prompt.parameters(spec, request, owned)
    return {key: value for key, value in given.items() if key not in LIMITS or value is None}


def _limit(request: Request, spec: ModelSpec, *, official: bool) -> dict[str, int]:
    """Write the output limit under the name that the server knows, or that a parameter chooses.

    A number bounds it, too; `true` chooses the name alone.
    """
    most = prompt.max_tokens(spec, request)
    given = {**spec.parameters, **request.parameters}
    for name in LIMITS:
        chosen = given.get(name)
        if chosen is True:
            return {name: most}
        if isinstance(chosen, int | float) and chosen > 0:
            return {name: min(most, int(chosen))}
        if chosen is not None:
            raise ModelRejectedError(
                f"{spec.name}: parameter {name} must be a number of tokens, true or null"
            )
    newer = official or _OPENAI_MODEL.match(spec.model_id)
    return {"max_completion_tokens" if newer else "max_tokens": most}


def system_message(text: str, spec: ModelSpec, *, official: bool) -> dict[str, Any]:
    """Write the system prompt, marked as the end of what all runs of an agent share."""
    if not _marks(spec, official=official):
        return {"role": "system", "content": text}
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    return {"role": "system", "content": [{"type": "text", "text": text, **mark}]}


def _marks(spec: ModelSpec, *, official: bool) -> bool:
    """Whether OpenAI itself answers, with a model that knows breakpoints."""
    ours = official and "azure" not in (spec.base_url or "")
    return ours and _BREAKPOINTS.match(spec.model_id) is not None


def _messages(request: Request, spec: ModelSpec, *, official: bool) -> Iterator[dict[str, Any]]:
    if system := prompt.system_text(request):
        yield system_message(system, spec, official=official)
    for turn in prompt.turns(request.messages):
        if turn.role == "assistant":
            yield from _assistant(turn, spec, official=official)
        else:
            yield from _user(turn)


def _user(turn: Message) -> Iterator[dict[str, Any]]:
    words: list[str] = []
    for part in turn.parts:
        match part:
            case ToolResult(call_id, _, content, is_error):
                text = f"ERROR: {content}" if is_error else content  # Chat has no field for it
                yield {"role": "tool", "tool_call_id": call_id, "content": text}
            case Text(text) if text:
                words.append(text)
            case _:
                pass
    if words:
        yield {"role": "user", "content": "\n\n".join(words)}


def _assistant(turn: Message, spec: ModelSpec, *, official: bool) -> Iterator[dict[str, Any]]:
    text = "".join(part.text for part in turn.parts if isinstance(part, Text))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    calls = [_call(part) for part in turn.parts if isinstance(part, ToolCall)]
    if calls:
        message["tool_calls"] = calls
    if not official:
        _replay_thinking(turn, message, calls)
        _replace_missing(spec, message, calls)
    if calls or text:
        yield message


def _call(call: ToolCall) -> dict[str, Any]:
    given = prompt.unusable(call) if call.arguments is None else call.arguments
    text = orjson.dumps(dict(given)).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": text},
    }


def _replay_thinking(turn: Message, message: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    """Put back what `_thinking` took out, where it stood."""
    for part in turn.parts:
        match part:
            case Thinking(provider, {"call": str(call_id), "extra_content": extra}):
                for call in calls:
                    if provider == NAME and call["id"] == call_id:
                        call["extra_content"] = extra
            case Thinking(provider, raw) if provider == NAME:
                thoughts = as_object(raw)
                message.update({name: thoughts[name] for name in REASONING if name in thoughts})
            case _:
                pass


def _replace_missing(spec: ModelSpec, message: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    """Fill in what a server wants back and another model did not write, or nobody kept."""
    if calls and is_deepseek(spec):
        message.setdefault("reasoning_content", "")
    if calls and is_google(spec) and not any("extra_content" in call for call in calls):
        calls[0]["extra_content"] = {"google": {"thought_signature": _SKIPPED}}


def _tools(request: Request) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.input_schema),
            },
        }
        for tool in request.tools
    ]


def _choice(choice: ToolChoice, spec: ModelSpec, given: Mapping[str, Json]) -> Json:
    if is_deepseek(spec) and choice.mode in {"required", "named"} and _thinks(spec, given):
        return "auto"  # it refuses to be forced while it thinks; that it called is checked
    match choice.mode:
        case "named":
            return {"type": "function", "function": {"name": choice.name}}
        case mode:
            return mode


def _thinks(spec: ModelSpec, given: Mapping[str, Json]) -> bool:
    kind = as_object(given.get("thinking")).get("type")
    return kind == "enabled" or ("reasoner" in spec.model_id and kind != "disabled")


def _cache_key(request: Request) -> str:
    """Send requests that begin alike to the same cache.

    OpenAI keeps one cache per key and machine, and a key that is asked too often spills over to
    cold machines.  So the runs of one agent share a few keys, and the calls of one run share one.
    """
    names = ",".join(tool.name for tool in request.tools)
    digest = sha256(f"{request.system}\0{names}".encode(errors="replace")).hexdigest()[:24]
    return f"walagent-{digest}-{request.run_id % _CACHES}"
