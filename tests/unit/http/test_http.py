"""What an operator's tools get over HTTP, asked over real sockets."""

import asyncio
import json
import signal
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry, Gauge
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import connect

from walagent.errors import ConfigError
from walagent.http.health import unready_reasons
from walagent.http.limits import known_of
from walagent.http.routes import build_app
from walagent.http.server import listen, listen_near, serve_http, serve_on


@dataclass
class State:
    """A daemon's health, set by the test."""

    streaming: bool = True
    progress_age: float = 0.5
    lag_bytes: int = 1024
    retained_bytes: int = 2048
    warnings: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@asynccontextmanager
async def _served(
    state: State, most: int | None = None, hosts: frozenset[str] | None = None
) -> AsyncIterator[int]:
    """Serve health, one gauge, and sockets at any other path; give the port."""
    registry = CollectorRegistry()
    Gauge("walagent_sample", "A sample", registry=registry).set(42)
    sockets = await listen("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    app = build_app(state, registry, mounted={"/": _talk}, hosts=hosts)
    task = asyncio.create_task(serve_on(app, sockets, most=most))
    try:
        yield port
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def _talk(scope: Scope, receive: Receive, send: Send) -> None:
    """Know who says hello."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            known_of(scope)()
            await send({"type": "websocket.send", "text": "hello"})
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def _get(
    port: int, path: str, headers: str = "", host: str = "localhost"
) -> tuple[int, str, str]:
    """Ask, and give status, head and body."""
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n"
        writer.write(request.encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
    return int(head.split()[1]), head.lower(), body


async def test_a_turning_loop_is_alive() -> None:
    """`/healthz` answers 200 also while there is no stream: a restart would not bring it back."""
    async with _served(State(streaming=False)) as port:
        status, _, body = await _get(port, "/healthz")
    assert (status, json.loads(body)) == (200, {"status": "alive"})


async def test_a_streaming_daemon_is_ready() -> None:
    """`/readyz` answers 200 and tells the lag."""
    async with _served(State()) as port:
        status, _, body = await _get(port, "/readyz")
    assert status == 200
    assert json.loads(body) == {
        "status": "ready",
        "reasons": [],
        "streaming": True,
        "progress_age_seconds": 0.5,
        "lag_bytes": 1024,
        "retained_bytes": 2048,
        "warnings": [],
    }


async def test_a_warning_leaves_a_daemon_ready() -> None:
    """It does its work; what a person should know stands in the body."""
    async with _served(State(warnings=["the slot keeps 2 GB of WAL"])) as port:
        status, _, body = await _get(port, "/readyz")
    assert status == 200
    assert json.loads(body)["warnings"] == ["the slot keeps 2 GB of WAL"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (State(streaming=False), "the replication stream is not open"),
        (State(progress_age=61), "no replication progress for 61 s"),
        (State(reasons=["the credential of model gpt is refused"]), "the credential of model gpt"),
    ],
)
async def test_a_daemon_that_takes_nothing_in_is_not_ready(state: State, reason: str) -> None:
    """`/readyz` answers 503 and says why."""
    async with _served(state) as port:
        status, _, body = await _get(port, "/readyz")
    (said,) = json.loads(body)["reasons"]
    assert status == 503
    assert said.startswith(reason)


async def test_readiness_follows_the_daemon() -> None:
    """Health is read anew for every request."""
    state = State()
    async with _served(state) as port:
        state.streaming = False
        assert (await _get(port, "/readyz"))[0] == 503
        state.streaming = True
        assert (await _get(port, "/readyz"))[0] == 200


def test_a_limit_of_progress_is_a_limit() -> None:
    """At the limit the daemon is ready still, beyond it no more."""
    assert unready_reasons(State(progress_age=60), 60) == []
    assert unready_reasons(State(progress_age=60.1), 60) != []


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            (
                'connection failed: connection to server at "db.acme.test" (10.1.2.3), port 6432'
                ' failed: FATAL:  password authentication failed for user "walagent"'
            ),
            "connection failed: FATAL:  password authentication failed for user",
        ),
        (
            (
                'connection failed: connection to server on socket "/run/pg/.s.PGSQL.5432" failed:'
                " Connection refused"
            ),
            "connection failed: Connection refused",
        ),
        (
            (
                'connection to server at "::1", port 5432 failed: FATAL:  no pg_hba.conf entry for'
                ' host "::1", user "app", database "shop", no encryption'
            ),
            "FATAL:  no pg_hba.conf entry for host, user, database, no encryption",
        ),
        (
            "failed to resolve host 'db.acme.test': [Errno -2] Name or service not known",
            "failed to resolve host: [Errno -2] Name or service not known",
        ),
        (
            'could not translate host name "db.acme.test" to address: Name or service not known',
            "could not translate host name to address: Name or service not known",
        ),
        (
            (
                "connection failed: Connection refused\nMultiple connection attempts failed.\n"
                "- host: 'db1.acme.test', port: '1', hostaddr: '10.1.2.3': connection failed"
            ),
            (
                "connection failed: Connection refused\nMultiple connection attempts failed.\n"
                "- host:, port:, hostaddr:: connection failed"
            ),
        ),
        (
            'connection is bad: root certificate file "/home/app/root.crt" does not exist',
            "connection is bad: root certificate file does not exist",
        ),
        ('slot "walagent" is read by PID 4711', 'slot "walagent" is read by PID 4711'),
    ],
)
def test_a_reason_tells_no_stranger_where_the_database_is(reason: str, shown: str) -> None:
    """The log has it."""
    assert unready_reasons(State(reasons=[reason]), 60) == [shown]


async def test_prometheus_gets_its_format() -> None:
    """`/metrics` speaks the text format, and OpenMetrics to whom asks for it."""
    async with _served(State()) as port:
        status, head, body = await _get(port, "/metrics")
        _, open_head, open_body = await _get(
            port, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n"
        )
    assert status == 200
    assert "walagent_sample 42.0\n" in body
    assert "content-type: text/plain; version=0.0.4" in head
    assert "content-type: application/openmetrics-text; version=1.0.0" in open_head
    assert open_body.endswith("# EOF\n")


async def test_a_response_does_not_name_the_server() -> None:
    """Nobody learns versions from a header."""
    async with _served(State()) as port:
        _, head, _ = await _get(port, "/healthz")
    assert "server:" not in head


async def test_an_answer_of_two_parts_is_sent_at_once() -> None:
    """Without the option, the second waits until the client has acknowledged the first."""
    (listener,) = await listen("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_port_in_use_is_a_configuration_error_with_a_hint() -> None:
    """The operator hears which port, and how to find who has it."""
    (taken,) = await listen("127.0.0.1", 0)
    port: int = taken.getsockname()[1]
    with pytest.raises(ConfigError, match=f"127.0.0.1 port {port}: Address already") as caught:
        await listen("127.0.0.1", port)
    taken.close()
    assert "ss -ltnp" in caught.value.hint


async def test_a_daemon_takes_another_port_than_one_in_use() -> None:
    """A standby on the same machine starts, and the log has its port."""
    (taken,) = await listen("127.0.0.1", 0)
    port: int = taken.getsockname()[1]
    (other,) = await listen_near("127.0.0.1", port)
    assert port < other.getsockname()[1] < port + 20
    other.close()
    taken.close()


async def test_a_fixed_port_that_is_in_use_is_refused() -> None:
    """A probe would ask the process that has it."""
    (taken,) = await listen("127.0.0.1", 0)
    port: int = taken.getsockname()[1]
    with pytest.raises(ConfigError, match="Address already"):
        await serve_http(build_app(State(), CollectorRegistry()), "127.0.0.1", port, fixed=True)
    taken.close()


async def test_an_unknown_host_is_a_configuration_error() -> None:
    """A name that does not resolve is told like any other mistake in the file."""
    with pytest.raises(ConfigError, match=r"cannot listen on no-such-host\.invalid"):
        await listen("no-such-host.invalid", 8080)


async def test_cancelling_ends_the_server_and_frees_the_port() -> None:
    """After a stop nobody listens any more, so the next daemon can start."""
    async with _served(State()) as port:
        assert (await _get(port, "/healthz"))[0] == 200
    (again,) = await listen("127.0.0.1", port)
    again.close()


async def test_half_open_requests_do_not_keep_others_out() -> None:
    """The oldest of them is closed for each new connection, so few file descriptors are in use."""
    async with _served(State(), most=200) as port:
        half = [await asyncio.open_connection("127.0.0.1", port) for _ in range(400)]
        for _, writer in half:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: local")
        assert (await _get(port, "/healthz"))[0] == 200
        ended = [reader.at_eof() or await _ended(reader) for reader, _ in half[:150]]
        assert all(ended)
        for _, writer in half:
            writer.close()


async def test_silent_sockets_do_not_keep_others_out() -> None:
    """Nobody has shown on them who it is: the oldest goes, and a socket that is known stays."""
    async with _served(State(), most=40) as port:
        uri = f"ws://127.0.0.1:{port}/v1/multiplex"
        async with connect(uri) as known:
            await known.send("hello")
            assert await known.recv() == "hello"
            silent = [await _opened_socket(port) for _ in range(100)]
            for _ in range(20):
                assert (await _get(port, "/healthz"))[0] == 200
            ended = [await _ended(reader) for reader, _ in silent[:60]]
            assert all(ended)
            await known.send("hello")
            assert await known.recv() == "hello"
        for _, writer in silent:
            writer.close()


async def _opened_socket(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A socket after its handshake, on which nothing is said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET /v1/multiplex HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Key: " + b64encode(bytes(16)) + b"\r\n"
        b"Sec-WebSocket-Version: 13\r\n\r\n"
    )
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        async with asyncio.timeout(10):
            await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_probes_are_answered_when_all_connections_are_busy() -> None:
    """From a reserve, in which nobody else is served."""
    async with _served(State(), most=10) as port, AsyncExitStack() as stack:
        for _ in range(10):
            socket = await stack.enter_async_context(connect(f"ws://127.0.0.1:{port}/v1/multiplex"))
            await socket.send("hello")
            await socket.recv()
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await _get(port, path))[0] == 200
        assert (await _get(port, "/v1/session"))[0] == 503


@pytest.mark.parametrize("path", ["/readyz", "/metrics", "/status"])
async def test_a_page_of_another_site_learns_nothing(path: str) -> None:
    """A name that its owner points here; addresses and names of a network are monitoring's."""
    async with _served(State(), hosts=frozenset({"walagent.internal", "localhost"})) as port:
        for host in ("evil.example", "evil.example.:80", "10.0.0.1.evil.example", "x@evil.example"):
            assert (await _get(port, path, host=host))[0] == 403, host
        for host in ("localhost", "walagent.internal:9187", "10.0.0.7:80", "[::1]:80", "walagent"):
            assert (await _get(port, path, host=host))[0] == 200, host
        assert (await _get(port, "/healthz", host="evil.example"))[0] == 200


async def test_a_request_of_two_lengths_is_refused_and_its_connection_closed() -> None:
    """A proxy before this server can have seen another end of it."""
    async with _served(State()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n"
        )
        async with asyncio.timeout(10):
            answered = await reader.read()
        assert answered.startswith(b"HTTP/1.1 400")
        assert answered.count(b"HTTP/1.1") == 1
        writer.close()


async def _ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(5):
            return await reader.read(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1"]
)
async def test_a_request_that_takes_too_long_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Also if a byte arrives now and then."""
    monkeypatch.setattr("walagent.http.limits.REQUEST_SECONDS", 0.3)
    async with _served(State()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        async with asyncio.timeout(5):
            with suppress(ConnectionError):
                while not reader.at_eof():
                    await reader.read(1000)
        writer.close()


async def test_a_large_header_is_refused() -> None:
    """Before it fills the memory: the connection is closed while it is being sent."""
    async with _served(State()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        async with asyncio.timeout(10):
            with suppress(ConnectionError):
                while not reader.at_eof():
                    writer.write(b"x" * 65_536)
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()


async def test_an_open_connection_does_not_hold_up_the_stop() -> None:
    """A client that keeps its connection open is cut off within the grace period."""
    async with asyncio.timeout(10):
        async with _served(State()) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await _get(port, "/healthz")  # by now the first connection has been accepted, too
        writer.close()


async def test_the_signals_stay_the_daemons() -> None:
    """Serving does not take SIGTERM and SIGINT away from whoever handles them."""
    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    async with _served(State()) as port:
        await _get(port, "/healthz")
        assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)] == before
