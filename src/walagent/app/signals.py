"""Signals of a daemon: stop, interrupt, reload."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signals:
    """What a process was asked to do."""

    stop: asyncio.Event
    again: asyncio.Event
    reload: asyncio.Event

    def asked_to_stop(self) -> None:
        """Stop; if it was asked before, interrupt."""
        (self.again if self.stop.is_set() else self.stop).set()


@asynccontextmanager
async def handling_signals() -> AsyncGenerator[Signals]:
    """Handle signals: the first SIGTERM or SIGINT stops, the second interrupts; SIGHUP reloads."""
    signals = Signals(asyncio.Event(), asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, signals.asked_to_stop)
    loop.add_signal_handler(signal.SIGINT, signals.asked_to_stop)
    loop.add_signal_handler(signal.SIGHUP, signals.reload.set)
    try:
        yield signals
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
