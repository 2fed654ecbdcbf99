"""A tool as an MCP server describes it: its fingerprint, and whether it can be one of ours.

Its name, description and schema are what a model is shown, and they are the server's words: so a
person accepts them, and what was accepted is known by its fingerprint.  What the server says about
effects (annotations) is not looked at.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from walagent.domain.tool_spec import Effect, mcp_tool_name
from walagent.message import Json

_MOST_SCHEMA: Final = 16_384  # bytes; it is sent with every request
_MOST_DESCRIPTION: Final = 4_096  # characters


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool of a server.

    Args:
        server: its name in the configuration.
        tool: the tool's name, as the server calls it.
    """

    server: str
    tool: str
    description: str
    input_schema: Mapping[str, Json]
    effect: Effect = Effect.UNSAFE
    timeout: float = 30.0

    @property
    def name(self) -> str:
        """Give the name that agents and models know it by; providers take no dots."""
        return mcp_tool_name(self.server, self.tool)

    @property
    def target(self) -> str:
        """Give the name that people know it by."""
        return f"{self.server}.{self.tool}"

    @property
    def fingerprint(self) -> str:
        """What a person accepts: equal for equal name, description and schema."""
        offered = [self.tool, self.description, dict(self.input_schema)]
        document = orjson.dumps(offered, default=str, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(document).hexdigest()[:32]

    @property
    def trouble(self) -> str:
        """Say why it cannot be a tool of an agent; "" when it can."""
        schema = dict(self.input_schema)
        size = len(orjson.dumps(schema, default=str))
        if size > _MOST_SCHEMA:
            return f"its schema has {size:,} bytes; {_MOST_SCHEMA:,} are allowed"
        if len(self.description) > _MOST_DESCRIPTION:
            count = len(self.description)
            return f"its description has {count:,} characters; {_MOST_DESCRIPTION:,} are allowed"
        if schema.get("type") != "object":
            return "its schema is not one of an object"
        if _leads_out(schema):
            return "its schema refers to another document"
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            return f"its schema is none: {error.message[:200]}"
        return ""


def _leads_out(schema: Json) -> bool:
    """Whether a reference leads out of the document: nothing is fetched to read a schema."""
    if isinstance(schema, dict):
        items = cast("dict[str, Json]", schema).items()
        return any(
            (key in {"$ref", "$dynamicRef"} and not str(value).startswith("#")) or _leads_out(value)
            for key, value in items
        )
    if isinstance(schema, list):
        return any(_leads_out(each) for each in cast("list[Json]", schema))
    return False
