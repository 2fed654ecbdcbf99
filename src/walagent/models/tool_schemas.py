"""Between our tools and those of a provider, both ways: names, types, nulls, enums, sizes.  Pure.

Our schemas are JSON Schema, with the names that tables and functions have.  A provider takes less:
`presented` writes a request as it takes it, and reads its calls back under our names.  Where a
schema cannot be written, its values are, as JSON in a text.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

import orjson

from walagent.errors import ModelRejectedError
from walagent.message import (
    Example,
    Json,
    Message,
    Part,
    Reply,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from walagent.models.replies import as_array, as_object

_KINDS: Final = ("string", "number", "boolean", "object", "array", "null")
_PARTS: Final = ("anyOf", "oneOf", "allOf")
_NODES = 5_000  # of all schemas of a tool: references can be written out without end
_DEPTH = 24
_DIGEST = 8


@dataclass(frozen=True, slots=True)
class ToolRules:
    """What a provider takes of tools.

    Args:
        name: of a tool; what does not match is written otherwise.
        key: of an argument; the same.
        call_id: of a call; the same.
        most_tools: of one request; None: no limit is known.
        keywords: of a schema; what is not here is left out.  None: all of JSON Schema.
    """

    name: re.Pattern[str] = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
    key: re.Pattern[str] = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
    call_id: re.Pattern[str] | None = None
    most_tools: int | None = 128
    keywords: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Value:
    """How a value is written otherwise; None in its place: as it is."""

    names: Mapping[str, str] = field(default_factory=dict[str, str])  # ours: theirs
    fields: "Mapping[str, _Value]" = field(default_factory=dict[str, "_Value"])
    items: "_Value | None" = None
    others: "tuple[_Value, ...]" = ()  # of alternatives: the first that changes something
    as_text: bool = False

    def out(self, value: Json) -> Json:
        """Write a value as the provider has it."""
        if self.as_text:
            return orjson.dumps(value).decode()
        match value:
            case {**fields}:
                value = {
                    self.names.get(name, name): _through(self.fields.get(name), one, out=True)
                    for name, one in fields.items()
                }
            case [*items]:
                value = [_through(self.items, one, out=True) for one in items]
            case _:
                return value
        return self._by_others(value, out=True)

    def back(self, value: Json) -> Json:
        """Read a value of the provider."""
        if self.as_text:
            return _parsed(value)
        match value:
            case {**fields}:
                ours = {theirs: name for name, theirs in self.names.items()}
                known = {ours.get(str(key), str(key)): one for key, one in fields.items()}
                value = {
                    name: _through(self.fields.get(name), one, out=False)
                    for name, one in known.items()
                }
            case [*items]:
                value = [_through(self.items, one, out=False) for one in items]
            case _:
                return value
        return self._by_others(value, out=False)

    def _by_others(self, value: Json, *, out: bool) -> Json:
        changed = (_through(one, value, out=out) for one in self.others)
        return next((one for one in changed if one != value), value)


def _through(how: _Value | None, value: Json, *, out: bool) -> Json:
    if how is None:
        return value
    return how.out(value) if out else how.back(value)


def _parsed(value: Json) -> Json:
    """Read JSON that was asked for as a text; a text that is none is the value."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


@dataclass(frozen=True, slots=True)
class Presented:
    """A request as the provider takes it, and the way back."""

    request: Request
    _names: Mapping[str, str]  # of tools, theirs: ours
    _values: Mapping[str, _Value]  # of arguments, by our name of the tool

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
    names = _aliases((tool.name for tool in request.tools), rules.name)
    tools: list[ToolSpec] = []
    values: dict[str, _Value] = {}
    for tool in request.tools:
        schema, how = _Writer(tool.input_schema, rules).root()
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
    message: Message, names: Mapping[str, str], values: Mapping[str, _Value], rules: ToolRules
) -> Message:
    return replace(
        message, parts=tuple(_part(part, names, values, rules) for part in message.parts)
    )


