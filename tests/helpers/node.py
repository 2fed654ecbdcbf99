"""Programs of tests/web in Node, which print a JSON document per line."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.database import DEADLINE

WEB_TESTS = Path(__file__).parents[1] / "web"
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (WEB_TESTS / "node_modules").is_dir(),
    reason="make web-test installs the packages",
)


class Script:
    """A program that runs.

    Attributes:
        shown: each list of rows that it printed.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.shown: list[list[Any]] = []
        self._process = process
        self._others: list[dict[str, Any]] = []

    async def line(self) -> dict[str, Any]:
        """The next line that it prints."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), DEADLINE)
        assert line, "the program ended"
        return json.loads(line)

    async def _read(self) -> None:
        found = await self.line()
        assert "error" not in found, found
        if "rows" in found:
            self.shown.append(found["rows"])
        else:
            self._others.append(found)

    async def until(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Read until the last rows are these, in any order."""
        wanted = sorted(map(json.dumps, rows))
        while not self.shown or sorted(map(json.dumps, self.shown[-1])) != wanted:
            try:
                await self._read()
            except TimeoutError:
                pytest.fail(f"{self.shown[-1:]} instead of {rows}")

    async def find(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """Read until it has printed something of this name that was not found before."""
        while True:
            for each in self._others:
                if name in each:
                    self._others.remove(each)
                    return each[name]
            await self._read()

    def send(self, **values: object) -> None:
        """Write a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(values).encode() + b"\n")


@asynccontextmanager
async def script(name: str, options: Mapping[str, object]) -> AsyncIterator[Script]:
    """Start a program with options."""
    process = await asyncio.create_subprocess_exec(
        *("node", "--experimental-websocket", name, json.dumps(options)),
        cwd=WEB_TESTS,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Script(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
