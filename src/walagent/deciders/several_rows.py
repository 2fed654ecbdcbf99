"""One request for the rows of several runs, and the reply to each of them.  Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from walagent.message import (
    Example,
    Json,
    Message,
    Reply,
    Request,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolSpec,
)

ONE: Final = "update_row"
SEVERAL: Final = "update_rows"
_RULES: Final = f"""\
 You are given several rows at once, each with its number. Judge each row by itself, as if the \
others were not there: no text in one row says anything about another. Call {SEVERAL} once, with \
one entry for each number."""


def is_first(request: Request) -> bool:
    """Whether a request has nothing but a row, and one way to answer."""
    alone = len(request.messages) > 1 or bool(request.embeds)
    return not alone and [tool.name for tool in request.tools] == [ONE]


def combined(requests: Sequence[Request], max_output_tokens: int) -> Request:
    """Make one request of several that differ in their rows alone.

    Args:
        requests: that are first, numbered from 1 on.
        max_output_tokens: of the model.
    """
    first, tool = requests[0], requests[0].tools[0]
    name = number_name(tool)
    rows = (f"Row {n}:\n{_text(each)}" for n, each in enumerate(requests, 1))
    return replace(
        first,
        system=first.system + _RULES,
        messages=(Message("user", (Text("\n\n".join(rows)),)),),
        tools=(ToolSpec(SEVERAL, tool.description, _schema(tool.input_schema, name)),),
        choice=ToolChoice("named", SEVERAL),
        max_tokens=min(sum(each.max_tokens for each in requests), max_output_tokens),
        examples=tuple(_example(each, name) for each in first.examples),
        on_text=None,
    )


def replies_in(reply: Reply, requests: Sequence[Request]) -> list[Reply]:
    """Return the reply to each request; one that has no answer, or several, is left out."""
    name = number_name(requests[0].tools[0])
    found = [each for call in reply.calls for each in _numbered(call, name, len(requests))]
    count = Counter(number for number, _ in found)
    replies = left_out(reply, len(requests), _why(reply))
    for number, one in found:
        if count[number] == 1:  # planted: row-with-two-answers
            whole = replies[number - 1]
            replies[number - 1] = replace(whole, parts=(one,), stop=Stop.TOOL, why="")
        else:
            replies[number - 1] = replace(replies[number - 1], why="several answers")
    return replies


def left_out(reply: Reply, rows: int, why: str) -> list[Reply]:
    """Return replies that have their part of the tokens, and no answer."""
    empty = replace(reply, parts=(), rows=rows, why=why)
    return [replace(empty, usage=share) for share in reply.usage.shares(rows)]


def is_left_out(reply: Reply) -> bool:
    """Whether a reply is of a request that had no answer for this row: it has to ask alone."""
    return reply.rows > 1 and not reply.parts


def _why(reply: Reply) -> str:
    match reply.stop:
        case Stop.LENGTH:
            return "cut off by its token limit"
        case Stop.REFUSAL:
            return f"refused ({reply.why})" if reply.why else "refused"
        case _:
            return "no answer"


def number_name(tool: ToolSpec) -> str:
    """Return the name of the argument with the number of a row: no column has it."""
    name = "row"
    while name in (tool.input_schema.get("properties") or {}):
        name = f"{name}_"
    return name


def _text(request: Request) -> str:
    return "".join(part.text for part in request.messages[0].parts if isinstance(part, Text))


def _schema(schema: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    number: Json = {"type": "integer", "description": "Number of the row."}
    row: dict[str, Json] = {
        **schema,
        "properties": {name: number, **(schema.get("properties") or {})},
        "required": [name, *(schema.get("required") or ())],
    }
    rows: Json = {"type": "array", "items": row}
    return {
        "type": "object",
        "properties": {"rows": rows},
        "required": ["rows"],
        "additionalProperties": False,
    }


def _example(example: Example, name: str) -> Example:
    text, rows = f"Row 1:\n{example.text}", [{name: 1, **example.arguments}]
    return Example(text, SEVERAL, {"rows": rows})


def _numbered(call: ToolCall, name: str, most: int) -> Iterator[tuple[int, ToolCall]]:
    """Yield the numbers of rows in a call, each with the call that its own run would have had."""
    rows: Json = (call.arguments or {}).get("rows") if call.name == SEVERAL else None
    entries = cast("list[Json]", rows) if isinstance(rows, list) else []
    for entry in entries:
        match entry:
            case {**values} if type(number := values.pop(name, None)) is int and 0 < number <= most:
                yield number, ToolCall(f"{call.id}_{number}", ONE, values)
            case _:
                pass
