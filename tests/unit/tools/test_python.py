"""Python functions as tools: what is read from them, and what they accept."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from enum import StrEnum
from types import ModuleType
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from walagent.deciders.arguments import what_is_wrong
from walagent.domain.tool_spec import Effect, Tool
from walagent.errors import ConfigError, ToolFailedError
from walagent.message import Json
from walagent.tools.python import Function, PythonTool, ToolContext, find_tools, tool

CONTEXT = ToolContext(None, "key", 1, {})


def declared(function: Function) -> PythonTool:
    """What a declaration has made of a function."""
    return function.__walagent_tool__  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess]


class Kind(StrEnum):
    """What kind it is."""

    BUG = "bug"
    BILLING = "billing"


class Place(BaseModel):
    """Where it is."""

    street: str
    no: int = 1


@tool(effect=Effect.IDEMPOTENT)
async def post(  # noqa: PLR0917 - a tool is called by names
    ctx: ToolContext,
    ticket_id: int,
    level: Literal["low", "high"],
    kind: Kind = Kind.BUG,
    place: Place | None = None,
    tags: list[str] | None = None,
) -> str:
    """Post a ticket somewhere.

    This paragraph is for people.
    """
    return f"{ctx.run_id} {ticket_id!r} {level} {kind!r} {place!r} {tags!r}"


def test_name_docstring_and_annotations_are_the_contract() -> None:
    """They are what the model is shown; the context is not."""
    made = declared(post)
    assert (made.name, made.description) == ("post", "Post a ticket somewhere.")
    assert made.effect is Effect.IDEMPOTENT
    assert made.target == f"{__name__}:post"
    schema = made.input_schema
    assert schema["required"] == ["ticket_id", "level"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["ticket_id"] == {"title": "Ticket Id", "type": "integer"}
    assert schema["properties"]["level"]["enum"] == ["low", "high"]
    assert "ctx" not in schema["properties"]


def test_the_schema_refuses_what_the_annotations_do() -> None:
    """The model is told before the function is called."""
    as_tool = Tool("post", "python", "x", "", declared(post).input_schema, Effect.IDEMPOTENT)
    good = {"ticket_id": 1, "level": "low", "kind": "billing", "place": {"street": "x"}}
    assert what_is_wrong(as_tool, good) is None
    for bad in ({"level": "low"}, {**good, "level": "x"}, {**good, "kind": "y"}, {**good, "z": 1}):
        assert what_is_wrong(as_tool, bad) is not None


async def test_arguments_arrive_as_their_annotations_say() -> None:
    """Models and enums, not dictionaries and strings; what is left out keeps its default."""
    made = declared(post)
    told = await made.call(CONTEXT, {"ticket_id": 1, "level": "low", "place": {"street": "x"}})
    assert told == "1 1 low <Kind.BUG: 'bug'> Place(street='x', no=1) None"


async def test_wrong_arguments_are_reported_and_the_function_is_not_called() -> None:
    """Each with its name."""
    with pytest.raises(
        ToolFailedError, match=r"post refuses these arguments: ticket_id: .*level: "
    ):
        await declared(post).call(CONTEXT, {"ticket_id": "x", "level": "medium"})
    with pytest.raises(ToolFailedError, match="more"):
        await declared(post).call(CONTEXT, {"ticket_id": 1, "level": "low", "more": 1})


async def test_a_function_without_annotations_takes_text() -> None:
    """What else could it be?"""

    @tool()
    async def shout(_ctx, words):  # noqa: ANN001, ANN202
        """Shout."""
        return words.upper()

    assert declared(shout).input_schema["properties"]["words"]["type"] == "string"
    assert await declared(shout).call(CONTEXT, {"words": "hey"}) == "HEY"


def _plain(_ctx: ToolContext) -> None:
    """Not a coroutine function."""


async def _silent(_ctx: ToolContext) -> None: ...


async def _generator(_ctx: ToolContext) -> AsyncIterator[int]:
    """Not a coroutine function either."""
    yield 1


@pytest.mark.parametrize("function", [_plain, _silent, _generator])
def test_what_cannot_be_a_tool_is_refused_where_it_is_declared(function: Any) -> None:  # noqa: ANN401
    """With its name, when its module is imported."""
    with pytest.raises(ConfigError, match=f"tool {function.__name__}: must be an async function"):
        tool()(function)


@contextmanager
def module(name: str, **values: Json) -> Iterator[str]:
    """A module that can be imported."""
    made = ModuleType(name)
    vars(made).update(values)
    sys.modules[name] = made
    try:
        yield name
    finally:
        del sys.modules[name]


def test_the_tools_of_a_module_are_found_by_their_target() -> None:
    """All that are declared, and nothing else; one that is imported twice is one."""
    with module("desk_tools", post=post, again=post, other=_plain, number=1) as name:
        assert find_tools([name]) == {f"{__name__}:post": declared(post)}


def test_a_module_that_cannot_be_imported_is_named() -> None:
    """The daemon does not start without a tool that it was told of."""
    with pytest.raises(ConfigError, match="tools: no_such_module cannot be imported"):
        find_tools(["no_such_module"])
