"""Streams of odd servers: pieces of calls find their call, and an end is an end."""

import json
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest

from walagent.errors import ModelUnavailableError
from walagent.message import Json, ModelSpec, Reply, Request, Stop, Usage
from walagent.models.exchange import DONE
from walagent.models.openai.response_body import error_body, reply_of
from walagent.models.openai.streamed_body import gather

SPEC = ModelSpec("m", "openai", "some-model")


def piece(arguments: Json = None, name: Json = None, **fields: Json) -> dict[str, Any]:
    """Write a piece of a call."""
    given = {"name": name, "arguments": arguments}
    return {**fields, "function": {key: value for key, value in given.items() if value is not None}}


def chunk(reason: Json = None, **delta: Json) -> dict[str, Any]:
    """Write a chunk."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


async def gathered(chunks: Iterable[Json], *, done: bool = True) -> tuple[Json, str]:
    """Add chunks up; give the answer, and what was shown."""
    shown: list[str] = []

    async def stream() -> AsyncGenerator[Json]:
        for one in chunks:
            yield one
        if done:
            yield DONE

    return await gather(stream(), shown.append), "".join(shown)


async def read(*chunks: Json, done: bool = True) -> Reply:
    """Read what chunks add up to."""
    answer, _ = await gathered(chunks, done=done)
    return reply_of(answer, SPEC, Request("", ()))


A, B = ("find", {"q": "1"}), ("stop", {})
WHOLE_A = {"arguments": '{"q":"1"}', "name": "find"}
WHOLE_B = {"arguments": "{}", "name": "stop"}
STREAMS: dict[str, tuple[list[list[dict[str, Any]]], list[tuple[str, Json]]]] = {
    "numbered": (
        [
            [piece("", "find", index=0, id="a")],
            [piece('{"q":', index=0)],
            [piece("", "stop", index=1, id="b")],
            [piece("{}", index=1)],
            [piece('"1"}', index=0)],
        ],
        [A, B],
    ),
    "all have the number 0": (
        [[piece(**WHOLE_A, index=0, id="a")], [piece(**WHOLE_B, index=0, id="b")]],
        [A, B],
    ),
    "all have the number 0, in one chunk": (
        [[piece(**WHOLE_A, index=0, id="a"), piece(**WHOLE_B, index=0, id="b")]],
        [A, B],
    ),
    "the number 0 and no IDs": (
        [[piece(**WHOLE_A, index=0)], [piece(**WHOLE_B, index=0)]],
        [A, B],
    ),
    "the number 0, one tool twice": (
        [[piece(**WHOLE_A, index=0, id="a")], [piece(**WHOLE_A, index=0, id="b")]],
        [A, A],
    ),
    "the number 0, in pieces": (
        [
            [piece('{"q":', "find", index=0, id="a")],
            [piece('"1"}', index=0)],
            [piece("", "stop", index=0, id="b")],
            [piece("{}", index=0)],
        ],
        [A, B],
    ),
    "neither number nor ID": ([[piece('{"q":', "find", id="a")], [piece('"1"}')]], [A]),
    "empty ID and type": (
        [[piece("", "find", id="a")], [piece('{"q":"1"}', id="", type="", name="")]],
        [A],
    ),
    "no number, the ID repeated": (
        [[piece('{"q":', "find", id="a")], [piece('"1"}', id="a")], [piece(**WHOLE_B, id="b")]],
        [A, B],
    ),
    "no number, interleaved": (
        [
            [piece('{"q":', "find", id="a")],
            [piece("", "stop", id="b")],
            [piece('"1"}', id="a")],
            [piece("{}", id="b")],
        ],
        [A, B],
    ),
    "names repeated": (
        [[piece('{"q":', "find", index=0, id="a")], [piece('"1"}', "find", index=0, id="a")]],
        [A],
    ),
    "a new ID for each piece": (
        [[piece('{"q":', "find", index=0, id="a")], [piece('"1"}', index=0, id="x")]],
        [A],
    ),
    "one ID for two calls": (
        [[piece(**WHOLE_A, index=0, id="a")], [piece(**WHOLE_B, index=1, id="a")]],
        [A, B],
    ),
    "the ID comes late": (
        [[piece("", "find", index=0)], [piece('{"q":"1"}', index=0, id="a")]],
        [A],
    ),
    "a number that is lost": (
        [[piece('{"q":', "find", index=0, id="a")], [piece('"1"}')]],
        [A],
    ),
    "null for name and arguments": (
        [
            [{"index": 0, "id": "a", "function": {"name": "find", "arguments": None}}],
            [{"index": 0, "id": None, "function": {"name": None, "arguments": '{"q":"1"}'}}],
        ],
        [A],
    ),
    "arguments as an object": (
        [[piece({"q": "1"}, "find", index=0, id="a")], [piece({}, "stop", index=0, id="b")]],
        [A, B],
    ),
    "numbers for IDs": (
        [[piece(**WHOLE_A, index=0, id=1)], [piece(**WHOLE_B, index=0, id=2)]],
        [A, B],
    ),
    "an empty last piece with ID and name": (
        [[piece(**WHOLE_A, index=0, id="a")], [piece("", "find", index=0, id="a")]],
        [A],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
async def test_pieces_of_calls_find_their_call(name: str) -> None:
    """By what the server gives: a number, an ID, or neither."""
    pieces, expected = STREAMS[name]
    chunks = [chunk(tool_calls=one) for one in pieces]
    reply = await read(*chunks, chunk("tool_calls"))
    assert [(call.name, call.arguments) for call in reply.calls] == expected
    assert len({call.id for call in reply.calls}) == len(expected)


async def test_a_call_of_before_there_were_several_is_read() -> None:
    """Under the name that it had then."""
    first = chunk(function_call={"name": "find", "arguments": '{"q":'})
    reply = await read(first, chunk("function_call", function_call={"arguments": '"1"}'}))
    assert [(call.name, call.arguments) for call in reply.calls] == [A]


@pytest.mark.parametrize(
    "odd",
    [{"choices": []}, {"choices": None}, {"choices": [{"delta": None}]}, {}, None, 7],
    ids=str,
)
async def test_odd_chunks_change_nothing(odd: Json) -> None:
    """Filters, keep-alives and counts come in chunks of their own."""
    reply = await read(odd, chunk(content="hi"), odd, chunk("stop"), odd)
    assert (reply.text, reply.stop) == ("hi", Stop.END)


@pytest.mark.parametrize("reason", [None, ""])
async def test_a_stream_without_a_reason_is_whole_if_it_says_that_it_is_done(reason: Json) -> None:
    """Otherwise what came before it may have been cut off."""
    call = chunk(reason, tool_calls=[piece(**WHOLE_A, index=0, id="a")])
    assert (await read(call)).stop is Stop.TOOL
    with pytest.raises(ModelUnavailableError):
        await read(call, done=False)


async def test_usage_of_a_stream_that_was_cut_is_known() -> None:
    """Some servers count in each chunk; the last count is the sum."""
    first = {**chunk(content="a"), "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    second = {**chunk(content="b"), "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    with pytest.raises(ModelUnavailableError) as caught:
        await read(first, second, done=False)
    assert caught.value.usage == Usage(5, 0, 0, 2)


async def test_text_in_pieces_and_reasoning_between_them() -> None:
    """Mistral writes content as a list while it reasons."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    chunks = [chunk(content=[thought]), chunk(content=[{"type": "text", "text": "7"}])]
    answer, shown = await gathered([*chunks, chunk("stop")])
    assert shown == "7"
    assert answer["choices"][0]["message"]["reasoning_content"] == "hm"


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ({"error": {"code": 502, "message": "Provider disconnected"}}, 502),
        ({"error": {"code": "server_error", "message": "Provider disconnected"}}, None),
        (
            {
                "error": {"code": 429, "message": "Provider disconnected"},
                "choices": [{"delta": {"content": ""}, "finish_reason": "error"}],
            },
            429,
        ),
    ],
    ids=str,
)
async def test_an_error_in_the_middle_is_an_error(last: Json, status: int | None) -> None:
    """What was written before it is no answer."""
    answer, _ = await gathered([chunk(content="a"), last], done=False)
    failure = error_body(json.loads(json.dumps(answer)))
    assert failure is not None
    assert (failure.status, failure.message) == (status, "Provider disconnected")
