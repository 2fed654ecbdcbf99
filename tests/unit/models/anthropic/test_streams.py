"""Streams of servers that imitate the Messages API: deltas find their block."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from walagent.errors import ModelUnavailableError
from walagent.message import Json, ModelSpec, Reply, Request, Stop, Usage
from walagent.models.anthropic.request_body import body_of
from walagent.models.anthropic.response_body import reply_of
from walagent.models.anthropic.streamed_body import gather

SPEC = ModelSpec("m", "anthropic", "claude-x")
START = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def begun(name: str, **fields: Json) -> dict[str, Any]:
    """A block of a call begins."""
    block = {"type": "tool_use", "id": f"id_{name}", "name": name, "input": {}}
    return {"type": "content_block_start", "content_block": block, **fields}


def piece(text: str, **fields: Json) -> dict[str, Any]:
    """A piece of a call's input."""
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "delta": delta, **fields}


def end(reason: Json) -> dict[str, Any]:
    """The answer ends."""
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 9},
    }


async def read(*events: Json) -> Reply:
    """Read what events add up to."""

    async def stream() -> AsyncGenerator[Json]:
        for event in events:
            yield event

    return reply_of(await gather(stream(), lambda _: None), SPEC, Request("", ()))


@pytest.mark.parametrize(
    ("first", "second"),
    [({"index": 0}, {"index": 1}), ({"index": 0}, {"index": 0}), ({}, {})],
    ids=["numbered", "all have the number 0", "without numbers"],
)
async def test_deltas_find_their_block(first: dict[str, Json], second: dict[str, Json]) -> None:
    """By its number, or else the last that began."""
    reply = await read(
        START,
        begun("find", **first),
        piece('{"q": ', **first),
        piece('"1"}', **first),
        begun("stop", **second),
        piece("{}", **second),
        end("tool_use"),
        STOP,
    )
    assert [(call.name, call.arguments) for call in reply.calls] == [
        ("find", {"q": "1"}),
        ("stop", {}),
    ]
    assert reply.usage == Usage(5, 0, 0, 9)


@pytest.mark.parametrize("reason", ["tool_use", "tool_calls", "stop", "end_turn", None])
async def test_an_end_is_known_by_any_name(reason: Json) -> None:
    """Gateways pass on the word of the provider behind them."""
    reply = await read(START, begun("find"), piece("{}"), end(reason), STOP)
    assert reply.stop is Stop.TOOL


async def test_a_stream_that_was_cut_is_no_answer() -> None:
    """What it cost is known all the same."""
    with pytest.raises(ModelUnavailableError) as caught:
        await read(START, begun("find"), piece("{}"))
    assert caught.value.usage == Usage(5, 0, 0, 1)


def test_null_takes_every_mark_of_the_cache_out() -> None:
    """A gateway that refuses the field refuses it everywhere."""
    asked = Request("be brief", (), parameters={"cache_control": None})
    assert "cache_control" not in str(body_of(asked, SPEC))
