"""Limit what clients can hold: connections, and the time and size of a request.

Each connection takes a file descriptor of the process, which its database connections need, too.
Who is unknown goes first: a connection whose request has not arrived, and a WebSocket on which
nobody has shown a valid token.  Probes are answered from a reserve.
"""

import asyncio
import resource
from collections.abc import Callable
from typing import Any, Final, cast

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

_MOST_CONNECTIONS: Final = 10_000
MAX_HEADER_BYTES: Final = 16_384
REQUEST_SECONDS: Final = 10.0  # from the first byte, or the connection, to the end of a request
PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_EXTENSION: Final = "walagent.socket"
_UPGRADED: Final = 101
_GOODBYE: Final = 2.0  # seconds for the client to agree that a socket is closed
_RESERVE: Final = 16  # connections beyond the limit, for probes
_UNKNOWN_SHARE: Final = 4  # of all connections, a fourth can be sockets of unknown clients


def connection_limit() -> int:
    """Return how many connections the process accepts: half of the files that it can open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MOST_CONNECTIONS, soft // 2) if soft > 0 else _MOST_CONNECTIONS


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with limits.

    A connection that makes the server wait, for a request or to accept the response, is closed when
    too many are open, the oldest first; a request that takes too long is not answered.

    Args:
        most: connections at once.
    """

    opened = 0.0
    _is_upgraded = False
    _late: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, most: int, **options: Any) -> None:  # noqa: ANN401 - uvicorn's
        """Store the parameters."""
        super().__init__(*arguments, **options)
        self._most = most

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection, and limit the time of its first request."""
        super().connection_made(transport)
        self.opened = self.loop.time()
        over = len(self.connections) - self._most
        if over > 0:
            oldest = _oldest_waiting(self)
            if oldest is None and over <= _RESERVE:
                self.app = _for_probes(self.app)
            else:
                (oldest or self).transport.abort()
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._received()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Limit the time of the request that *data* belongs to."""
        super().data_received(data)
        if self.waits_for_request:
            self._expect_request()
        else:
            self._received()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Give the connection to the socket, whose life the time of a request does not limit."""
        super().handle_websocket_upgrade(event)
        self._is_upgraded = True

    @property
    def waits_for_request(self) -> bool:
        """Whether a request has not arrived completely."""
        return not self._is_upgraded and self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    @property
    def waits(self) -> bool:
        """Whether the next move is the client's."""
        return self.waits_for_request or self.flow.write_paused

    def _expect_request(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _received(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class LimitedSocket(WebSocketsSansIOProtocol):
    """A WebSocket that waits for its client until the application calls `known_of`.

    Args:
        most: connections at once.
        unknown: the sockets of a server that wait, the oldest first.
    """

    opened = 0.0
    waits = True

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - uvicorn's
        most: int,
        unknown: "dict[LimitedSocket, None]",
        **options: Any,  # noqa: ANN401 - uvicorn's
    ) -> None:
        """Store the parameters."""
        super().__init__(*arguments, **options)
        self._unknown = unknown
        self._most_unknown = max(1, most // _UNKNOWN_SHARE)
        self.close_timeout = _GOODBYE

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Make room for the socket among those of unknown clients."""
        super().connection_made(transport)
        self.opened = self.loop.time()
        self._unknown[self] = None
        if len(self._unknown) > self._most_unknown:
            oldest = next(iter(self._unknown))
            del self._unknown[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up its place."""
        self._unknown.pop(self, None)
        super().connection_lost(exc)

    def handle_connect(self, event: Request) -> None:
        """Let the application say when it knows the client."""
        super().handle_connect(event)
        if self.response.status_code == _UPGRADED:
            cast("dict[str, Any]", self.scope)["extensions"][_EXTENSION] = self

    def be_known(self) -> None:
        """Keep the socket whatever others do."""
        self.waits = False
        self._unknown.pop(self, None)


def known_of(scope: Scope) -> Callable[[], None]:
    """Return what the application of a socket calls once it knows the client."""
    socket = scope.get("extensions", {}).get(_EXTENSION)
    return socket.be_known if socket is not None else lambda: None


def abort_of(scope: Scope) -> Callable[[], None]:
    """Return what ends a socket without a word: a client that says nothing may not hear any."""
    socket = scope.get("extensions", {}).get(_EXTENSION)
    return socket.transport.abort if socket is not None else lambda: None


def _oldest_waiting(newest: LimitedProtocol) -> "LimitedProtocol | LimitedSocket | None":
    """Return the connection that has waited longest for its client, but for *newest*."""
    open_now = cast("set[Any]", newest.connections)
    waiting = [each for each in open_now if each is not newest and getattr(each, "waits", False)]
    return min(waiting, key=lambda each: each.opened, default=None)


def _for_probes(app: ASGIApp) -> ASGIApp:
    """Answer probes alone."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in PROBES:
            await app(scope, receive, send)
            return
        if scope["type"] == "http":
            headers = [(b"retry-after", b"5"), (b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    return answering
