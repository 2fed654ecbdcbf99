"""Looks at the tickets of the demo until nothing more is to come."""

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

_LOOK = 0.1  # seconds between two looks
_PATIENCE = 120.0  # seconds without anything new; a slow model on a small machine takes one
_HOPE = 20.0  # the same, when no model has answered yet and there are errors


class Audience(Protocol):
    """Whoever watches."""

    def tell(self, words: str) -> None:
        """Hear what happens now."""
        ...

    def show(self, stories: Sequence[Story]) -> None:
        """See how the tickets stand."""
        ...


@dataclass(frozen=True, slots=True)
class Tickets:
    """Which tickets are to come: from number *first* on, *rate* a second."""

    first: int
    count: int
    rate: float


class Watcher:
    """Starts the writer, and looks until all runs have ended."""

    def __init__(self, conn: Connection, audience: Audience, tickets: Tickets) -> None:
        self._conn = conn
        self._audience = audience
        self._tickets = tickets
        self._told: list[str] = []
        self._seen: object = None
        self._stirred = time.monotonic()  # when something new was last seen
        self.first_at: float | None = None  # when the first of these tickets had been worked

    async def watch(self, dsn: str) -> None:
        """Return when all is done, or when nothing has happened for long.

        Raises:
            ModelUnauthorizedError: the provider does not take the key.
            PreconditionError: the model cannot be used at all.
            WalagentError: the writer failed.
        """
        async with _writer(dsn, self._tickets) as writer:
            while not await self._is_over(writer):  # noqa: ASYNC110 - it looks at a database
                await asyncio.sleep(_LOOK)

    async def _is_over(self, writer: asyncio.subprocess.Process) -> bool:
        stories = await read_stories(self._conn)
        self._audience.show(stories)
        quiet = self._note(stories)
        if writer.returncode:
            raise WalagentError(f"the process that writes tickets ended with {writer.returncode}")
        await self._see_that_it_runs()
        if self._told:
            see_that_it_works(stories, self._told[0], quiet)
        all_in = writer.returncode == 0
        return quiet > _PATIENCE or (all_in and all(story.ended for story in stories))

    def _note(self, stories: Sequence[Story]) -> float:
        """Tell what is new, and give the seconds since there was something."""
        now = time.monotonic()
        mine = (story for story in stories if story.ticket >= self._tickets.first)
        if self.first_at is None and any(story.ended for story in mine):
            self.first_at = now
        for error in (story.error for story in stories):
            if error and error not in self._told:
                self._told.append(error)
                self._audience.tell(f"a run has trouble: {error}")
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
                f"the agent was paused: {row[0]}", hint="is the key right, and for this provider?"
            )


def see_that_it_works(stories: Sequence[Story], trouble: str, quiet: float) -> None:
    """Give up early where the model will never work a ticket.

    Args:
        trouble: the first error that a run had.
        quiet: seconds without anything new.

    Raises:
        PreconditionError: all runs have failed, or no model answers.
    """
    if any(story.steps for story in stories):
        return
    failed = [story for story in stories if story.state in {"failed", "dead"}]
    if len(failed) == len(stories):
        raise PreconditionError(f"every run fails: {trouble}", hint="name another model")
    if quiet > _HOPE:
        raise PreconditionError(
            f"no ticket could be worked: {trouble}", hint="is the model's address right?"
        )


@asynccontextmanager
async def _writer(dsn: str, tickets: Tickets) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run the application in a process of its own, which hears no Ctrl-C of ours."""
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
