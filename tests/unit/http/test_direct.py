"""Parts of a response that are written without a task's turn."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2 as httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from walagent.http.direct import Write, direct_of
from walagent.http.server import listen, serve_on

Answer = Callable[[Write | None, Send], Awaitable[None]]


def app_of(answer: Answer) -> ASGIApp:
    """An application that begins its response, then answers."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        write = direct_of(scope)
        assert write is None or not write(b"too early")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await answer(write, send)
        await send({"type": "http.response.body", "body": b""})
        assert write is None or not write(b"too late")

    return app


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[int]:
    """Serve it; give the port."""
    sockets = await listen("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    task = asyncio.create_task(serve_on(app_of(answer), sockets))
    try:
        yield port
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_parts_of_both_ways_arrive_in_order() -> None:
    """As chunks of one response; the connection is kept for the next one."""

    async def answer(write: Write | None, send: Send) -> None:
        assert write is not None
        for n in range(100):
            if n % 3:
                assert write(b"%d " % n * 10)
            else:
                await send(
                    {"type": "http.response.body", "body": b"%d " % n * 10, "more_body": True}
                )

    async with served(answer) as port, httpx.AsyncClient() as client:
        for _ in range(2):
            found = await client.get(f"http://127.0.0.1:{port}/")
            assert found.content == b"".join(b"%d " % n * 10 for n in range(100))


@pytest.mark.parametrize(
    ("request_line", "end"),
    [(b"GET / HTTP/1.0", b"\r\n\r\nwhole"), (b"HEAD / HTTP/1.1", b"\r\n\r\n")],
)
async def test_what_has_no_chunks_is_not_written_to(request_line: bytes, end: bytes) -> None:
    """HTTP/1.0, and answers without a body."""

    async def answer(write: Write | None, send: Send) -> None:
        assert write is None
        await send({"type": "http.response.body", "body": b"whole", "more_body": True})

    async with served(answer) as port, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(end)
        writer.close()


async def test_a_client_that_reads_nothing_is_not_written_to() -> None:
    """What it takes no more is left to `send`, which waits; and a client that is gone, too."""
    written, is_gone, is_done = [True], asyncio.Event(), asyncio.Event()

    async def answer(write: Write | None, _send: Send) -> None:
        assert write is not None
        while written[-1] and len(written) < 1000:
            written.append(write(b"x" * 65_536))
            await asyncio.sleep(0)
        await is_gone.wait()
        written.append(write(b"x"))
        is_done.set()

    async with served(answer) as port, asyncio.timeout(10):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while written[-1]:  # noqa: ASYNC110 - the server's
            await asyncio.sleep(0.01)
        assert len(written) < 200
        writer.transport.abort()
        await asyncio.sleep(0.1)
        is_gone.set()
        await is_done.wait()
        assert written[-2:] == [False, False]
