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
from tests.helpers.node import needs_node, script
from walagent.http.server import listen

PAGE = ROOT / "docs" / "how-to" / "live-ui.md"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
INSTALLING = 300.0  # seconds; packages come from a registry
pytestmark = [
    pytest.mark.web,
    pytest.mark.slow,
    needs_node,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing"),
]


def lines(block: Block) -> list[str]:
    """The commands of a block."""
    return [line.removeprefix("$ ") for line in block.text.splitlines()]


def until_served() -> tuple[str, list[Block]]:
    """What the page says up to its server, as one script of the shell, and the blocks after it."""
    found = blocks(PAGE)
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


async def address(process: asyncio.subprocess.Process) -> str:
    """Read until the server of the page says where it is."""
    assert process.stdout is not None
    seen = list[str]()
    async with asyncio.timeout(INSTALLING):
        async for line in process.stdout:
            seen.append(re.sub(r"\x1b\[[0-9;]*m", "", line.decode()))
            if found := re.search(r"Local: +(\S+)", seen[-1]):
                return found[1]
    pytest.fail("".join(seen))


async def test_the_page_is_followed_word_by_word(tmp_path: Path) -> None:
    """A row appears as it is inserted; what is written in the browser is in the table."""
    sockets = await listen("127.0.0.1", 0)
    port = str(sockets[0].getsockname()[1])
    for each in sockets:
        each.close()
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "walagent"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m walagent "$@"\n')
    command.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    environment |= {
        "HOME": str(tmp_path),
        "WALAGENT_HOME": str(tmp_path / "home"),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    environment.pop("DATABASE_URL", None)
    folder = tmp_path / "empty"
    folder.mkdir()
    text, (insert, look, result) = until_served()
    assert text.count("8642") == 2
    async with shell(text.replace("8642", port), folder, environment) as server:
        options = {"url": await address(server), "chromium": CHROMIUM}
        async with script("live_ui.mjs", options) as page:
            await page.until([])
            await run(insert, folder, environment)
            fire = {"subject": "The printer is on fire", "done": False}
            await page.until([fire])
            page.send(add="Order toner")
            await page.until([{"subject": "Order toner", "done": False}, fire])
            page.send(select="The printer is on fire")
            await page.until([{"subject": "Order toner", "done": False}, fire | {"done": True}])
            async with asyncio.timeout(30):
                # The event is a row.
                while await run(look, folder, environment) != result.text:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)


async def run(block: Block, folder: Path, environment: Mapping[str, str]) -> str:
    """Run the commands of a block; return what they print."""
    async with shell("\n".join(lines(block)), folder, environment) as process:
        printed, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, printed
        return printed.decode().strip()
