"""How much of an answer is read: counted as it comes, after it was decompressed.

An answer comes from outside: it may never end, or be a gigabyte in a megabyte of gzip.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import httpx2

ANSWER: Final = 8 << 20  # bytes: ten times what any model writes in one reply
STREAM: Final = 64 << 20  # bytes: an event for each token, with its frame
ERROR: Final = 1 << 20  # bytes; what follows is left out
_EVENTS: Final = "text/event-stream"

_most: ContextVar[int] = ContextVar("most bytes of an answer", default=ANSWER)


class AnswerTooLongError(httpx2.RequestError):
    """An answer has more bytes than are read."""


@contextmanager
def answers_up_to(most: int) -> Generator[None]:
    """Read as many bytes of each answer in this context, instead of `ANSWER`."""
    token = _most.set(most)
    try:
        yield
    finally:
        _most.reset(token)


def refusing_more(most: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a hook of a client that has transports of its own, as one with proxies.

    The client asks for bodies that are not compressed; streams of events are not limited.
    """

    async def limit(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise AnswerTooLongError("an answer is compressed")
        if not response.headers.get("content-type", "").startswith(_EVENTS):
            response.stream = _Counted(response.stream, most)

    return limit


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: object, most: int) -> None:
        assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - of an async client
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        read = 0
        async for piece in self._stream:
            read += len(piece)
            if read > self._most:
                raise AnswerTooLongError(f"an answer of more than {self._most:,} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport whose answers are read up to a limit.

    Args:
        transport: that sends.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        response = await self._transport.handle_async_request(request)
        is_error = response.status_code >= 400  # noqa: PLR2004 - of HTTP
        is_stream = response.headers.get("content-type", "").startswith(_EVENTS)
        most = ERROR if is_error else STREAM if is_stream else _most.get()
        return _Bounded(response, most, cut=is_error)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._transport.aclose()


class _Bounded(httpx2.Response):
    """An answer of which at most so many bytes are read.

    Args:
        most: bytes.
        cut: leave out what follows instead of failing.
    """

    def __init__(self, response: httpx2.Response, most: int, *, cut: bool) -> None:
        super().__init__(
            response.status_code,
            headers=response.headers,
            stream=response.stream,
            extensions=response.extensions,
        )
        self._most = most
        self._cut = cut

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes]:
        """Yield its bytes, decompressed.

        Raises:
            AnswerTooLongError: there are more than are read.
        """
        read = 0
        async for piece in super().aiter_bytes(chunk_size):
            read += len(piece)
            if read <= self._most:
                yield piece
                continue
            await self.aclose()
            if not self._cut:
                raise AnswerTooLongError(f"an answer of more than {self._most:,} bytes")
            return
