"""What has to be chosen for a request: a tool, and a value for every argument that has a list.

In: the request.  Out: `LabelQuestion`s, which consist of texts; the embedding model answers them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from walagent.message import Example, Json, Request, ToolSpec

# Sets columns of the row: it goes together with any other tool and never instead of one.
SETTER = "update_row"

# These want words in a language of their own.  A customer's sentence is no SQL and no address.
_NOT_BY_QUOTING = frozenset({"query", "http_request", "web_search", "remember", "recall"})


@dataclass(frozen=True, slots=True)
class Option:
    """One possible answer, in words: a description and texts that it was the answer to."""

    name: str
    description: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """What to choose among: an argument's values, or with `argument` "" the tools themselves."""

    tool: str
    argument: str
    options: tuple[Option, ...]


def actions(tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Give the tools that compete: one of them is called, or none."""
    known = list(tools)
    acting = [t for t in known if t.name != SETTER and t.name not in _NOT_BY_QUOTING]
    if len(acting) < len(known) and all(tool.name == "do_nothing" for tool in acting):
        return []  # setting columns is something, and does not compete with nothing
    return acting


def questions(request: Request) -> list[LabelQuestion]:
    """List all that has to be chosen to answer *request*."""
    tools = actions(request.tools)
    which = LabelQuestion("", "", tuple(_tool_option(tool, request.examples) for tool in tools))
    return [which, *(q for tool in request.tools for q in _of_arguments(tool, request.examples))]


def enum_values(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Give the values of an argument that has a list, by what they are called; else nothing."""
    values: Json = schema.get("enum")
    if not isinstance(values, list):
        return {}
    return {str(value): value for value in cast("list[Json]", values) if value is not None}


def properties(tool: ToolSpec) -> dict[str, Mapping[str, Json]]:
    """Give the schemas of a tool's arguments by name."""
    given = as_schema(tool.input_schema.get("properties"))
    return {name: as_schema(schema) for name, schema in given.items()}


def as_schema(value: Json) -> Mapping[str, Json]:
    """Take a JSON object as one; anything else says nothing."""
    return cast("Mapping[str, Json]", value) if isinstance(value, dict) else {}


def _tool_option(tool: ToolSpec, examples: Sequence[Example]) -> Option:
    said = tuple(example.text for example in examples if example.tool == tool.name)
    return Option(tool.name, _in_words(tool.name, tool.description), said)


def _of_arguments(tool: ToolSpec, examples: Sequence[Example]) -> Iterator[LabelQuestion]:
    own = [example for example in examples if example.tool == tool.name]
    for name, schema in properties(tool).items():
        if values := enum_values(schema):
            meanings = value_descriptions(schema, list(values))
            options = (
                Option(
                    value,
                    _in_words(value, meanings.get(value, "")),
                    tuple(e.text for e in own if e.arguments.get(name) == values[value]),
                )
                for value in values
            )
            yield LabelQuestion(tool.name, name, tuple(options))


def value_descriptions(schema: Mapping[str, Json], values: Sequence[str]) -> dict[str, str]:
    """Find what each value of an argument means.

    From the key ``x-enum-descriptions``, else from an argument's description of the form
    ``billing = payments and invoices; bug = something is broken`` (a colon does as well).
    """
    if explicit := as_schema(schema.get("x-enum-descriptions")):
        return {value: str(explicit[value]) for value in values if value in explicit}
    text = str(schema.get("description") or "")
    names = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
    found = list(re.finditer(rf"(?<!\w)({names})\s*[=:]\s*", text))
    ends = [*(match.start() for match in found), len(text)][1:]
    return {
        match[1]: text[match.end() : end].strip(" ;,.\n")
        for match, end in zip(found, ends, strict=True)
    }


def _in_words(name: str, description: str) -> str:
    """Put a name before what it means: names carry meaning, too."""
    words = name.replace("_", " ")
    return f"{words}: {description}" if description not in {"", name} else words
