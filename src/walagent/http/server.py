"""Serve an app inside the daemon's event loop.

On its own, uvicorn would handle signals, exit the process if the port is in use, and ignore
cancellation.  Here the daemon handles signals, and receives an error or ends as usual.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from walagent.errors import ConfigError
from walagent.http.direct import offer_direct
from walagent.http.limits import MAX_HEADER_BYTES, LimitedProtocol, LimitedSocket, connection_limit
from walagent.telemetry.log import log

Application = ASGIApp  # for modules that do not know the framework

_NEAR = 20  # ports that are tried
_MOST_MESSAGE = 1 << 16  # bytes that a client can send over a WebSocket at once
_GRACE = 2  # seconds for open requests after a stop; systemd kills after 90

_HINTS = {
    errno.EADDRINUSE: "Find the process with ss -ltnp and stop it, or set http.port.",
    errno.EADDRNOTAVAIL: "Set the HTTP host to an address of this machine, or to 0.0.0.0.",
    errno.EACCES: "Ports below 1024 need a privilege; set a higher HTTP port.",
}


async def serve_http(
    app: ASGIApp,
    host: str,
    port: int,
    on_listening: Callable[[str, int], None] = lambda _host, _port: None,
    *,
    fixed: bool = False,
) -> None:
    """Serve *app* until cancelled, on *port* or, if it is in use, on one of the next ones.

    Open requests then have two seconds to end.

    Args:
        on_listening: called with the address when requests are accepted.
        fixed: whether no other port will do: a probe would ask another process.

    Raises:
        ConfigError: the address is not available; the hint has the fix.
    """
    sockets = await (listen(host, port) if fixed else listen_near(host, port))
    on_listening(host, sockets[0].getsockname()[1])
    await serve_on(app, sockets)


async def listen_near(host: str, port: int) -> Sequence[socket.socket]:
    """Listen on *port*; if it is in use, on the next free one: it must not prevent a standby.

    Raises:
        ConfigError: as `listen`.
    """
    for other in range(port, min(port + _NEAR, 65_536)):
        try:
            return await listen(host, other)
        except ConfigError as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno != errno.EADDRINUSE:
                raise
            log.warning("http.port_in_use", host=host, port=other)
    return await listen(host, port)


async def listen(host: str, port: int) -> Sequence[socket.socket]:
    """Listen on every address that *host* resolves to.

    Raises:
        ConfigError: the address is not available; the hint has the fix.
    """
    loop = asyncio.get_running_loop()
    sockets: list[socket.socket] = []
    try:
        flags = socket.AI_PASSIVE
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
        for family, _, _, _, address in dict.fromkeys(found):
            listener = socket.create_server(address[:2], family=family)
            sockets.append(listener)
            # asyncio sets it only on sockets that were made with a protocol: an answer of two
            # parts would wait 40 ms for the client's acknowledgement of the first.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        for listener in sockets:
            listener.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}",
            hint=_HINTS.get(error.errno or 0, "Set HTTP host and port to a free local address."),
        ) from error
    return sockets


async def serve_on(
    app: ASGIApp, sockets: Sequence[socket.socket], *, most: int | None = None
) -> None:
    """Serve *app* on listening *sockets* until cancelled, and close them.

    Args:
        most: connections at once; default half of the files that the process can open.
    """
    most = most or connection_limit()
    protocol = partial(LimitedProtocol, most=most)
    server = _Server(
        uvicorn.Config(
            _ending(app),
            http=cast("type[asyncio.Protocol]", protocol),
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            ws=cast("type[asyncio.Protocol]", partial(LimitedSocket, most=most, unknown={})),
            ws_max_size=_MOST_MESSAGE,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE,
        )
    )
    listeners = list(sockets)
    host, port, *_ = listeners[0].getsockname()
    log.info("http.listening", host=host, port=port)
    try:
        await server.serve(sockets=listeners)
    finally:
        if server.started:
            await server.shutdown(sockets=listeners)
        for listener in listeners:
            listener.close()


def _ending(app: ASGIApp) -> ASGIApp:
    """Answer requests that are held when the server stops, and sockets that no application takes.

    Clients ask again later.
    """

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        started = False
        if scope["type"] == "http" and _is_of_two_lengths(scope):
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        offer_direct(scope, send)

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await app(scope, receive, sending)
        except asyncio.CancelledError:
            if scope["type"] == "http":
                if not started:
                    headers = [(b"retry-after", b"1"), (b"content-length", b"0")]
                    await send({"type": "http.response.start", "status": 503, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
        if scope["type"] == "websocket" and not started:
            await send({"type": "websocket.close", "code": 1008})

    return answering


def _is_of_two_lengths(scope: Scope) -> bool:
    """Return whether a proxy before this server can have seen another end of the request.

    Source: RFC 9112, 6.1.
    """
    names = {name for name, _ in scope["headers"]}
    return b"transfer-encoding" in names and b"content-length" in names


class _Server(uvicorn.Server):
    """An HTTP server that does not handle signals."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
