"""Whether a call's arguments are what the tool's schema asks for.  Nothing is repaired."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator

from walagent.domain.fitted_arguments import fitted
from walagent.domain.tool_spec import Tool
from walagent.message import Json

_MOST = 3  # problems reported at once
_LONGEST = 200  # characters of one


def what_is_wrong(tool: Tool, arguments: Mapping[str, Json]) -> str | None:
    """Name what the schema refuses in arguments as they are meant, or return None."""
    problem = misfit_of(tool.input_schema, fitted(tool, arguments), "arguments")
    return f"{tool.name} refuses these arguments: {problem}" if problem else None


def misfit_of(schema: Mapping[str, Json], value: Json, root: str = "result") -> str | None:
    """Name what a schema refuses in a value, or return None."""
    validator = _validator(orjson.dumps(dict(schema), option=orjson.OPT_SORT_KEYS))
    problems = [
        f"{'.'.join(str(p) for p in error.absolute_path) or root}: {_words(error)[:_LONGEST]}"
        for _, error in zip(range(_MOST), validator.iter_errors(value), strict=False)
    ]
    return "; ".join(problems) or None


def _words(error: Any) -> str:  # noqa: ANN401 - jsonschema's errors have no types
    """Say what is wrong in JSON: the library writes values as Python does."""
    expected: Json = error.validator_value
    match error.validator:
        case "type":
            kinds = [expected] if isinstance(expected, str) else expected
            return f"{_json(error.instance)} is not of type {' or '.join(kinds)}"
        case "enum":
            return f"{_json(error.instance)} is not one of {', '.join(map(_json, expected))}"
        case "const":
            return f"{_json(error.instance)} is not {_json(expected)}"
        case _:
            return error.message


def _json(value: Json) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST // 2 else f"{text[: _LONGEST // 2]}…"


@lru_cache(maxsize=1024)  # building one takes longer than checking a hundred calls
def _validator(schema: bytes) -> Json:
    return Draft202012Validator(orjson.loads(schema))
