"""Watch the demo's tickets until all are processed."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from psycopg import AsyncConnection

from walagent.demo.stories import Story, read_stories
from walagent.errors import ModelUnauthorizedError, PreconditionError, WalagentError

Connection = AsyncConnection[Any]

_LOOK = 0.1  # seconds between two checks
_PATIENCE = 120.0  # seconds without progress; a slow model on a small machine needs one minute
_HOPE = 20.0  # the same, if there are errors and no model has replied yet


class Observer(Protocol):
    """Shows the progress of the demo."""

    def report(self, words: str) -> None:
        """Show a progress message."""
        ...

    def show(self, stories: Sequence[Story]) -> None:
        """Show the state of the tickets."""
        ...


@dataclass(frozen=True, slots=True)
class TicketRange:
    """The tickets to write: from number *first* on, *rate* a second."""

    first: int
    count: int
    rate: float


class Watcher:
    """Starts the writer, and watches until all runs have ended."""

    def __init__(self, conn: Connection, observer: Observer, tickets: TicketRange) -> None:
        self._conn = conn
        self._observer = observer
        self._tickets = tickets
        self._reported: list[str] = []
        self._seen: object = None
        self._stirred = time.monotonic()  # when the last progress was seen
        self.first_at: float | None = None  # when the first of these tickets had been processed

    async def watch(self, dsn: str) -> None:
        """Return when all tickets are processed, or without progress for long.

        Raises:
            ModelUnauthorizedError: the provider rejects the key.
            PreconditionError: the model cannot be used.
            WalagentError: the writer failed.
        """
        async with _writer(dsn, self._tickets) as writer:
            while not await self._is_over(writer):  # noqa: ASYNC110 - a condition in SQL
                await asyncio.sleep(_LOOK)

    async def _is_over(self, writer: asyncio.subprocess.Process) -> bool:
        stories = await read_stories(self._conn)
        self._observer.show(stories)
        quiet = self._note(stories)
        if writer.returncode:
            raise WalagentError(f"the ticket writer exited with code {writer.returncode}")
        await self._see_that_it_runs()
        if self._reported:
            see_that_it_works(stories, self._reported[0], quiet)
        all_in = writer.returncode == 0
        return quiet > _PATIENCE or (all_in and all(story.ended for story in stories))

    def _note(self, stories: Sequence[Story]) -> float:
        """Show what is new, and return the seconds since the last progress."""
        now = time.monotonic()
        mine = (story for story in stories if story.ticket >= self._tickets.first)
        if self.first_at is None and any(story.ended for story in mine):
            self.first_at = now
        for error in (story.error for story in stories):
            if error and error not in self._reported:
                self._reported.append(error)
                self._observer.report(f"error in a run: {error}")
        seen = [(story.steps, story.ended) for story in stories]
        if seen != self._seen:
            self._seen, self._stirred = seen, now
        return now - self._stirred

    async def _see_that_it_runs(self) -> None:
        cursor = await self._conn.execute(
            "select paused_reason from agent.attachment where paused_reason is not null"
        )
        if row := await cursor.fetchone():
            raise ModelUnauthorizedError(
                f"the agent was paused: {row[0]}",
                hint="Check the key and its provider.",
            )


def see_that_it_works(stories: Sequence[Story], trouble: str, quiet: float) -> None:
    """Stop early if the model cannot process any ticket.

    Args:
        trouble: the first error of a run.
        quiet: seconds without progress.

    Raises:
        PreconditionError: all runs have failed, or no model replies.
    """
    if any(story.steps for story in stories):
        return
    failed = [story for story in stories if story.state in {"failed", "dead"}]
    if len(failed) == len(stories):
        raise PreconditionError(f"every run fails: {trouble}", hint="Use another model.")
    if quiet > _HOPE:
        raise PreconditionError(
            f"no ticket was processed: {trouble}", hint="Check the model's base URL."
        )


@asynccontextmanager
async def _writer(dsn: str, tickets: TicketRange) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run the application in a separate process, which ignores Ctrl-C."""
    options = {"first": tickets.first, "count": tickets.count, "rate": tickets.rate}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "walagent.demo.writer"),
        *(word for name, value in options.items() for word in (f"--{name}", str(value))),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        env=os.environ | {"DATABASE_URL": dsn},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