def _part(
    part: Part, names: Mapping[str, str], values: Mapping[str, _Value], rules: ToolRules
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


def _example(example: Example, names: Mapping[str, str], values: Mapping[str, _Value]) -> Example:
    how = values.get(example.tool)
    arguments = dict(example.arguments)
    return replace(
        example,
        tool=names.get(example.tool, example.tool),
        arguments=as_object(how.out(arguments)) if how else arguments,
    )


def _aliases(names: Iterable[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Give a name that matches to each that does not, and no two the same."""
    known = list(names)
    taken = {name for name in known if pattern.fullmatch(name)}
    found: dict[str, str] = {}
    for name in known:
        if name not in taken:
            found[name] = _alias(name, taken, pattern)
            taken.add(found[name])
    return found


def _alias(name: str, taken: set[str], pattern: re.Pattern[str]) -> str:
    folded = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    plain = "".join(one for one in folded if not unicodedata.combining(one))
    plain = re.sub(r"[^A-Za-z0-9_]", "_", plain)
    plain = plain if re.match("[A-Za-z_]", plain) else f"_{plain}"
    if re.search("[A-Za-z0-9]", plain) and plain not in taken and pattern.fullmatch(plain):
        return plain
    digest = sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST]
    return f"{plain[: 63 - _DIGEST]}_{digest}"


class _Writer:
    """Writes the schema of one tool."""

    def __init__(self, schema: Mapping[str, Json], rules: ToolRules) -> None:
        self._root = dict(schema)
        self._rules = rules
        self._left = _NODES

    def root(self) -> tuple[dict[str, Json], _Value | None]:
        schema = {
            key: value for key, value in self._root.items() if key not in {"$defs", "definitions"}
        }
        return self._object({**self._resolved(schema, _DEPTH), "type": "object"}, _DEPTH)

    def _write(self, given: Json, depth: int) -> tuple[dict[str, Json], _Value | None]:
        self._left -= 1
        schema = self._resolved(as_object(given), depth)
        if not depth or self._left <= 0:
            schema = {}
        if self._is_subset and "const" in schema:
            schema = {**schema, "enum": [schema["const"]]}
        if any(key in schema for key in _PARTS) and "type" not in schema:
            return self._alternatives(schema, depth)
        kinds = _kinds_of(schema)
        if not kinds:
            return self._anything(schema)
        if set(kinds) & {"object"}:
            if self._is_subset and not as_object(schema.get("properties")):
                return self._as_text(schema)
            written, how = self._object(schema, depth)
        elif "array" in kinds:
            inner, below = self._write(schema.get("items", {}), depth - 1)
            written, how = {**schema, "items": inner}, _Value(items=below) if below else None
        else:
            written, how = schema, None
        return self._typed(written, kinds), how

    @property
    def _is_subset(self) -> bool:
        return self._rules.keywords is not None

    def _object(self, schema: dict[str, Json], depth: int) -> tuple[dict[str, Json], _Value | None]:
        properties = as_object(schema.get("properties"))
        names = _aliases(properties, self._rules.key)
        sent: dict[str, Json] = {}
        fields: dict[str, _Value] = {}
        for name, one in properties.items():
            written, how = self._write(one, depth - 1)
            if name in names:
                written = _described(written, f'"{name}"', first=True)
            sent[names.get(name, name)] = written
            if how is not None:
                fields[name] = how
        written = {**schema, "properties": sent}
        if required := as_array(schema.get("required")):
            written["required"] = [names.get(one, one) for one in required if one in properties]
        if isinstance(schema.get("additionalProperties"), dict):
            written["additionalProperties"], _ = self._write(
                schema["additionalProperties"], depth - 1
            )
        changes = names or fields
        return self._kept(written), _Value(names, fields) if changes else None

    def _alternatives(
        self, schema: dict[str, Json], depth: int
    ) -> tuple[dict[str, Json], _Value | None]:
        written = dict(schema)
        found: list[_Value] = []
        for key in _PARTS:
            if key in schema:
                options = [self._write(one, depth - 1) for one in as_array(schema[key])]
                written[key] = [option for option, _ in options]
                found += [how for _, how in options if how is not None]
        if self._is_subset:
            options = [*as_array(written.pop("oneOf", ())), *as_array(written.pop("allOf", ()))]
            written["anyOf"] = _without_null([*as_array(written.get("anyOf")), *options], written)
        return self._kept(written), _Value(others=tuple(found)) if found else None

    def _anything(self, schema: dict[str, Json]) -> tuple[dict[str, Json], _Value | None]:
        if self._is_subset:
            return self._as_text(schema)
        return {**schema, "type": list(_KINDS)}, None

    def _as_text(self, schema: dict[str, Json]) -> tuple[dict[str, Json], _Value | None]:
        said = {key: schema[key] for key in ("description",) if key in schema}
        written = _described({"type": "string", **said}, "JSON, as a text")
        return written, _Value(as_text=True)

    def _typed(self, schema: dict[str, Json], kinds: Sequence[str]) -> dict[str, Json]:
        if not self._is_subset:
            return {**schema, "type": kinds[0] if len(kinds) == 1 else list(kinds)}
        others = [kind for kind in kinds if kind != "null"]
        written = dict(schema)
        if "null" in kinds:
            written["nullable"] = True
        if "enum" in written:
            written = _text_enum(written)
        if len(others) == 1:
            written["type"] = others[0]
        else:
            written.pop("type", None)
            written["anyOf"] = [{"type": kind} for kind in others or ("string",)]
        return self._kept(written)

    def _kept(self, schema: dict[str, Json]) -> dict[str, Json]:
        """Leave out what the provider refuses; a format becomes a word of the description."""
        keywords = self._rules.keywords
        if keywords is None:
            return schema
        shape = schema.get("format")
        if isinstance(shape, str) and shape not in {"date-time", "enum"}:
            schema = _described(
                {k: v for k, v in schema.items() if k != "format"}, f"format {shape}"
            )
        return {key: value for key, value in schema.items() if key in keywords}

    def _resolved(self, schema: dict[str, Json], depth: int) -> dict[str, Json]:
        """Write a reference out: several providers and models refuse it, or read it wrongly."""
        seen = 0
        while isinstance(ref := schema.get("$ref"), str) and seen < depth:
            seen += 1
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self._pointed(ref), **rest}
        return {key: value for key, value in schema.items() if key != "$ref"}

    def _pointed(self, ref: str) -> dict[str, Json]:
        found: Json = self._root
        for name in ref.removeprefix("#").split("/")[1:]:
            key = name.replace("~1", "/").replace("~0", "~")
            found = as_object(found).get(key)
        return as_object(found) if ref.startswith("#") else {}


def _kinds_of(schema: Mapping[str, Json]) -> list[str]:
    """Return the types that a schema allows: as it says, or else as its values and parts do."""
    kind: Json = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [str(one) for one in as_array(kind)]
    values = as_array(schema.get("enum")) or ([schema["const"]] if "const" in schema else [])
    if values:
        return list(dict.fromkeys(map(_kind_of, values)))
    if "properties" in schema:
        return ["object"]
    return ["array"] if "items" in schema else []


def _kind_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _text_enum(schema: dict[str, Json]) -> dict[str, Json]:
    """Write a list of values that is not one of texts as words: only texts may be listed."""
    values = [value for value in as_array(schema["enum"]) if value is not None]
    if values and all(isinstance(value, str) and value for value in values):
        return {**schema, "enum": values}
    listed = ", ".join(orjson.dumps(value).decode() for value in values)
    rest = {key: value for key, value in schema.items() if key != "enum"}
    return _described(rest, f"one of {listed}") if values else rest


def _without_null(options: list[Json], schema: dict[str, Json]) -> list[Json]:
    kept = [option for option in options if option not in ({"type": "null"}, {"nullable": True})]
    kept = [option for option in kept if as_object(option).get("type") != "null"]
    if len(kept) < len(options):
        schema["nullable"] = True
    return kept


def _described(schema: dict[str, Json], words: str, *, first: bool = False) -> dict[str, Json]:
    said = schema.get("description")
    pair = (words, said) if first else (said, words)
    text = (": " if first else "; ").join(str(one) for one in pair if one)
    return {**schema, "description": text}
