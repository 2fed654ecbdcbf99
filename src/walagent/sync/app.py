"""Serve shapes over HTTP: one ASGI application, without a framework on the path of each answer.

Source: the HTTP Shape protocol.
"""

import asyncio
import hmac
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson

from walagent.errors import WalagentError
from walagent.log import log
from walagent.sync.engine import ShapeEngine, ShapeRefusedError
from walagent.sync.log import INFINITE, Offset
from walagent.sync.messages import MUST_REFETCH, up_to_date
from walagent.sync.request import RequestError, ShapeRequest, parse_definition, parse_request
from walagent.sync.shape import Shape
from walagent.sync.subset import read_subset

# As ASGI defines them, and as servers type them.
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_EPOCH: Final = 1_728_432_000  # 2024-10-09, from which cursors count
_BODY: Final = 1 << 20
_EXPOSED: Final = (
    b"electric-offset, electric-handle, electric-schema, electric-cursor, electric-up-to-date, "
    b"electric-snapshot, electric-has-data, retry-after, etag"
)
_CORS: Final[Headers] = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", _EXPOSED),
    (b"access-control-allow-methods", b"GET, HEAD, POST, DELETE, OPTIONS"),
]
_PRIVATE: Final = (b"cache-control", b"private, no-cache")
_VARY: Final = (b"vary", b"authorization, cookie")


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """What is served, and how long requests are held.

    Args:
        tables: schema.table of each, or `*`.
        secret: what a request must show; None: nothing is served.
        public: whether caches may keep answers.
        hold: seconds that a live request waits for a change.
        stream: seconds after which an event stream ends, and the client opens the next.
    """

    tables: frozenset[str] = frozenset()
    secret: str | None = None
    public: bool = False
    hold: float = 20.0
    stream: float = 60.0
    keep_alive: float = 21.0
    ahead: float = 10.0


