"""Hints that people interrupt turns: who waits for them looks into the thread."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager


class Interrupts:
    """The runs of this process that can be interrupted now."""

    def __init__(self) -> None:
        """Wait for none."""
        self._waiting: dict[str, asyncio.Event] = {}

    def hint(self, run: str) -> None:
        """Let who waits look; anyone can notify, so that a hint alone interrupts nothing."""
        if (event := self._waiting.get(run)) is not None:
            event.set()

    @contextmanager
    def awaiting(self, run_id: int) -> Generator[asyncio.Event]:
        """Give the event that a hint for a run sets, until this ends."""
        event = self._waiting[str(run_id)] = asyncio.Event()
        try:
            yield event
        finally:
            del self._waiting[str(run_id)]
