"""Serve shapes over HTTP: one ASGI application, without a framework on the path of each answer.

Source: the HTTP Shape protocol.
"""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import parse_qsl

import orjson

from walagent.domain.tenant import Actor
from walagent.errors import WalagentError
from walagent.http.direct import direct_of
from walagent.http.exchange import RefusedError
from walagent.http.shares import Shares
from walagent.sync.asgi import (
    CORS,
    NO_STORE,
    Headers,
    Receive,
    Scope,
    Send,
    answer,
    bearer_of,
    has_etag,
    is_strict,
    read_body,
    send_events,
    send_more,
    until_disconnected,
)
from walagent.sync.caching import FIRST_ROWS, LIVE, PRIVATE, ROWS, cursor_after
from walagent.sync.checks import ShapeRefusedError
from walagent.sync.definition import Definition
from walagent.sync.engine import ShapeEngine
from walagent.sync.messages import MUST_REFETCH, up_to_date
from walagent.sync.query import NamedQuery, QueryDefinition, QueryShape
from walagent.sync.request import (
    PARAMETERS,
    Place,
    RequestError,
    ShapeRequest,
    parse_deletion,
    parse_place,
    parse_request,
)
from walagent.sync.select_shapes import tables_of
from walagent.sync.shape import LiveShape
from walagent.sync.shape_log import INFINITE, Offset
from walagent.sync.subset import read_subset
from walagent.telemetry.log import log

_VARY: Final = (b"vary", b"authorization, cookie")


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """What is served, and how long requests are held.

    Args:
        tables: schema.table of each, or `*`.
        queries: by name, for principals with a token.
        secret: what a request must show; None: nothing is served.
        public: whether caches may keep answers.
        hold: seconds that a live request waits for a change.
        stream: seconds after which an event stream ends, and the client opens the next.
    """

    tables: frozenset[str] = frozenset()
    queries: Mapping[str, NamedQuery] = field(default_factory=dict[str, NamedQuery])
    secret: str | None = None
    public: bool = False
    hold: float = 20.0
    stream: float = 60.0
    keep_alive: float = 21.0
    ahead: float = 10.0