class ShapeApp:
    """The ASGI application of /v1/shape and /v1/health."""

    def __init__(self, engine: ShapeEngine, settings: SyncSettings) -> None:
        self._engine = engine
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path, method = (
            scope["path"],
            scope["method"],
        )  # with the prefix of the application that mounts it
        if path.endswith("/v1/health"):
            await _answer(send, 200, b'{"status":"active"}', [(b"cache-control", b"no-cache")])
        elif not path.endswith("/v1/shape"):
            await _answer(send, 404, b'{"message":"Not found"}')
        elif method == "OPTIONS":
            await _answer(send, 204, b"", [(b"access-control-allow-headers", b"*")])
        else:
            await self._guarded(scope, receive, send, method)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send, method: str) -> None:
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        try:
            self._authorize(scope, query)
            if method in {"GET", "HEAD"}:
                await self._shape(parse_request(query), scope, receive, send)
            elif method == "POST":
                body = await _read_body(receive)
                await self._shape(parse_request(query, body), scope, receive, send)
            elif method == "DELETE":
                await self._delete(query, send)
            else:
                await _answer(send, 405, b'{"message":"Method not allowed"}')
        except RequestError as error:
            body = {"message": "Invalid request", "errors": error.errors}
            await _answer(send, 400, orjson.dumps(body), _NO_STORE)
        except ShapeRefusedError as error:
            body = {"message": str(error)} | ({"errors": error.errors} if error.errors else {})
            more = [(b"retry-after", b"5")] if error.status == _UNAVAILABLE else []
            await _answer(send, error.status, orjson.dumps(body), [*_NO_STORE, *more])
        except WalagentError as error:
            log.warning("sync.request_failed", error=error)
            body = {"message": "The database is not available"}
            more = [(b"retry-after", b"5")]
            await _answer(send, _UNAVAILABLE, orjson.dumps(body), [*_NO_STORE, *more])

    def _authorize(self, scope: Scope, query: Mapping[str, str]) -> None:
        """Check the secret, then the table.

        Raises:
            ShapeRefusedError: the secret is missing or wrong, or the table is not served.
        """
        secret = self._settings.secret
        shown = query.get("secret") or query.get("api_secret") or _bearer(scope)
        if secret is None or not hmac.compare_digest(shown.encode(), secret.encode()):
            raise ShapeRefusedError(401, "Unauthorized - Invalid API secret")
        definition = parse_definition(query)
        name = f"{definition.schema}.{definition.table}"
        if name not in self._settings.tables and (
            "*" not in self._settings.tables
            or definition.schema in {"agent", "agent_internal", "pg_catalog", "information_schema"}
        ):
            raise ShapeRefusedError(403, f"Forbidden - table {name} is not served")

    async def _delete(self, query: Mapping[str, str], send: Send) -> None:
        shape = self._engine.find(parse_definition(query))
        if shape is not None:
            self._engine.drop(shape)
        await _answer(send, 202, b"", _NO_STORE)

    async def _shape(
        self, request: ShapeRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if request.subset is not None:
            shape = await self._engine.get(request.definition)
            body = await read_subset(self._engine, shape, request.subset)
            headers = self._headers(shape, shape.end, [(b"electric-snapshot", b"true")])
            await _answer(send, 200, body, headers)
            return
        if not isinstance(request.start, Offset):
            shape = await self._engine.get(request.definition)
            await self._first(shape, request.start, scope, send)
            return
        shape = self._engine.find(request.definition)
        if shape is None or shape.handle != request.handle:
            shape = await self._engine.get(request.definition)
            await self._refetch(shape, send)
            return
        await asyncio.shield(shape.ready)
        if request.sse:
            await self._stream(shape, request.start, receive, send)
        else:
            await self._log(shape, request.start, request, scope, send)

    async def _first(self, shape: Shape, start: str, scope: Scope, send: Send) -> None:
        if start == "now":
            body = _array([up_to_date(self._engine.position)])
            headers = self._headers(shape, shape.end, [_UP_TO_DATE])
            await _answer(send, 200, body, headers)
            return
        await self._chunk(shape, 0, scope, send)

    async def _chunk(self, shape: Shape, number: int, scope: Scope, send: Send) -> None:
        at = Offset(0, number)
        etag = f'"{shape.handle}:{-1 if number == 0 else f"0_{number - 1}"}:{at}"'
        headers = self._headers(shape, at, [(b"etag", etag.encode())])
        if _matches(scope, etag):
            await _answer(send, 304, b"", headers)
        else:
            await _answer(send, 200, b"[" + shape.snapshot[number] + b"]", headers)

    async def _refetch(self, shape: Shape, send: Send) -> None:
        headers = [(b"electric-handle", shape.handle.encode()), *_NO_STORE]
        await _answer(send, 409, MUST_REFETCH, headers)

    async def _log(
        self, shape: Shape, start: Offset, request: ShapeRequest, scope: Scope, send: Send
    ) -> None:
        chunks = len(shape.snapshot)
        if start.lsn == 0 and start.op < chunks - 1:
            await self._chunk(shape, start.op + 1, scope, send)
            return
        if not await self._reached(shape, start):
            raise RequestError("offset", "is ahead of the shape")
        messages, end, is_end = shape.log.after(start)
        if request.live and not messages and not shape.ended:
            await shape.wait(self._settings.hold)
            messages, end, is_end = shape.log.after(start)
        if shape.ended:
            await self._refetch(await self._engine.get(request.definition), send)
            return
        if end.lsn == 0:
            end = Offset(0, INFINITE)
        more: Headers = []
        if is_end:
            messages = [*messages, up_to_date(self._engine.position)]
            more.append(_UP_TO_DATE)
        if request.live:
            more.append((b"electric-cursor", _cursor(request.cursor).encode()))
        etag = f'"{shape.handle}:{request.start}:{end}"'
        if len(messages) == 1 and request.live:
            etag = f'{etag[:-1]}:{time.time_ns()}"'
        more.append((b"etag", etag.encode()))
        headers = self._headers(shape, end, more)
        if not request.live and _matches(scope, etag) and not is_end:
            await _answer(send, 304, b"", headers)
            return
        await _answer(send, 200, _array(messages), headers)

    async def _reached(self, shape: Shape, start: Offset) -> bool:
        """Wait until the shape has an offset.

        An event stream resumes at the end of what was seen, which is later than the last change.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.ahead
        while start > shape.end and start.lsn > self._engine.position and not shape.ended:
            if loop.time() >= until:
                return False
            await shape.wait(min(1.0, until - loop.time()))
        return True

    async def _stream(self, shape: Shape, start: Offset, receive: Receive, send: Send) -> None:
        """Send changes as they arrive, as server-sent events."""
        headers = self._headers(
            shape,
            start,
            [
                (b"electric-cursor", _cursor("").encode()),
                (b"x-accel-buffering", b"no"),
                (b"connection", b"keep-alive"),
            ],
            kind=b"text/event-stream",
        )
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await self._events(shape, start, send, gone)
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _events(
        self, shape: Shape, at: Offset, send: Send, gone: "asyncio.Task[None]"
    ) -> None:
        loop = asyncio.get_running_loop()
        until, first = loop.time() + self._settings.stream, True
        while not shape.ended and not gone.done() and loop.time() < until:
            messages, at, is_end = shape.log.after(at)
            if messages or first:
                first = False
                if is_end:
                    messages = [*messages, up_to_date(self._engine.position)]
                await _event(send, messages)
                continue
            left = min(self._settings.keep_alive, until - loop.time())
            if left > 0 and not await shape.wait(left):
                await send(
                    {"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True}
                )

    def _headers(
        self,
        shape: Shape,
        offset: Offset,
        more: Iterable[tuple[bytes, bytes]] = (),
        kind: bytes = b"application/json",
    ) -> Headers:
        cache = (b"cache-control", b"public, max-age=5") if self._settings.public else _PRIVATE
        return [
            (b"content-type", kind),
            (b"electric-handle", shape.handle.encode()),
            (b"electric-offset", str(offset).encode()),
            (b"electric-schema", shape.schema.encode("ascii", "backslashreplace")),
            cache,
            _VARY,
            *more,
        ]


_UNAVAILABLE: Final = 503
_UP_TO_DATE: Final = (b"electric-up-to-date", b"")
_NO_STORE: Final[Headers] = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"surrogate-control", b"no-store"),
]


def _array(messages: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(messages) + b"]"


def _cursor(sent: str) -> str:
    """Return a number that is greater than the one sent, so that no cache answers twice."""
    now = int(time.time()) - _EPOCH
    now += -now % 20
    before = int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 20 else 0  # noqa: PLR2004 - digits
    return str(now if now > before else before + random.randint(1, 3600))  # noqa: S311 - no secret


def _bearer(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if kind.lower() == "bearer" else ""
    return ""


def _matches(scope: Scope, etag: str) -> bool:
    return any(
        name == b"if-none-match" and etag.encode() in value for name, value in scope["headers"]
    )


async def _read_body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _BODY:
            raise ShapeRefusedError(413, f"the body exceeds {_BODY} bytes")
        if not message.get("more_body"):
            return body


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _event(send: Send, messages: Sequence[bytes]) -> None:
    body = b"".join(b"data: " + message + b"\n\n" for message in messages)
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _answer(send: Send, status: int, body: bytes, headers: Headers | None = None) -> None:
    found = [*(headers or [(b"content-type", b"application/json")]), *_CORS]
    if status not in {204, 304}:
        found.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": found})
    await send({"type": "http.response.body", "body": body})
