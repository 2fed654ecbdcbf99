"""Signals of a daemon: stop, interrupt, reload."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from walagent.telemetry.log import log


@dataclass(frozen=True, slots=True)
class Signals:
    """What a process was asked to do."""

    stop: asyncio.Event
    again: asyncio.Event
    reload: asyncio.Event

    def asked_to_stop(self) -> None:
        """Stop; if it was asked before, interrupt."""
        (self.again if self.stop.is_set() else self.stop).set()


def has_terminal() -> bool:
    """Whether this process has a terminal that is still open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


@asynccontextmanager
async def handling_signals() -> AsyncGenerator[Signals]:
    """Handle signals: the first SIGTERM or SIGINT stops, the second interrupts; SIGHUP reloads.

    The SIGHUP of a terminal that was closed stops: nobody would see a daemon that goes on.  One
    that was started to outlive its terminal, such as by nohup, ignores it.
    """
    signals = Signals(asyncio.Event(), asyncio.Event(), asyncio.Event())
    attended = has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN

    def hung_up() -> None:
        if attended and not has_terminal():
            log.warning("daemon.terminal_closed")
            signals.asked_to_stop()
        else:
            signals.reload.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, signals.asked_to_stop)
    loop.add_signal_handler(signal.SIGINT, signals.asked_to_stop)
    loop.add_signal_handler(signal.SIGHUP, hung_up)
    try:
        yield signals
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
