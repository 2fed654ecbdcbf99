"""What a call's arguments mean to what is called with them.  Pure.

Two readers have the arguments: the schema, and PostgreSQL or another server.  What JSON Schema
allows and the other refuses is written so that both read the same; nothing else is changed.
"""

from collections.abc import Mapping
from typing import cast

from walagent.domain.tool_spec import Tool
from walagent.message import Json

_LARGEST = 2**63  # a larger integer is refused by what reads it
_DEPTH = 32  # of a schema


def fitted(tool: Tool, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Return arguments with integers for whole numbers, and no nulls for what has a default."""
    schema = dict(tool.input_schema)
    given = {
        name: value
        for name, value in arguments.items()
        if value is not None or not _has_default(tool, name)
    }
    return _object(_whole_numbers(schema, given, schema, _DEPTH))


def _has_default(tool: Tool, name: str) -> bool:
    """Whether an argument may be left out, and null is no value of its own that it can have."""
    schema = tool.input_schema
    known = _object(schema.get("properties"))
    if name not in known or name in (schema.get("required") or ()):
        return False
    return tool.kind == "sql" or (tool.target != "update_row" and not _allows_null(known[name]))


def _allows_null(schema: Json) -> bool:
    match schema:
        case {"enum": [*values]}:
            return None in values
        case {"type": str(kind)}:
            return kind == "null"
        case {"type": [*kinds]}:
            return "null" in kinds
        case {"anyOf": [*options]} | {"oneOf": [*options]}:
            return any(map(_allows_null, options))
        case {"const": value}:
            return value is None
        case _:
            return True  # of a reference, too: it is the schema's to say


def _whole_numbers(given: Json, value: Json, root: Json, depth: int) -> Json:
    schema = _object(given)
    if not schema or not depth:
        return value
    if isinstance(ref := schema.get("$ref"), str):
        return _whole_numbers(_pointed(ref, root), value, root, depth - 1)
    for option in _array(schema.get("anyOf") or schema.get("oneOf")):
        value = _whole_numbers(option, value, root, depth - 1)
    match value:
        case float() if _wants_integer(schema) and value.is_integer() and abs(value) < _LARGEST:
            return int(value)
        case {**fields}:
            known = _object(schema.get("properties"))
            other = schema.get("additionalProperties")
            return {
                name: _whole_numbers(known.get(name, other), one, root, depth - 1)
                for name, one in fields.items()
            }
        case [*items]:
            inner = schema.get("items")
            return [_whole_numbers(inner, one, root, depth - 1) for one in items]
        case _:
            return value


def _wants_integer(schema: Mapping[str, Json]) -> bool:
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds or ()
    return "integer" in kinds and "number" not in kinds


def _pointed(ref: str, root: Json) -> Json:
    """Return what a reference into the schema itself points at; None: nothing."""
    found: Json = root
    for name in ref.removeprefix("#").split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        found = _object(found).get(key)
    return found if ref.startswith("#") else None


def _object(value: Json) -> dict[str, Json]:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}


def _array(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else []