class Principals(Protocol):
    """Who a token belongs to."""

    async def of_token(self, token: str) -> Actor:
        """Return whose token it is, and what for.

        Raises:
            ShapeRefusedError: it is missing, unknown, expired or revoked.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Client:
    place: Place
    scope: Scope
    receive: Receive
    send: Send


class ShapeApp:
    """The ASGI application of /v1/shape, /v1/shapes/NAME and /v1/health.

    Args:
        principals: checks tokens; None: named queries are not served.
    """

    def __init__(
        self, engine: ShapeEngine, settings: SyncSettings, principals: Principals | None = None
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._principals = principals
        self._places = Shares("requests for shapes", 20_000, of_tenant=10_000, of_principal=2_000)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path: str = scope["path"]  # with the prefix of the application that mounts it
        method: str = scope["method"]
        if path.endswith("/v1/health"):
            await answer(send, 200, b'{"status":"active"}', [(b"cache-control", b"no-cache")])
        elif not (path.endswith("/v1/shape") or "/v1/shapes/" in path):
            await answer(send, 404, b'{"message":"Not found"}')
        elif method == "OPTIONS":
            # Browsers take the wildcard for all headers but this one.
            allowed = (b"access-control-allow-headers", b"authorization, *")
            await answer(send, 204, b"", [allowed])
        else:
            await self._guarded(scope, receive, send, method)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send, method: str) -> None:
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        name = scope["path"].rpartition("/v1/shapes/")[2] if "/v1/shapes/" in scope["path"] else ""
        try:
            if name and method in {"GET", "HEAD"}:
                await self._query(name, query, scope, receive, send)
                return
            self._check_secret(scope, query)
            if method in {"GET", "HEAD"}:
                await self._shape(parse_request(query), scope, receive, send)
            elif method == "POST":
                body = await read_body(receive)
                await self._shape(parse_request(query, body), scope, receive, send)
            elif method == "DELETE":
                await self._delete(parse_deletion(query), send)
            else:
                await answer(send, 405, b'{"message":"Method not allowed"}')
        except RequestError as error:
            body = {"message": "Invalid request", "errors": error.errors}
            await answer(send, 400, orjson.dumps(body), NO_STORE)
        except ShapeRefusedError as error:
            body = {"message": str(error)} | ({"errors": error.errors} if error.errors else {})
            more = [(b"retry-after", b"5")] if error.status in _LATER else []
            await answer(send, error.status, orjson.dumps(body), [*NO_STORE, *more])
        except RefusedError as error:
            body = orjson.dumps({"message": str(error)})
            await answer(send, error.status, body, [*NO_STORE, (b"retry-after", b"5")])
        except WalagentError as error:
            log.warning("sync.request_failed", error=error)
            body = {"message": "The database is not available"}
            more = [(b"retry-after", b"5")]
            await answer(send, _UNAVAILABLE, orjson.dumps(body), [*NO_STORE, *more])

    def _check_secret(self, scope: Scope, query: Mapping[str, str]) -> None:
        """Check the secret of open tables.

        Raises:
            ShapeRefusedError: it is missing or wrong.
        """
        secret = self._settings.secret
        shown = query.get("secret") or query.get("api_secret") or bearer_of(scope)
        if secret is None or not hmac.compare_digest(shown.encode(), secret.encode()):
            raise ShapeRefusedError(401, "Unauthorized - Invalid API secret")

    def _check_tables(self, definition: Definition) -> None:
        """Check that its tables are open; `*` does not open those of walagent and PostgreSQL.

        Raises:
            ShapeRefusedError: one is not.
        """
        tables = self._settings.tables
        for schema, table in sorted(tables_of(definition)):
            name = f"{schema}.{table}"
            if name not in tables and ("*" not in tables or schema in _OURS):
                raise ShapeRefusedError(403, f"Forbidden - table {name} is not served")

    async def _delete(self, what: Definition | str, send: Send) -> None:
        """End a shape; its clients fetch again.  Who knows the secret knows all handles."""
        if isinstance(what, Definition):
            self._check_tables(what)
        shape = self._engine.find(what)
        if shape is not None:
            self._engine.drop(shape)
        await answer(send, 202, b"", NO_STORE)

    async def _shape(
        self, request: ShapeRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        definition = request.definition
        self._check_tables(definition)
        if request.subset is not None:
            shape = await self._engine.get(definition)
            body = await read_subset(self._engine.rows.connection(), shape, request.subset)
            headers = self._headers(shape, shape.end, PRIVATE, [(b"electric-snapshot", b"true")])
            await answer(send, 200, body, headers)
            return
        found = self._engine.find(definition)
        client = _Client(request.place, scope, receive, send)
        is_whole = request.place.start == "now"
        await self._serve(found, lambda: self._engine.get(definition, is_whole=is_whole), client)

    async def _query(
        self, name: str, query: Mapping[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request for a named query, as the principal of its token."""
        if self._principals is None or (named := self._settings.queries.get(name)) is None:
            raise ShapeRefusedError(404, f"there is no shape {name}")
        actor = await self._principals.of_token(bearer_of(scope))
        missing = [each for each in named.parameters if each not in query]
        if missing:
            raise RequestError(missing[0], "can't be blank")
        for each in named.parameters:
            if "\0" in query[each]:
                raise RequestError(each, "contains a NUL character")
        unknown = query.keys() - PARAMETERS - set(named.parameters)
        if unknown and is_strict(scope):
            raise RequestError(min(unknown), f"is no parameter of shape {name}")
        values = tuple(query[each] for each in named.parameters)
        definition = QueryDefinition(named, values, actor)
        client = _Client(parse_place(query), scope, receive, send)
        queries = self._engine.queries
        with self._places.now(actor):
            await self._serve(queries.find(definition), lambda: queries.get(definition), client)

    async def _serve(
        self, found: LiveShape | None, make: Callable[[], Awaitable[LiveShape]], client: "_Client"
    ) -> None:
        """Answer with what follows the client's place in a shape.

        Args:
            found: the shape, if there is one.
            make: makes it, with another handle if there was one.
        """
        place = client.place
        if not isinstance(place.start, Offset):
            await self._first(await make(), place.start, client)
        elif found is None or found.handle != place.handle:
            await self._refetch(await make(), client.send)
        else:
            # Chunks of a large snapshot are sent while it is read.
            await found.has_chunk(INFINITE if place.start.lsn or place.sse else place.start.op + 1)
            if place.sse:
                await self._stream(found, place.start, client)
            else:
                await self._log(found, place.start, make, client)

    async def _first(self, shape: LiveShape, start: str, client: "_Client") -> None:
        if start == "now":
            headers = self._headers(shape, shape.end, PRIVATE, [_UP_TO_DATE])
            await answer(client.send, 200, [up_to_date(self._engine.position)], headers)
            return
        await self._chunk(shape, 0, client)

    async def _chunk(self, shape: LiveShape, number: int, client: "_Client") -> None:
        at = Offset(0, number)
        etag = f'"{shape.handle}:{-1 if number == 0 else f"0_{number - 1}"}:{at}"'
        cache = ROWS if number else FIRST_ROWS
        headers = self._headers(shape, at, cache, [(b"etag", etag.encode())])
        if has_etag(client.scope, etag):
            await answer(client.send, 304, b"", headers)
        else:
            await answer(client.send, 200, [shape.snapshot[number]], headers)

    async def _refetch(self, shape: LiveShape, send: Send) -> None:
        headers = [(b"electric-handle", shape.handle.encode()), *NO_STORE]
        await answer(send, 409, MUST_REFETCH, headers)

    async def _log(
        self,
        shape: LiveShape,
        start: Offset,
        make: Callable[[], Awaitable[LiveShape]],
        client: "_Client",
    ) -> None:
        chunks = len(shape.snapshot)
        if start.lsn == 0 and start.op < chunks - 1 and not shape.ended:
            await self._chunk(shape, start.op + 1, client)
            return
        if not await self._reached(shape, start):
            raise RequestError("offset", "is ahead of the shape")
        messages, end, is_end = shape.log.after(start)
        if client.place.live and not messages and not shape.ended:
            await shape.wait(self._settings.hold)
            messages, end, is_end = shape.log.after(start)
        if shape.ended:
            await self._refetch(await make(), client.send)
            return
        if end.lsn == 0:
            end = Offset(0, INFINITE)
        more: Headers = []
        if is_end:
            messages = [*messages, up_to_date(self._engine.position)]
            more.append(_UP_TO_DATE)
        if client.place.live:
            more.append((b"electric-cursor", cursor_after(client.place.cursor).encode()))
        etag = f'"{shape.handle}:{start}:{end}"'
        if len(messages) == 1 and client.place.live:
            etag = f'{etag[:-1]}:{time.time_ns()}"'
        more.append((b"etag", etag.encode()))
        headers = self._headers(shape, end, LIVE if client.place.live else ROWS, more)
        if not client.place.live and has_etag(client.scope, etag):
            await answer(client.send, 304, b"", headers)
            return
        await answer(client.send, 200, messages, headers)

    async def _reached(self, shape: LiveShape, start: Offset) -> bool:
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

    async def _stream(self, shape: LiveShape, start: Offset, client: "_Client") -> None:
        """Send changes as they arrive, as server-sent events."""
        headers = self._headers(
            shape,
            start,
            LIVE,
            [
                (b"electric-cursor", cursor_after(client.place.cursor).encode()),
                (b"x-accel-buffering", b"no"),
                (b"connection", b"keep-alive"),
                *CORS,
            ],
            kind=b"text/event-stream",
        )
        send = client.send
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(until_disconnected(client.receive))
        try:
            await self._events(shape, start, client, gone)
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _events(
        self, shape: LiveShape, at: Offset, client: "_Client", gone: "asyncio.Task[None]"
    ) -> None:
        loop, send = asyncio.get_running_loop(), client.send
        until = loop.time() + self._settings.stream
        due = loop.time() + self._settings.keep_alive
        with shape.following(at, direct_of(client.scope)) as follower:
            news = follower.news
            gone.add_done_callback(lambda _: news.set())
            # One timer: one for each wait would take as long as sending.
            alarm = loop.call_at(min(due, until), news.set)
            try:
                while not shape.ended and not gone.done() and (now := loop.time()) < until:
                    news.clear()
                    if now >= due:
                        due = now + self._settings.keep_alive
                        alarm = loop.call_at(min(due, until), news.set)
                        await send_more(send, b": keep-alive\n\n")
                    while shape.log.has_after(follower.at):
                        event = shape.event_after(follower.at, self._engine.position)
                        await send_events(send, event.messages)
                        follower.at = event.upto
                    follower.is_waiting = True
                    await news.wait()
                    follower.is_waiting = False
            finally:
                alarm.cancel()

    def _headers(
        self,
        shape: LiveShape,
        offset: Offset,
        cache: bytes,
        more: Iterable[tuple[bytes, bytes]] = (),
        kind: bytes = b"application/json",
    ) -> Headers:
        # Rows of a principal are for no cache, whatever the file says.
        is_public = self._settings.public and not isinstance(shape, QueryShape)
        return [
            (b"content-type", kind),
            (b"electric-handle", shape.handle.encode()),
            (b"electric-offset", str(offset).encode()),
            (b"electric-schema", shape.schema.encode("ascii", "backslashreplace")),
            (b"cache-control", cache if is_public else PRIVATE),
            _VARY,
            *more,
        ]


_OURS: Final = frozenset({"agent", "agent_internal", "pg_catalog", "information_schema"})
_UNAVAILABLE: Final = 503
_LATER: Final = frozenset({429, _UNAVAILABLE})
_UP_TO_DATE: Final = (b"electric-up-to-date", b"")
