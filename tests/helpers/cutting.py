"""A TCP proxy that cuts connections after so many bytes of answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Cutter:
    """Cuts each connection where `points` say, then passes all.

    Args:
        points: after how many bytes of answers; one per connection.
    """

    def __init__(self, port: int, points: list[int]) -> None:
        self.points = points
        self.cuts = 0
        self.port = 0
        self.to = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError):
                await self._pass(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.points.pop(0) if self.points else None
        answers, requests = await asyncio.open_connection("127.0.0.1", self.to)
        asking = asyncio.create_task(_copy(reader, requests))
        try:
            while data := await answers.read(1 << 16):
                writer.write(data if left is None else data[:left])
                await writer.drain()
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        self.cuts += 1
                        return
        finally:
            asking.cancel()
            requests.transport.abort()

    async def aclose(self) -> None:
        """End all connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def cutting(port: int, points: list[int]) -> AsyncIterator[Cutter]:
    """Serve a proxy of a port."""
    cutter = Cutter(port, points)
    server = await asyncio.start_server(cutter.serve, "127.0.0.1", 0)
    cutter.port = server.sockets[0].getsockname()[1]
    try:
        yield cutter
    finally:
        server.close()
        await cutter.aclose()
