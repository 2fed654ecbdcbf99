"""Answers in pieces, of which the next waits for the client."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import orjson
import pytest

from walagent.sync.asgi import answer, send_events

MOST = 600_000  # bytes of a piece: twice what is aimed at, and some


class Client:
    """A client that takes pieces when it is let."""

    def __init__(self) -> None:
        self.messages: list[MutableMapping[str, Any]] = []
        self.reads = asyncio.Event()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Take a message."""
        self.messages.append(message)
        await self.reads.wait()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x" * 3_000_000,
        [],
        [b"1"],
        [b"1", b"2"],
        [b'"%b"' % (b"y" * n) for n in (10, 300_000, 5, 2_000_000, 0, 262_144, 1)],
        [b"%d" % n for n in range(400_000)],
    ],
    ids=["nothing", "bytes", "empty", "one", "two", "large elements", "many"],
)
async def test_a_large_answer_is_sent_in_pieces(body: bytes | list[bytes]) -> None:
    """Which are the whole, of the length that was announced."""
    client = Client()
    client.reads.set()
    await answer(client.send, 200, body)
    start, *rest = client.messages
    sent = b"".join(each["body"] for each in rest)
    expected = body if isinstance(body, bytes) else b"[" + b",".join(body) + b"]"
    assert sent == expected
    assert dict(start["headers"])[b"content-length"] == str(len(expected)).encode()
    assert [each.get("more_body", False) for each in rest] == [True] * (len(rest) - 1) + [False]
    assert max(len(each["body"]) for each in rest) < MOST
    assert (len(expected) > MOST) == (len(rest) > 1)
    assert isinstance(body, bytes) or len(orjson.loads(sent)) == len(body)


async def test_a_client_that_stands_still_is_sent_no_more() -> None:
    """What it has not asked for is in memory once, for all clients."""
    client = Client()
    sending = asyncio.create_task(answer(client.send, 200, [b"1" * 1_000_000] * 10))
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(client.messages) == 1
    client.reads.set()
    await sending
    assert sum(len(each.get("body", b"")) for each in client.messages) == 10_000_011


async def test_events_are_sent_in_pieces() -> None:
    """So that a client that stands still has no copy of a transaction."""
    client, messages = Client(), [b"1" * 1_000_000] * 3 + [b"2"] * 100_000
    sending = asyncio.create_task(send_events(client.send, messages))
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(client.messages) == 1
    client.reads.set()
    await sending
    sent = [each["body"] for each in client.messages]
    assert b"".join(sent) == b"".join(b"data: %b\n\n" % each for each in messages)
    assert max(map(len, sent)) < MOST
    assert all(each["more_body"] for each in client.messages)
