"""docs/how-to/live-ui.md, followed word by word with packages of the registry."""

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.docs_pages import ROOT, Block, blocks
from tests.helpers.node import Script, needs_node, script
from walagent.http.server import listen

PAGE = ROOT / "docs" / "how-to" / "live-ui.md"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TOKEN = re.compile(r"\S{40,}")
INSTALLING = 300.0  # seconds; packages come from a registry
# The box of a ticket is selected before the ticket is saved.
SLOW = """
create function later() returns trigger language plpgsql as
  $$ begin perform pg_sleep(1); return new; end $$;
create trigger later before insert on ticket for each row execute function later();
"""
pytestmark = [
    pytest.mark.web,
    pytest.mark.slow,
    needs_node,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing"),
]


def lines(block: Block) -> list[str]:
    """The commands of a block."""
    return [line.removeprefix("$ ") for line in block.text.splitlines()]


def until_served(found: list[Block]) -> tuple[str, list[Block]]:
    """What the page says up to its next server, as a script of the shell, and the blocks after."""
    served = next(n for n, block in enumerate(found) if "npm run dev" in block.text)
    steps: list[str] = ["set -e"]
    for block in found[: served + 1]:
        if path := block.option("file"):
            steps += [f"cat > {path} <<'END_OF_FILE'", block.text, "END_OF_FILE"]
        else:
            steps += lines(block)
    return "\n".join(steps), found[served + 1 :]


@asynccontextmanager
async def shell(
    text: str, folder: Path, environment: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a script; end all that it started."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", text),
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


async def served(process: asyncio.subprocess.Process) -> tuple[str, str]:
    """Read until the server of the page says where it is; return that, and what was printed."""
    assert process.stdout is not None
    seen = list[str]()
    async with asyncio.timeout(INSTALLING):
        async for line in process.stdout:
            seen.append(re.sub(r"\x1b\[[0-9;]*m", "", line.decode()))
            if found := re.search(r"Local: +(\S+)", seen[-1]):
                return found[1], "".join(seen)
    pytest.fail("".join(seen))


class Reader:
    """Somebody who follows the page in an empty folder, with nothing else on the machine."""

    def __init__(self, folder: Path, port: str) -> None:
        programs = folder / "bin"
        programs.mkdir()
        command = programs / "walagent"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m walagent "$@"\n')
        command.chmod(0o755)
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith("PG")
        } | {
            "HOME": str(folder),
            "WALAGENT_HOME": str(folder / "home"),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
        }
        self.environment.pop("DATABASE_URL", None)
        self.folder = folder / "empty"
        self.folder.mkdir()
        self._port = port

    @asynccontextmanager
    async def serving(self, text: str, folder: str = "") -> AsyncIterator[tuple[Script, str]]:
        """Follow a part up to its server, and open the page in a browser."""
        assert text.count("8642") == 2
        text, where = text.replace("8642", self._port), self.folder / folder
        async with shell(text, where, self.environment) as server:
            url, printed = await served(server)
            async with script("live_ui.mjs", {"url": url, "chromium": CHROMIUM}) as page:
                yield page, printed

    async def prints(self, look: Block, result: Block) -> None:
        """Wait until a command prints what the page says."""
        async with asyncio.timeout(30):
            # The event is a row.
            while await run(look, self.folder, self.environment) != result.text:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def test_the_page_is_followed_word_by_word(tmp_path: Path) -> None:
    """A row appears as it is inserted; what is written in the browser is in the table.

    Then with mutations, as a principal: what a policy refuses does not stay in the page.
    """
    sockets = await listen("127.0.0.1", 0)
    port = str(sockets[0].getsockname()[1])
    for each in sockets:
        each.close()
    reader = Reader(tmp_path, port)
    text, (insert, look, result, *rest) = until_served(blocks(PAGE))
    fire = {"subject": "The printer is on fire", "done": False}
    toner = {"subject": "Order toner", "done": False}
    async with reader.serving(text) as (page, _):
        await page.until([])
        await run(insert, reader.folder, reader.environment)
        await page.until([fire])
        page.send(add="Order toner")
        await page.until([toner, fire])
        page.send(select="The printer is on fire")
        await page.until([toner, fire | {"done": True}])
        await reader.prints(look, result)
    text, (look, result) = until_served(rest)
    known = [toner, fire | {"done": True}]
    async with reader.serving(text, "tickets") as (page, printed):
        assert await page.find("asked") == "Token"
        page.send(answer=next(filter(TOKEN.fullmatch, printed.splitlines())))
        await page.until(known)
        plants = {"subject": "Water the plants", "done": False}
        await psql(SLOW, reader.folder, reader.environment)
        page.send(add="Water the plants")
        await page.until([*known, plants])
        page.send(select="Water the plants")
        known.append(plants | {"done": True})
        await page.until(known)
        await reader.prints(look, result)
        page.send(select="Order toner")
        assert "not saved" in await page.find("said")
        await page.until(known)
        await reader.prints(look, result)


async def psql(statements: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Execute statements that the page doesn't show."""
    async with shell(
        f"walagent database psql -q <<'END'\n{statements}\nEND", folder, environment
    ) as process:
        await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0


async def run(block: Block, folder: Path, environment: Mapping[str, str]) -> str:
    """Run the commands of a block; return what they print."""
    async with shell("\n".join(lines(block)), folder, environment) as process:
        printed, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, printed
        return printed.decode().strip()
