"""Whether a call's arguments are what the tool's schema asks for.  Nothing is repaired."""

from collections.abc import Mapping
from functools import lru_cache

import orjson
from jsonschema import Draft202012Validator

from walagent.domain.tool_spec import Tool
from walagent.message import Json

_MOST = 3  # problems reported at once


def what_is_wrong(tool: Tool, arguments: Mapping[str, Json]) -> str | None:
    """Name what the schema refuses, or return None."""
    problem = misfit_of(tool.input_schema, dict(arguments), "arguments")
    return f"{tool.name} refuses these arguments: {problem}" if problem else None


def misfit_of(schema: Mapping[str, Json], value: Json, root: str = "result") -> str | None:
    """Name what a schema refuses in a value, or return None."""
    validator = _validator(orjson.dumps(dict(schema), option=orjson.OPT_SORT_KEYS))
    problems = [
        f"{'.'.join(str(p) for p in error.absolute_path) or root}: {error.message[:200]}"
        for _, error in zip(range(_MOST), validator.iter_errors(value), strict=False)
    ]
    return "; ".join(problems) or None


@lru_cache(maxsize=1024)  # building one takes longer than checking a hundred calls
def _validator(schema: bytes) -> Json:
    return Draft202012Validator(orjson.loads(schema))
