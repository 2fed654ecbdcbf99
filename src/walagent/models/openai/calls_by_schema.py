"""Tool calls without the server's `tools`: the answer itself must fit one JSON schema.

For servers that ignore `tools` or do not hold a model to `tool_choice`, yet honour
`response_format`.  Each tool is one branch of the schema, words are another; a forced tool leaves
one branch only.  One action a reply.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from walagent.errors import ModelRejectedError
from walagent.message import (
    Json,
    Message,
    ModelSpec,
    Reply,
    Request,
    Stop,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from walagent.models import prompt
from walagent.models.openai import request_body, response_body
from walagent.models.replies import RAW_LIMIT, as_object, clean, read_call_value

OWNED = request_body.OWNED | {"response_format"}

_SPEECH = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}

_RULES = """\
Answer with one JSON object and nothing else.
To call a tool: {"name": "<tool>", "arguments": {...}}
To answer in words: {"text": "<your answer>"}
Tool results come back as {"result_of": "<tool>", "failed": <bool>, "content": "<text>"}.

Tools, each with the JSON schema of its arguments:"""


def body_of(request: Request, spec: ModelSpec, *, official: bool) -> dict[str, Any]:
    """Write *request* as the body of ``POST /chat/completions``, without `tools`.

    Raises:
        ModelRejectedError: a parameter names a field that is ours, or the named tool is unknown.
    """
    given = request_body.passed_on(request, spec, OWNED)
    body = request_body.opening(request, spec, official=official)
    body["messages"] = list(_messages(request, spec, official=official))
    if request.tools:
        schema = action_schema(request, spec)
        schema = _wrapped(schema) if official else schema
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "action", "schema": schema},
        }
    return prompt.assembled(body, given)


def reply_of(answer: Json, spec: ModelSpec, request: Request) -> Reply:
    """Read the answer; words that are no action stay words, and the caller evaluates them.

    Raises:
        ModelUnavailableError: it is no whole answer.
    """
    reply = response_body.reply_of(answer, spec, request)
    if not request.tools or reply.stop is not Stop.END:
        return reply
    action = _action(reply.text, request)
    if action is None:
        return reply
    thoughts = (part for part in reply.parts if not isinstance(part, Text | ToolCall))
    stop = Stop.TOOL if isinstance(action, ToolCall) else Stop.END
    return Reply((*thoughts, action), stop, reply.usage, reply.model)


def action_schema(request: Request, spec: ModelSpec) -> Mapping[str, Json]:
    """Give the schema of what may be answered now.

    Raises:
        ModelRejectedError: the named tool is not among the request's.
    """
    choice = request.choice
    if choice.mode == "none":
        return _SPEECH
    tools = [tool for tool in request.tools if choice.mode != "named" or tool.name == choice.name]
    if not tools:
        raise ModelRejectedError(f"{spec.name}: the request has no tool {choice.name} to call")
    branches = [_branch(tool) for tool in tools]
    roots = {tool.name: _rooted(tool.input_schema, tool.name) for tool in tools if _refs(tool)}
    if choice.mode == "auto":
        branches.append(_SPEECH)
    schema: dict[str, Json] = {"anyOf": branches} if len(branches) > 1 else {**branches[0]}
    return {**schema, "$defs": roots} if roots else schema


def _wrapped(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """Make the root an object: OpenAI itself takes no other."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    root = {
        "type": "object",
        "properties": {"action": inner},
        "required": ["action"],
        "additionalProperties": False,
    }
    return {**root, "$defs": schema["$defs"]} if "$defs" in schema else root


def _branch(tool: ToolSpec) -> dict[str, Json]:
    arguments = {"$ref": f"#/$defs/{tool.name}"} if _refs(tool) else dict(tool.input_schema)
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": [tool.name]}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _refs(tool: ToolSpec) -> bool:
    """Tell whether the tool's schema points into itself, and so must keep its own root."""
    return b'"$ref"' in orjson.dumps(dict(tool.input_schema))


def _rooted(schema: Json, name: str) -> Json:
    """Let the schema's references begin at its new place in ours."""
    match schema:
        case {"$ref": str(ref), **rest} if ref.startswith("#"):
            return {**_rooted(rest, name), "$ref": f"#/$defs/{name}{ref[1:]}"}
        case {**fields}:
            return {key: _rooted(value, name) for key, value in fields.items()}
        case [*items]:
            return [_rooted(value, name) for value in items]
        case _:
            return schema


def _messages(request: Request, spec: ModelSpec, *, official: bool) -> Iterator[dict[str, Any]]:
    if system := "\n\n".join(_system(request)):
        yield request_body.system_message(system, spec, official=official)
    for turn in prompt.turns(request.messages):
        if text := "\n\n".join(_lines(turn)):
            yield {"role": turn.role, "content": text}


def _system(request: Request) -> Iterator[str]:
    if words := prompt.system_text(request):
        yield words
    if request.tools:
        yield "\n".join([_RULES, *(_described(tool) for tool in request.tools)])


def _described(tool: ToolSpec) -> str:
    schema = orjson.dumps(dict(tool.input_schema), option=orjson.OPT_SORT_KEYS).decode()
    return f"- {tool.name}: {tool.description}\n  {schema}"


def _lines(turn: Message) -> Iterator[str]:
    """Write a turn as text; JSON keeps a tool's result from posing as anything else."""
    for part in turn.parts:
        match part:
            case ToolCall(name=name, arguments=arguments):
                given = prompt.unusable(part) if arguments is None else arguments
                yield _json({"name": name, "arguments": dict(given)})
            case ToolResult(name=name, content=content, is_error=failed):
                yield _json({"result_of": name, "failed": failed, "content": content})
            case Text(text) if text:
                yield _json({"text": text}) if turn.role == "assistant" else text
            case _:
                pass


def _json(value: Json) -> str:
    return orjson.dumps(value).decode()


def _action(text: str, request: Request) -> Text | ToolCall | None:
    """Read what should be one action; an object that breaks off or is none is a call gone wrong."""
    call_id = prompt.call_ids([None], request)[0]
    try:
        value: Json = json.loads(text)  # takes NaN, too: the call's arguments are evaluated below
    except (ValueError, RecursionError):
        begun = text.lstrip().startswith("{")
        return ToolCall(call_id, "", None, clean(text[:RAW_LIMIT])) if begun else None
    match as_object(value).get("action", value):
        case {"name": str(name), "arguments": arguments}:
            return read_call_value(call_id, name, arguments)
        case {"text": str(words)}:
            return Text(clean(words))
        case _:
            return None
