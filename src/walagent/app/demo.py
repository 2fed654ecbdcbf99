"""The demo: tickets from another process, the daemon as `walagent run` starts it, and a verdict.

    server → database → desk → model → agent.attach() → serve() → writer → … → summary
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from psycopg import AsyncConnection

from walagent.app.demo_model import Choice, label_of, register_model
from walagent.app.demo_stage import SLOT, open_stage
from walagent.app.dsn import Places
from walagent.app.migrating import migrate
from walagent.app.serve import Hooks, serve
from walagent.config import Config, Embedded, Http, Replication
from walagent.demo.desk import attach_agent, open_desk, take_payments
from walagent.demo.stories import Story, read_stories
from walagent.demo.summary import Summary, count, score
from walagent.errors import ModelUnauthorizedError, WalagentError
from walagent.store.connections import connect
from walagent.store.translate import translating

Connection = AsyncConnection[Any]

_LOOK = 0.1  # seconds between two looks at the tickets
_PATIENCE = 120.0  # seconds without any new step, after which the demo is over


@dataclass(frozen=True, slots=True)
class Play:
    """What to play.

    Args:
        rate: tickets a second.
        keep: go on in the database of the last demo.
    """

    tickets: int
    rate: float
    model: Choice
    keep: bool = False
    embedded: Embedded = Embedded()


class Audience(Protocol):
    """Whoever watches."""

    def tell(self, words: str) -> None:
        """Hear what happens now."""
        ...

    def show(self, stories: Sequence[Story]) -> None:
        """See how the tickets stand."""
        ...


async def perform(play: Play, audience: Audience) -> Summary:
    """Play, and say what came of it.

    Raises:
        PreconditionError, ModelUnauthorizedError: a person must act first.
        ConfigError: there is no such model.
    """
    began = time.monotonic()
    audience.tell("starting PostgreSQL")
    async with (
        open_stage(play.embedded, keep=play.keep) as dsn,
        await connect(dsn, application="walagent demo") as conn,
    ):
        with translating():
            audience.tell("preparing the database")
            first, model = await _prepare(conn, play)
            audience.tell(f"{model} is attached to support_tickets")
            watcher = _Watcher(conn, audience, play, first, began)
            interrupted = await _serve_while(dsn, watcher)
            stories = await read_stories(conn)
            return Summary(
                model,
                await count(conn),
                score(stories, {"apart"}),
                score(stories, {"apart", "open"}),
                watcher.first_seconds,
                round(time.monotonic() - began, 2),
                interrupted,
            )


async def _prepare(conn: Connection, play: Play) -> tuple[int, str]:
    """Make everything up to the attached agent; give the next ticket's number and the model."""
    await migrate(conn)
    first = await open_desk(conn)
    await take_payments(conn, first, play.tickets)
    spec = await register_model(conn, play.model)
    await attach_agent(conn, spec.name, embedded=spec.provider == "embedded")
    return first, label_of(spec)


class _Watcher:
    """Starts the writer, and looks at the tickets until all runs have ended."""

    def __init__(
        self, conn: Connection, audience: Audience, play: Play, first: int, began: float
    ) -> None:
        self._conn = conn
        self._audience = audience
        self._play = play
        self._first = first
        self._began = began
        self._stirred = began  # when something new was last seen
        self._seen: object = None
        self.first_seconds: float | None = None

    async def watch(self, dsn: str) -> None:
        """Return when nothing more is to come.

        Raises:
            ModelUnauthorizedError: the model's key is not taken, so the agent was paused.
            WalagentError: the writer failed.
        """
        async with _writer(dsn, self._first, self._play.tickets, self._play.rate) as writer:
            while True:
                stories = await read_stories(self._conn)
                self._note(stories)
                self._audience.show(stories)
                if writer.returncode:
                    raise WalagentError(f"the writer ended with {writer.returncode}")
                if writer.returncode == 0 and all(story.ended for story in stories):
                    return
                if time.monotonic() - self._stirred > _PATIENCE:
                    return
                await self._see_that_it_runs()
                await asyncio.sleep(_LOOK)

    def _note(self, stories: Sequence[Story]) -> None:
        now = time.monotonic()
        if self.first_seconds is None and any(s.ended and s.ticket >= self._first for s in stories):
            self.first_seconds = round(now - self._began, 2)
        seen = [(story.state, story.steps) for story in stories]
        if seen != self._seen:
            self._seen, self._stirred = seen, now

    async def _see_that_it_runs(self) -> None:
        cursor = await self._conn.execute(
            "select paused_reason from agent.attachment where paused_reason is not null"
        )
        if row := await cursor.fetchone():
            raise ModelUnauthorizedError(f"the agent was paused: {row[0]}")


async def _serve_while(dsn: str, watcher: _Watcher) -> bool:
    """Run the daemon until *watcher* has seen all; True when a signal ended it before."""
    streaming = asyncio.Event()
    config = Config(replication=Replication(slot=SLOT), http=Http(enabled=False))

    async def watching() -> None:
        await streaming.wait()
        await watcher.watch(dsn)

    serving = asyncio.create_task(
        serve(config, Places(dsn, dsn), Hooks(on_streaming=streaming.set)), name="serve"
    )
    watch = asyncio.create_task(watching(), name="watch")
    try:
        await asyncio.wait({serving, watch}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
            return True
        watch.result()
        return False
    finally:
        watch.cancel()
        serving.cancel()
        await asyncio.gather(watch, serving, return_exceptions=True)


@asynccontextmanager
async def _writer(
    dsn: str, first: int, tickets: int, rate: float
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run the application in a process of its own, which hears no Ctrl-C of ours."""
    options = {"first": first, "count": tickets, "rate": rate}
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
