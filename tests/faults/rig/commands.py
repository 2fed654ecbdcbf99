"""Commands as a person types them, and what they say."""

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.faults.rig.processes import ROOT, config_of
from tests.faults.rig.stage import Place
from tests.faults.rig.waiting import DEADLINE
from tests.helpers.commands import Ended, run_command


async def types(place: Place, *words: str) -> Ended:
    """Type ``walagent`` with *words*, on the place's database and slot, and wait for its end."""
    return await asyncio.to_thread(
        run_command, [*words, *_where(place)],
        folder=place.folder, environment=_environment(), patience=DEADLINE,
    )  # fmt: skip


async def answers(place: Place, *words: str, to: Sequence[tuple[str, str]]) -> str:
    """Type ``walagent`` on a terminal, and give each answer when its question is there.

    Args:
        to: questions, or parts of them, and their answers.

    Returns:
        what stood on the terminal in the end; the command has ended with 0.
    """
    return await asyncio.to_thread(_converse, place, words, to)


def _converse(place: Place, words: Sequence[str], to: Sequence[tuple[str, str]]) -> str:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "walagent", *words, *_where(place)],
        cwd=place.folder, env=_environment(),
        stdin=slave, stdout=slave, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    try:
        screen, seen = "", 0
        for question, answer in to:
            while question not in screen[seen:]:
                screen += _read(master, screen)
            seen = screen.index(question, seen) + len(question)
            os.write(master, f"{answer}\n".encode())
        while more := _read(master, screen):
            screen += more
        assert process.wait(DEADLINE) == 0, screen
        return screen
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _read(master: int, screen: str) -> str:
    """Wait for more; nothing comes when the command has ended."""
    deadline = time.monotonic() + DEADLINE
    while not select.select([master], [], [], 1)[0]:
        assert time.monotonic() < deadline, f"nothing more comes: {screen}"
    try:
        return os.read(master, 4096).decode(errors="replace")
    except OSError:  # what Linux says at the end
        return ""


def _where(place: Place) -> list[str]:
    config = place.folder / "command.json"
    config.write_text(json.dumps(config_of(place, {})))
    return ["--dsn", place.dsn, "--config", str(config)]


def _environment() -> Mapping[str, str]:
    apart = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "COLUMNS": "200", "HOME": str(Path.home())}
    return {**os.environ, **apart}
