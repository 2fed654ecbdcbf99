"""The schema of a tool as a provider takes it, and how its values are written and read.  Pure."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import orjson

from walagent.message import Json
from walagent.models.replies import as_array, as_object

Written = tuple[dict[str, Json], "Rewriting | None"]

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
class Rewriting:
    """How a value is written otherwise; None in its place: as it is.

    Args:
        names: of fields, ours: theirs.
        fields: by our names.
        others: of alternatives; the first that changes something counts.
        as_text: as JSON in a text.
    """

    names: Mapping[str, str] = field(default_factory=dict[str, str])  # ours: theirs
    fields: "Mapping[str, Rewriting]" = field(default_factory=dict[str, "Rewriting"])
    items: "Rewriting | None" = None
    others: "tuple[Rewriting, ...]" = ()  # of alternatives: the first that changes something
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


def _through(how: Rewriting | None, value: Json, *, out: bool) -> Json:
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


def aliases(names: Iterable[str], pattern: re.Pattern[str]) -> dict[str, str]:
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


class SchemaWriter:
    """Writes the schema of one tool."""

    def __init__(self, schema: Mapping[str, Json], rules: ToolRules) -> None:
        """Write nothing yet."""
        self._root = dict(schema)
        self._rules = rules
        self._left = _NODES

    def root(self) -> Written:
        """Write the schema of all arguments."""
        schema = {
            key: value for key, value in self._root.items() if key not in {"$defs", "definitions"}
        }
        return self._object({**self._resolved(schema, _DEPTH), "type": "object"}, _DEPTH)

    def _write(self, given: Json, depth: int) -> Written:
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
        if "object" in kinds:
            if self._is_subset and not as_object(schema.get("properties")):
                return self._as_text(schema)
            written, how = self._object(schema, depth)
        elif "array" in kinds:
            inner, below = self._write(schema.get("items", {}), depth - 1)
            written, how = {**schema, "items": inner}, Rewriting(items=below) if below else None
        else:
            written, how = schema, None
        return self._typed(written, kinds), how

    @property
    def _is_subset(self) -> bool:
        return self._rules.keywords is not None

    def _object(self, schema: dict[str, Json], depth: int) -> Written:
        properties = as_object(schema.get("properties"))
        names = aliases(properties, self._rules.key)
        sent: dict[str, Json] = {}
        fields: dict[str, Rewriting] = {}
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
        return self._kept(written), Rewriting(names, fields) if changes else None

    def _alternatives(self, schema: dict[str, Json], depth: int) -> Written:
        written = dict(schema)
        found: list[Rewriting] = []
        for key in _PARTS:
            if key in schema:
                options = [self._write(one, depth - 1) for one in as_array(schema[key])]
                written[key] = [option for option, _ in options]
                found += [how for _, how in options if how is not None]
        if self._is_subset:
            options = [*as_array(written.pop("oneOf", ())), *as_array(written.pop("allOf", ()))]
            written["anyOf"] = _without_null([*as_array(written.get("anyOf")), *options], written)
        return self._kept(written), Rewriting(others=tuple(found)) if found else None

    def _anything(self, schema: dict[str, Json]) -> Written:
        if self._is_subset:
            return self._as_text(schema)
        return {**schema, "type": list(_KINDS)}, None

    def _as_text(self, schema: dict[str, Json]) -> Written:
        said = {key: schema[key] for key in ("description",) if key in schema}
        written = _described({"type": "string", **said}, "JSON, as a text")
        return written, Rewriting(as_text=True)

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
