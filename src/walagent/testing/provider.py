"""A local server that speaks the wire format of every provider and follows a script.

It validates each request against the wire format, as real providers do.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from walagent.errors import (
    ConfigError,
    ModelLimitedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Json, ModelSpec, Request, Usage
from walagent.models.cost import BATCH
from walagent.models.registry import find_provider, providers
from walagent.models.replies import as_object
from walagent.models.script import USAGE, Answer, Fault, Rule, Script
from walagent.models.wire_format import Body, WireError, WireFormat, need
from walagent.testing import fake_embeddings
from walagent.testing.fake_batches import FakeBatches
from walagent.testing.fake_embeddings import FakeEmbeddings
from walagent.testing.http_server import HttpServer, Incoming, Outgoing

KEY = "fake-key"  # the key that it accepts
CREDENTIAL = "FAKE_PROVIDER_KEY"  # the variable of the key in `environ`


@dataclass(frozen=True, slots=True)
class Received:
    """A received request, raw and parsed; `problem` if it was refused with status 400.

    Args:
        at: time of arrival, in seconds of `time.monotonic`.
    """

    path: str
    headers: Mapping[str, str]
    body: Body
    request: Request | None
    problem: str = ""
    at: float = field(default_factory=time.monotonic)


class FakeProvider:
    """A provider on 127.0.0.1; an async context manager.

    Args:
        replies: as for `ScriptedModel`; a `Fault` becomes a failure at the HTTP level.
        rules: as for `ScriptedModel`.
        latency: seconds before each response.
        usage: token counts of every response that is not a `Reply` with its own.
        keep: keep the requests; a benchmark sends too many.

    Attributes:
        batches: those that were submitted, and how they end.
        embeddings: those that were asked for, and how it answers.
        requests: number of requests, including those with an invalid key.
        key: the only valid key; change it to invalidate the previous one.
    """

    def __init__(
        self,
        replies: Iterable[Answer] = (),
        *,
        rules: Sequence[Rule] = (),
        latency: float = 0.0,
        usage: Usage = USAGE,
        keep: bool = True,
    ) -> None:
        self._script = Script(tuple(replies), rules, latency, usage)
        self._server = HttpServer(self._answer)
        self._formats = {wire.path: wire for wire in wire_formats().values()}
        self._keep = keep
        self.batches = FakeBatches(self._answer_call)
        self.embeddings = FakeEmbeddings()
        self.received: list[Received] = []
        self.requests = 0
        self.key = KEY
        self.in_flight = 0
        self.most_in_flight = 0
        self.port = 0

    @classmethod
    def of(cls, script: Script, *, keep: bool = True) -> Self:
        """Create a provider from an existing script, such as one read from a file."""
        provider = cls(keep=keep)
        provider._script = script
        return provider

    @property
    def connections(self) -> int:
        """The number of open connections; a caller that gave up has closed its own."""
        return self._server.connections

    @property
    def environ(self) -> dict[str, str]:
        """An environment with the key that `spec` names."""
        return {CREDENTIAL: self.key}

    def spec(self, provider: str, model_id: str = "fake-model", **fields: Json) -> ModelSpec:
        """Return a registry row for this server; *fields* are further columns.

        Raises:
            ConfigError: the provider does not exist, or has no wire format.
        """
        if (load := find_provider(provider).load_wire) is None:
            raise ConfigError(f"provider {provider} has no wire format")
        base_url = f"http://127.0.0.1:{self.port}{load().base_path}"
        return replace(ModelSpec("fake", provider, model_id, base_url, CREDENTIAL), **fields)

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> None:
        """Listen; port 0 selects a free port."""
        self.port = await self._server.start(port, host)

    async def stop(self) -> None:
        """Close the port and every connection."""
        await self._server.stop()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        await self.stop()

    async def _answer(self, incoming: Incoming) -> Outgoing:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer_one(incoming)
        finally:
            self.in_flight -= 1

    async def _answer_one(self, incoming: Incoming) -> Outgoing:
        self.requests += 1
        if (about_batches := self._batches(incoming)) is not None:
            return about_batches
        path = incoming.path.partition("?")[0]
        if path == fake_embeddings.PATH and self._has_key(incoming):
            await asyncio.sleep(self._script.latency)
            return self.embeddings.answer(incoming)
        wire = self._formats.get(path)
        if wire is None or incoming.method != "POST":
            return Outgoing(404, json.dumps({"error": f"no such path: {incoming.path}"}).encode())
        if not wire.has_key(incoming.headers, self.key):
            return _error(wire, Fault(status=401), "incorrect API key provided")
        body = as_object(json.loads(incoming.body))
        try:
            need("json" in incoming.headers.get("content-type", ""), "content-type: must be JSON")
            request = wire.read(body, incoming.headers)
        except WireError as error:
            self._remember(Received(incoming.path, incoming.headers, body, None, str(error)))
            return _error(wire, Fault(status=400), str(error))
        self._remember(Received(incoming.path, incoming.headers, body, request))
        await asyncio.sleep(self._script.latency)
        return self._follow_script(wire, request, body)

    def _batches(self, incoming: Incoming) -> Outgoing | None:
        """Answer a request about batches; None: it is about none."""
        return self.batches.take(incoming) if self._has_key(incoming) else None

    def _has_key(self, incoming: Incoming) -> bool:
        return any(wire.has_key(incoming.headers, self.key) for wire in self._formats.values())

    def _answer_call(self, path: str, body: Body, headers: Mapping[str, str]) -> tuple[int, Body]:
        """Answer a call of a batch, as if it had been made alone."""
        wire = self._formats[path]
        try:
            request = wire.read(body, headers)
        except WireError as error:
            return 400, wire.write_error(Fault(status=400), str(error))
        request = replace(request, tier=BATCH)
        self._remember(Received(path, headers, body, request))
        try:
            answer = self._script.answer_to(request)
        except WalagentError as error:
            fault = _as_fault(error)
            return fault.status, wire.write_error(fault, str(error))
        if isinstance(answer, Fault):
            return answer.status, wire.write_error(answer, answer.message or "scripted failure")
        return 200, wire.write(answer, body)

    def _follow_script(self, wire: WireFormat, request: Request, body: Body) -> Outgoing:
        try:
            answer = self._script.answer_to(request)
        except WalagentError as error:
            return _error(wire, _as_fault(error), str(error))
        if isinstance(answer, Fault):
            return self._misbehave(wire, answer, request, body)
        return replace(_whole(wire, wire.write(answer, body), body), drip=self._script.pace)

    def _misbehave(self, wire: WireFormat, fault: Fault, request: Request, body: Body) -> Outgoing:
        answer = _error(wire, fault, fault.message or "scripted failure")
        if fault.reply is not None:
            reply = wire.write(self._script.reply_of(fault.reply, request), body)
            answer = _whole(wire, reply, body)
        return replace(
            answer,
            headers={**answer.headers, **fault.headers},
            body=fault.body or answer.body,
            stall=fault.stall,
            drip=fault.drip,
            cut=fault.cut,
            cut_at=fault.cut_at,
            drop=fault.drop,
        )

    def _remember(self, received: Received) -> None:
        if self._keep:
            self.received.append(received)


def wire_formats() -> dict[str, WireFormat]:
    """Return the wire format of each provider that has one."""
    return {one.name: one.load_wire() for one in providers() if one.load_wire is not None}


def _whole(wire: WireFormat, answer: Body, asked: Body) -> Outgoing:
    """Send an answer in one piece, or as a stream if that was asked for."""
    if wire.write_events is None or not asked.get("stream"):
        return Outgoing(200, json.dumps(answer).encode())
    events = "".join(wire.write_events(answer)).encode()
    return Outgoing(200, events, {"content-type": "text/event-stream"})


def _error(wire: WireFormat, fault: Fault, message: str) -> Outgoing:
    headers = {"retry-after": fault.retry_after} if fault.retry_after else {}
    body = json.dumps(wire.write_error(fault, message)).encode()
    return Outgoing(fault.status, body, headers)


def _as_fault(error: WalagentError) -> Fault:
    """Return the failure of a provider for which `ScriptedModel` raises *error*."""
    match error:
        case ModelLimitedError(retry_after=seconds):
            return Fault(429, "" if seconds is None else str(seconds))
        case ModelUnauthorizedError():
            return Fault(401)
        case ModelUnavailableError():
            return Fault(500)
        case _:
            return Fault(400)
