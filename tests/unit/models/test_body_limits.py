"""An answer of a provider ends, or is left: what is read of it has a limit."""

import asyncio
import gzip
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any

import httpx2
import pytest

from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Message, ModelSpec, Request, Text, ToolSpec
from walagent.models import build_model
from walagent.models.batches import BatchState, batches_of
from walagent.models.body_limits import ANSWER, ERROR, STREAM, AnswerTooLongError, refusing_more
from walagent.models.model import Model

SLACK = 16 << 20  # bytes that are on their way
SPACES = b" " * (1 << 20)
PROVIDERS = ["openai", "anthropic"]
ASKED = Request("", (Message("user", (Text("hi"),)),), timeout=60)


class Endless:
    """A server that sends until nobody reads any more."""

    def __init__(self, piece: bytes, *headers: str, status: int = 200, begin: bytes = b"") -> None:
        self.sent = 0
        self.base_url = ""
        self._piece = piece
        self._begin = begin
        self._head = "\r\n".join((f"HTTP/1.1 {status} X", *headers, "connection: close"))

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator["Endless"]:
        """Serve on a port."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server:
            yield self

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next((n for n in head.split("\r\n") if n.startswith("content-length")), ":0")
            await reader.readexactly(int(length.split(":")[1]))
            writer.write(f"{self._head}\r\n\r\n".encode() + self._begin)
            while self.sent < 4 * STREAM:
                writer.write(self._piece)
                await writer.drain()
                self.sent += len(self._piece)
        writer.close()


@asynccontextmanager
async def asking(endless: Endless, provider: str) -> AsyncGenerator[Model]:
    """A model behind the server."""
    async with endless.serve():
        spec = ModelSpec("m", provider, "m", endless.base_url, credential="K", dimensions=2)
        model = build_model(spec, environ={"K": "k"})
        try:
            yield model
        finally:
            await model.aclose()


Use = Callable[[Model], Coroutine[Any, Any, object]]


async def chat(model: Model) -> object:
    """Ask for a reply."""
    return await model.complete(ASKED)


async def live(model: Model) -> object:
    """Ask for a reply that somebody reads as it is written."""
    return await model.complete(Request("", ASKED.messages, timeout=60, on_text=lambda _: None))


async def embed(model: Model) -> object:
    """Ask for an embedding."""
    schema = MappingProxyType({"type": "object", "properties": {"near": {"type": "string"}}})
    tools = (ToolSpec("update_row", "", schema),)
    return await model.complete(Request("", ASKED.messages, tools, timeout=60, embeds="near"))


async def look(model: Model) -> object:
    """Ask for the state of a batch."""
    made_of = batches_of(model)
    assert made_of is not None
    return await made_of.look("b")


async def results(model: Model) -> object:
    """Ask for the results of a batch of ten calls."""
    made_of = batches_of(model)
    assert made_of is not None
    return [line async for line in made_of.results(BatchState(ended=True, places=("f",)), 10)]


JSON = "content-type: application/json"
EVENTS = "content-type: text/event-stream"


@pytest.mark.parametrize(
    ("provider", "use"),
    [
        *(("openai", use) for use in (chat, live, embed, look, results)),
        *(("anthropic", use) for use in (chat, live, look, results)),
    ],
)
async def test_an_endless_answer_is_left(provider: str, use: Use) -> None:
    """After as many bytes as an answer of its kind can have."""
    endless = Endless(SPACES, JSON)
    async with asking(endless, provider) as model:
        with pytest.raises(ModelUnavailableError, match="answer too long"):
            await use(model)
    assert ANSWER / 2 < endless.sent < ANSWER + SLACK


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_event_without_an_end_is_left(provider: str) -> None:
    """It would be kept until it is whole."""
    endless = Endless(b"x" * (1 << 20), EVENTS, begin=b"data: ")
    async with asking(endless, provider) as model:
        with pytest.raises(ModelUnavailableError, match="answer too long"):
            await live(model)
    assert endless.sent < ANSWER + SLACK


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_stream_of_events_without_an_end_is_left(provider: str) -> None:
    """However many they are."""
    endless = Endless(b'data: {"type":"ping","x":"' + b"x" * (1 << 20) + b'"}\n\n', EVENTS)
    async with asking(endless, provider) as model:
        with pytest.raises(ModelUnavailableError, match="answer too long"):
            await live(model)
    assert endless.sent < STREAM + SLACK


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_is_small_only_while_it_is_compressed_is_left(provider: str) -> None:
    """A gigabyte of spaces has a megabyte of gzip."""
    bomb = gzip.compress(SPACES * 512, 9)
    endless = Endless(bomb, JSON, "content-encoding: gzip")
    async with asking(endless, provider) as model:
        with pytest.raises(ModelUnavailableError, match="answer too long"):
            await chat(model)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "error"),
    [(400, ModelRejectedError), (429, ModelLimitedError), (500, ModelUnavailableError)],
)
@pytest.mark.parametrize("use", [chat, live])
async def test_an_endless_error_is_what_its_status_says(
    provider: str, status: int, error: type[WalagentError], use: Use
) -> None:
    """Its words are cut."""
    endless = Endless(b"x" * (1 << 20), "content-type: text/plain", status=status)
    async with asking(endless, provider) as model:
        with pytest.raises(error):
            await use(model)
    assert endless.sent < ERROR + SLACK


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_client_with_proxies_of_its_own_has_a_limit(*, compressed: bool) -> None:
    """As that of MCP servers."""
    more = ("content-encoding: gzip",) if compressed else ()
    endless = Endless(SPACES, JSON, *more)
    async with (
        endless.serve(),
        httpx2.AsyncClient(event_hooks={"response": [refusing_more(ANSWER)]}) as client,
    ):
        with pytest.raises(AnswerTooLongError):
            await client.get(endless.base_url)
    assert endless.sent < ANSWER + SLACK
