"""What a key takes, in words: the same sentence wherever a wrong value is refused."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

_PATTERNS: Final = {
    "^[a-z0-9_]{1,63}$": "must have only a-z, 0-9 and _, up to 63: a slot's name is lower case",
}
Schema = Mapping[str, Any]

_NOUNS: Final = {
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "a list",
    "object": "a mapping",
}


def expected(schema: Schema) -> str:
    """Say what a value must be."""
    match schema:
        case {"anyOf": [*_, {"type": "array", "items": items}]}:
            return f"must be a list of {_words(items)}" if "enum" in items else "must be a list"
        case {"anyOf": [_, {"pattern": str(pattern)}]}:
            if "MB" in pattern:
                return "must be a size such as 512MB, 1 GB or 1048576"
            return "must be a time such as 30s, 2 minutes or 7 days"
        case {"enum": [*_]} | {"const": _}:
            return f"must be {_words(schema)}"
        case {"type": "string", "pattern": str(pattern)}:
            return of_pattern(pattern)
        case {"type": str(kind)}:
            return f"must be {_NOUNS[kind]}{_range(schema)}"
        case _:
            return "must be a mapping"


def of_pattern(pattern: str) -> str:
    """Say in words what a regular expression of the configuration accepts."""
    if pattern in _PATTERNS:
        return _PATTERNS[pattern]
    if pattern.startswith("^https?://"):
        return "must be a URL that begins with http:// or https:// and has a host"
    first = "A-Z and a-z" if "A-Z" in pattern else "a-z"
    also = "".join(mark for mark in "_.-" if mark in pattern.rpartition("]")[0])
    return f"must begin with {first}, and have only {first}, 0-9{f' and {also}' if also else ''}"


def choices(schema: Schema) -> Sequence[str]:
    """List the words that a key or each of its elements can be; empty: any."""
    match schema:
        case {"anyOf": [*_, {"type": "array", "items": items}]}:
            return choices(items)
        case {"enum": [*words]}:
            return words
        case _:
            return ()


def schema_at(root: type[BaseModel], path: Sequence[str | int]) -> Schema | None:
    """Return the JSON Schema of the value at *path*; None: there is no such key."""
    whole = _schema_of(root)
    here = _resolved(whole, whole)
    for step in path:
        match here:
            case {"properties": {**known}} if step in known:
                found = known[step]
            case {"additionalProperties": found} if isinstance(step, str) and not isinstance(
                found, bool
            ):
                pass
            case {"items": found} | {"anyOf": [_, {"items": found}]}:
                pass
            case _:
                return None
        here = _resolved(found, whole)
    return here


def keys_at(root: type[BaseModel], path: Sequence[str | int]) -> Sequence[str]:
    """List the keys that are known at *path*."""
    return list((schema_at(root, path) or {}).get("properties", ()))


@cache
def _schema_of(root: type[BaseModel]) -> Schema:
    return root.model_json_schema()


def _resolved(schema: Schema, whole: Schema) -> Schema:
    """Follow references, and leave out null: a key that is not set."""
    match schema:
        case {"$ref": str(name)}:
            return _resolved(whole["$defs"][name.rpartition("/")[2]], whole)
        case {"anyOf": [found, {"type": "null"}]}:
            return _resolved(found, whole)
        case {"anyOf": [*found, {"type": "null"}]}:
            return {**schema, "anyOf": found}
        case _:
            return schema


def _words(schema: Schema) -> str:
    *first, last = schema.get("enum") or [schema["const"]]
    return f"{', '.join(map(str, first))} or {last}" if first else str(last)


def _range(schema: Schema) -> str:
    match schema:
        case {"minimum": least, "maximum": most}:
            return f" from {least} to {most}"
        case {"exclusiveMinimum": bound}:
            return f" greater than {bound}"
        case {"minimum": least}:
            return f" of at least {least}"
        case {"minLength": 1} | {"minItems": 1}:
            return " that is not empty"
        case _:
            return ""
