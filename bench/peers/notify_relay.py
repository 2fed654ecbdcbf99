"""The do-it-yourself way: a trigger notifies with the row, and a relay sends it as an event to all.

One asyncio process with the same HTTP server as walagent's, and no more work than that.
"""

import argparse
import asyncio
from typing import Any

import psycopg
import uvicorn

_SETUP = """\
create function announce() returns trigger language plpgsql as
    'begin perform pg_notify(''ticket'', row_to_json(new)::text); return null; end';
create trigger announce after insert on ticket for each row execute function announce();
"""


class Relay:
    """The application, and the queues of its clients."""

    def __init__(self) -> None:
        self._clients: set[asyncio.Queue[bytes]] = set()

    def send(self, payload: str) -> None:
        """Send a row to every client."""
        event = b"data: " + payload.encode() + b"\n\n"
        for client in self._clients:
            client.put_nowait(event)

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        """Serve events to one client."""
        queue = asyncio.Queue[bytes]()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._clients.add(queue)
        event = b'data: "up-to-date"\n\n'
        try:
            while True:
                await send({"type": "http.response.body", "body": event, "more_body": True})
                event = await queue.get()
        finally:
            self._clients.discard(queue)


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    asyncio.run(_serve(options.url))


async def _serve(url: str) -> None:
    relay = Relay()
    config = uvicorn.Config(relay, port=0, http="h11", ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as listener:
        await listener.execute(_SETUP)
        await listener.execute("listen ticket")
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        async for notice in listener.notifies():
            relay.send(notice.payload)
    await serving


if __name__ == "__main__":
    main()
