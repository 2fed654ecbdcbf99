"""`walagent serve sync` as a process, and a client of it."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2 as httpx

from tests.helpers.commands import Running, running
from tests.helpers.database import DEADLINE
from tests.helpers.shapes import SECRET

SOURCE = Path(__file__).parents[2] / "src"
FILE = """
sync:
  open: ['*']
  secret: SYNC_SECRET
  shapes:
    threads: {query: "select id, title from agent.thread", key: [id]}
  mutations:
    open_thread: {function: open_thread, parameters: [title]}
log: {format: json}
"""


class SyncProcess:
    """A running process: where it answers, what it logs."""

    def __init__(self, process: Running, http: httpx.AsyncClient) -> None:
        self.process = process
        self.http = http
        self.events: list[dict[str, object]] = []
        self.port = 0

    @property
    def url(self) -> str:
        """The address of open tables."""
        return f"http://127.0.0.1:{self.port}/v1/shape"

    async def says(self, event: str) -> dict[str, object]:
        """Read its log until an event that was not read before."""
        assert self.process.stderr is not None
        while True:
            line = await asyncio.wait_for(self.process.stderr.readline(), DEADLINE)
            assert line, self.events
            if not line.startswith(b"{"):
                continue
            self.events.append(found := json.loads(line))
            if found["event"] == event:
                return found

    async def get(self, *, path: str = "", token: str = "", **query: str) -> httpx.Response:
        """Request a shape with the secret, or a named one with a token."""
        if path:
            headers = {"authorization": f"Bearer {token}"}
            return await self.http.get(f"{self.url}s/{path}", params=query, headers=headers)
        return await self.http.get(self.url, params={"secret": SECRET, **query})

    async def page(self, path: str) -> httpx.Response:
        """Request another page."""
        return await self.http.get(f"http://127.0.0.1:{self.port}{path}")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def ended(self) -> tuple[int, str]:
        """Wait for its end; return the exit code, and what it printed since."""
        _, errors = await asyncio.wait_for(self.process.communicate(), DEADLINE)
        assert errors is not None
        return self.process.returncode or 0, errors.decode()


@asynccontextmanager
async def starting(
    dsn: str, folder: Path, *options: str, file: str = FILE
) -> AsyncIterator[SyncProcess]:
    """Start a process; it can end at once."""
    (folder / "agents.yaml").write_text(file)
    kept = ("PATH", "LANG", "TMPDIR", "DATABASE_REPLICATION_URL", "DATABASE_ROWS_URL")
    environment = {key: os.environ[key] for key in kept if key in os.environ}
    environment |= {"HOME": str(folder), "PYTHONPATH": str(SOURCE), "SYNC_SECRET": SECRET}
    async with (
        running(
            *("serve", "sync", "--dsn", dsn, "--http", "127.0.0.1:0"),
            *options,
            folder=folder,
            environment=environment,
            read=["stderr"],
            last=signal.SIGKILL,
        ) as process,
        httpx.AsyncClient(timeout=DEADLINE) as http,
    ):
        yield SyncProcess(process, http)


@asynccontextmanager
async def sync_process(
    dsn: str, folder: Path, *options: str, file: str = FILE
) -> AsyncIterator[SyncProcess]:
    """Start a process that streams."""
    async with starting(dsn, folder, *options, file=file) as found:
        found.port = int(str((await found.says("http.listening"))["port"]))
        await found.says("reader.streaming")
        yield found
