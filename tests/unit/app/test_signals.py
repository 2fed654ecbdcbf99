"""SIGHUP: reload, unless the terminal of the daemon was closed."""

import asyncio
import os
import pty
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from walagent.app.signals import handling_signals


async def _wait(say: Callable[[str], object]) -> None:
    """Handle signals in a child, and write which came."""
    async with handling_signals() as signals:
        say("ready")
        waits = {
            asyncio.create_task(signals.stop.wait(), name="stop"),
            asyncio.create_task(signals.reload.wait(), name="reload"),
        }
        done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        for task in pending:
            task.cancel()
        say(",".join(task.get_name() for task in done))


@pytest.mark.parametrize(("closes", "expected"), [(True, "stop"), (False, "reload")])
def test_a_closed_terminal_stops_and_a_signal_reloads(
    tmp_path: Path, *, closes: bool, expected: str
) -> None:
    """Nobody would see a daemon that goes on spending after its window is gone."""
    path = tmp_path / "said"
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests can run under nohup
            asyncio.new_event_loop().run_until_complete(_wait(path.write_text))
        finally:
            os._exit(0)
    _until(path, "ready")
    if closes:
        os.close(terminal)
    else:
        os.kill(pid, signal.SIGHUP)
    _until(path, expected)
    os.waitpid(pid, 0)
    if not closes:
        os.close(terminal)


def _until(path: Path, text: str) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() or path.read_text() != text:
        assert time.monotonic() < deadline, path.exists() and path.read_text()
        time.sleep(0.02)
