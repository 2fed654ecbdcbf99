"""Between our tools and those of a provider, both ways: names, types, nulls, enums, sizes.  Pure.

Our schemas are JSON Schema, with the names that tables and functions have.  A provider takes less:
`presented` writes a request as it takes it, and reads its calls back under our names.  Where a
schema cannot be written, its values are, as JSON in a text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from walagent.errors import ModelRejectedError
from walagent.message import (
    Example,
    Message,
    Part,
    Reply,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from walagent.models.replies import as_object
from walagent.models.schema_writer import Rewriting, SchemaWriter, ToolRules, aliases


@dataclass(frozen=True, slots=True)
class Presented:
    """A request as the provider takes it, and the way back."""

    request: Request
    _names: Mapping[str, str]  # of tools, theirs: ours
    _values: Mapping[str, Rewriting]  # of arguments, by our name of the tool

    def read(self, reply: Reply) -> Reply:
        """Give the calls of a reply their names of ours."""
        if not self._names and not self._values:
            return reply
        return replace(reply, parts=tuple(map(self._read_part, reply.parts)))

    def _read_part(self, part: Any) -> Any:  # noqa: ANN401 - a part, which stays one
        if not isinstance(part, ToolCall):
            return part
        name = self._names.get(part.name, part.name)
        how = self._values.get(name)
        if how is None or part.arguments is None:
            return replace(part, name=name)
        return replace(part, name=name, arguments=as_object(how.back(dict(part.arguments))))


def presented(request: Request, rules: ToolRules) -> Presented:
    """Write the tools of a request, and all that names them, as a provider takes them.

    Raises:
        ModelRejectedError: there are more tools than it takes.
    """
    if rules.most_tools is not None and len(request.tools) > rules.most_tools:
        raise ModelRejectedError(
            f"the run has {len(request.tools)} tools, and the provider takes {rules.most_tools}"
        )
    names = aliases((tool.name for tool in request.tools), rules.name)
    tools: list[ToolSpec] = []
    values: dict[str, Rewriting] = {}
    for tool in request.tools:
        schema, how = SchemaWriter(tool.input_schema, rules).root()
        tools.append(ToolSpec(names.get(tool.name, tool.name), tool.description, schema))
        if how is not None:
            values[tool.name] = how
    messages = request.messages
    if names or values or rules.call_id is not None:
        messages = tuple(_message(one, names, values, rules) for one in messages)
    choice = replace(request.choice, name=names.get(request.choice.name, request.choice.name))
    written = replace(
        request,
        tools=tuple(tools),
        choice=choice,
        messages=messages,
        examples=tuple(_example(one, names, values) for one in request.examples),
    )
    return Presented(written, {theirs: ours for ours, theirs in names.items()}, values)


def _message(
    message: Message, names: Mapping[str, str], values: Mapping[str, Rewriting], rules: ToolRules
) -> Message:
    return replace(
        message, parts=tuple(_part(part, names, values, rules) for part in message.parts)
    )


def _part(
    part: Part, names: Mapping[str, str], values: Mapping[str, Rewriting], rules: ToolRules
) -> Part:
    match part:
        case ToolCall(id=call_id, name=name, arguments=arguments):
            if (how := values.get(name)) is not None and arguments is not None:
                arguments = as_object(how.out(dict(arguments)))
            sent = names.get(name, name)
            return replace(part, id=_call_id(call_id, rules), name=sent, arguments=arguments)
        case ToolResult(call_id=call_id, name=name):
            return replace(part, call_id=_call_id(call_id, rules), name=names.get(name, name))
        case _:
            return part


def _call_id(call_id: str, rules: ToolRules) -> str:
    if rules.call_id is None or rules.call_id.fullmatch(call_id):
        return call_id
    return sha256(call_id.encode(errors="replace")).hexdigest()[:9]


def _example(
    example: Example, names: Mapping[str, str], values: Mapping[str, Rewriting]
) -> Example:
    how = values.get(example.tool)
    arguments = dict(example.arguments)
    return replace(
        example,
        tool=names.get(example.tool, example.tool),
        arguments=as_object(how.out(arguments)) if how else arguments,
    )
