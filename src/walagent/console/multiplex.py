"""Many requests for shapes over one WebSocket: a browser has six connections for all its tabs.

    client   {"token": "…"}                              first, if no cookie says who asks
             {"id": 1, "url": "/v1/shapes/NAME?…"}       ask
             {"id": 1, "cancel": true}                   the answer is not wanted any more
    server   {"id": 1, "status": 200, "headers": {…}, "body": "…"}

Each request is answered by the application that answers it over HTTP, as the same principal.  An
answer that is too large for one message has status 413: it is to be fetched over HTTP.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import orjson

from walagent.domain.tenant import Actor
from walagent.errors import WalagentError
from walagent.http.exchange import RefusedError
from walagent.http.limits import abort_of, connection_limit, known_of
from walagent.http.shares import Shares
from walagent.message import Json
from walagent.sync.asgi import Receive, Scope, Send
from walagent.telemetry.log import log

MOST: Final = 100  # requests at once
_MOST_BYTES: Final = 1 << 20  # of an answer
_UNKNOWN: Final = 10.0  # seconds until the first request that is not refused
_IDLE: Final = 60.0  # seconds without a request
_SLOW: Final = 30.0  # seconds in which a client must take an answer
_HEADERS: Final = (b"content-type", b"etag", b"retry-after")
_REFUSED: Final = frozenset({401, 403})
_TOO_LARGE: Final = 413

# Why the server closes a socket: of RFC 6455, section 7.4.1.
_POLICY: Final = 1008
_GOING: Final = 1001


class _Application(Protocol):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        ...


class _WrongError(Exception):
    """The client sent what is no request."""


@dataclass(slots=True)
class _Answer:
    """What the application answers."""

    status: int = 500
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytearray = field(default_factory=bytearray)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take a message, as ASGI's send."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {
                name.decode(): value.decode("latin-1")
                for name, value in message["headers"]
                if name.startswith(b"electric-") or name in _HEADERS
            }
        elif self.status != _TOO_LARGE:
            self.body += message.get("body", b"")
            if len(self.body) > _MOST_BYTES:
                self.status, self.headers = _TOO_LARGE, {}
                self.body.clear()


class Sockets:
    """The sockets of a process.

    Args:
        application: answers requests for shapes over HTTP.
        who: returns whose share a token takes.
    """

    def __init__(self, application: _Application, who: Callable[[str], Awaitable[Actor]]) -> None:
        self.application = application
        self.who = who
        most = connection_limit()
        self.places = Shares("sockets", most, of_tenant=most // 2, of_principal=most // 8)


class Socket:
    """One WebSocket.

    Args:
        token: of the cookie, or of a header; empty: the client sends one, or none.
    """

    def __init__(
        self, sockets: Sockets, scope: Scope, receive: Receive, send: Send, token: str
    ) -> None:
        self._sockets = sockets
        self._place = ExitStack()
        self._scope = scope
        self._receive = receive
        self._send = send
        self._token = token
        self._tasks = dict[int, asyncio.Task[None]]()
        self._sending = asyncio.Lock()
        self._is_known = False
        self._refused = asyncio.Event()

    async def serve(self) -> None:
        """Accept the socket, and answer until it is closed."""
        await self._receive()
        await self._send({"type": "websocket.accept"})
        code, reason = _POLICY, "a request was refused"
        refused = asyncio.create_task(self._refused.wait())
        try:
            while not refused.done():
                text = await self._next(refused)
                if text is None:
                    break
                self._take(text)
        except _WrongError as error:
            code, reason = _POLICY, str(error)
        except TimeoutError:
            code, reason = _GOING, "nothing was asked for"
            if not self._is_known:
                abort_of(self._scope)()
        finally:
            refused.cancel()
            for task in self._tasks.values():
                task.cancel()
            await asyncio.wait([refused, *self._tasks.values()])
            self._place.close()
        with suppress(Exception):  # the client is gone
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _next(self, refused: asyncio.Task[Any]) -> str | None:
        """Return the next message; None: there is none any more.

        Raises:
            TimeoutError: nothing is asked for.
        """
        coming = asyncio.create_task(self._received())
        try:
            while not coming.done() and not refused.done():
                patience = None if self._tasks else _IDLE if self._is_known else _UNKNOWN
                waiting = [coming, refused, *self._tasks.values()]
                done, _ = await asyncio.wait(
                    waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    raise TimeoutError
            return coming.result() if coming.done() else None
        finally:
            coming.cancel()

    async def _received(self) -> str | None:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        return text if isinstance(text, str) else ""

    def _take(self, text: str) -> None:
        """Act on a message.

        Raises:
            _WrongError: it is no request, or there are too many.
        """
        try:
            given: Json = orjson.loads(text)
        except orjson.JSONDecodeError:
            given = None
        match given:
            case {"token": str(token)} if not self._token and not self._tasks:
                self._token = token
            case {"id": int(identifier), "cancel": True}:
                if (task := self._tasks.get(identifier)) is not None:
                    task.cancel()
            case {"id": int(identifier), "url": str(url)} if identifier not in self._tasks:
                if len(self._tasks) >= MOST:
                    raise _WrongError(f"expected at most {MOST} requests at once")
                task = asyncio.create_task(self._answer(identifier, self._request(url)))
                self._tasks[identifier] = task
                task.add_done_callback(lambda _: self._tasks.pop(identifier, None))
            case _:
                raise _WrongError('expected "id" and "url" of a request, or "id" and "cancel"')

    def _request(self, url: str) -> Scope:
        """Return a request as its application gets it over HTTP.

        Raises:
            _WrongError: it is none for a shape.
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            raise _WrongError("expected the URL of a shape") from None
        _, found, name = parts.path.partition("/v1/shape")
        if not found or (name and not name.startswith("s/")):
            raise _WrongError("expected the URL of a shape")
        path = found + name
        headers = [(b"authorization", b"Bearer " + self._token.encode())] if self._token else []
        return {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": parts.query.encode(),
            "headers": headers,
            "scheme": self._scope.get("scheme", "ws").replace("ws", "http"),
            "client": self._scope.get("client"),
        }

    async def _answer(self, identifier: int, request: Scope) -> None:
        answer = _Answer()
        try:
            await self._sockets.application(request, _never, answer.send)
        except Exception as error:  # noqa: BLE001 - as the server does for HTTP
            log.warning("console.request_failed", error=error)
            answer = _Answer()
        text = orjson.dumps(
            {
                "id": identifier,
                "status": answer.status,
                "headers": answer.headers,
                "body": answer.body.decode(),
            }
        ).decode()
        is_refused = answer.status in _REFUSED
        try:
            async with asyncio.timeout(_SLOW), self._sending:
                await self._send({"type": "websocket.send", "text": text})
        except TimeoutError:
            is_refused = True
        if is_refused:
            self._refused.set()
        elif not self._is_known:
            await self._be_known()

    async def _be_known(self) -> None:
        """Take the place of a socket of the principal, and keep it whatever others do."""
        self._is_known = True
        if self._token:
            try:
                who = await self._sockets.who(self._token)
            except (RefusedError, WalagentError):
                return  # the next request is refused, and says why
            try:
                self._place.enter_context(self._sockets.places.now(who))
            except RefusedError:
                self._refused.set()
                return
        known_of(self._scope)()


async def _never() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}
