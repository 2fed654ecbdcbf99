"""Read requests for shapes and write their responses, as ASGI messages."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from itertools import chain, islice
from typing import Any, Final

from walagent.sync.checks import ShapeRefusedError

# As ASGI defines them, and as servers type them.
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
_BODY: Final = 1 << 20
_EXPOSED: Final = (
    b"electric-offset, electric-handle, electric-schema, electric-cursor, electric-up-to-date, "
    b"electric-snapshot, electric-has-data, retry-after, etag"
)
CORS: Final[Headers] = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", _EXPOSED),
    (b"access-control-allow-methods", b"GET, HEAD, POST, DELETE, OPTIONS"),
    (b"x-content-type-options", b"nosniff"),
]
NO_STORE: Final[Headers] = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"surrogate-control", b"no-store"),
]


def bearer_of(scope: Scope) -> str:
    """Return the bearer token of a request; "" if it has none."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if kind.lower() == "bearer" else ""
    return ""


def is_strict(scope: Scope) -> bool:
    """Return whether a client wants to know what is ignored (RFC 7240)."""
    return any(
        name == b"prefer" and b"handling=strict" in value.lower()
        for name, value in scope["headers"]
    )


def has_etag(scope: Scope, etag: str) -> bool:
    """Return whether the client has the answer with this tag."""
    return any(
        name == b"if-none-match" and etag.encode() in value for name, value in scope["headers"]
    )


async def read_body(receive: Receive) -> bytes:
    """Read the body of a request.

    Raises:
        ShapeRefusedError: it is too large.
    """
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _BODY:
            raise ShapeRefusedError(413, f"the body exceeds {_BODY} bytes")
        if not message.get("more_body"):
            return body


async def until_disconnected(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_more(send: Send, body: bytes) -> None:
    """Send a piece of a body."""
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def send_events(send: Send, messages: Iterable[bytes]) -> None:
    """Send server-sent events, a large number or large ones in pieces."""
    for piece in _joined(part for m in messages for part in (b"data: ", m, b"\n\n")):
        await send_more(send, piece)


async def answer(
    send: Send, status: int, body: bytes | Sequence[bytes], headers: Headers | None = None
) -> None:
    """Send a whole response.

    A large one is sent in pieces, the next when the client has taken most of the last: otherwise a
    client that stands still would keep a copy of it in memory.

    Args:
        body: a sequence is that of the elements of a JSON array.
    """
    found = [*(headers or [(b"content-type", b"application/json")]), *CORS]
    size = len(body)
    if not isinstance(body, bytes):
        size = 2 + sum(map(len, body)) + max(0, len(body) - 1)
    if status not in {204, 304}:
        found.append((b"content-length", str(size).encode()))
    await send({"type": "http.response.start", "status": status, "headers": found})
    last = b""
    for piece in _cut(body) if isinstance(body, bytes) else _written(body):
        if last:
            await send_more(send, last)
            await asyncio.sleep(0)
        last = piece
    await send({"type": "http.response.body", "body": last})


_PIECE: Final = 256 << 10  # bytes


def _cut(body: bytes) -> Iterator[bytes]:
    if len(body) <= _PIECE:
        yield body
        return
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]


def _written(elements: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a JSON array in pieces of about that size."""
    parts = (part for element in elements for part in (b",", element))
    return _joined(chain([b"["], islice(parts, 1, None), [b"]"]))


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield parts in pieces of about that size."""
    piece, size = list[bytes](), 0
    for part in parts:
        if len(part) > _PIECE:
            yield b"".join(piece)
            yield from _cut(part)
            piece, size = [], 0
            continue
        piece.append(part)
        size += len(part)
        if size >= _PIECE:
            yield b"".join(piece)
            piece, size = [], 0
    yield b"".join(piece)
