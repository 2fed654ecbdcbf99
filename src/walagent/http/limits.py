"""Limit what clients can hold: connections, and the time and size of a request.

Each connection takes a file descriptor of the process, which its database connections need, too.
"""

import asyncio
import resource
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_MOST_CONNECTIONS: Final = 10_000
MAX_HEADER_BYTES: Final = 16_384
REQUEST_SECONDS: Final = 10.0  # from the first byte, or the connection, to the end of a request


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
        if len(self.connections) > self._most:
            _oldest_waiting(self).transport.abort()
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


def _oldest_waiting(newest: LimitedProtocol) -> LimitedProtocol:
    """Return the connection that has waited longest for its client; else *newest*."""
    open_now = cast("set[Any]", newest.connections)
    others = [each for each in open_now if each is not newest]
    waiting = [each for each in others if getattr(each, "waits", False)]  # a socket never does
    return min(waiting, key=lambda each: each.opened, default=newest)
