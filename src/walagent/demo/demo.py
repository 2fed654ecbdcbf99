"""The demo: tickets from another process, the daemon as `walagent run` starts it, and a verdict.

server → database → desk → model → agent.attach() → serve() → writer → … → summary
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from walagent.agent.models.registry import can_plan
from walagent.app.migrate import migrate
from walagent.app.serve import Hooks, serve
from walagent.concurrency import first_of
from walagent.config import Config, Embedded, Http, Replication
from walagent.config.dsn import Places
from walagent.demo.desk import attach_agent, open_desk, take_payments
from walagent.demo.model import Choice, label_of, register_model
from walagent.demo.stage import SLOT, open_stage
from walagent.demo.stories import read_stories
from walagent.demo.summary import Summary, count, score
from walagent.demo.watch import Audience, Tickets, Watcher
from walagent.store.connections import connect
from walagent.store.errors import translating

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Play:
    """What to play.

    Args:
        rate: tickets a second.
        keep: go on in the database of the last demo.
        embedded: where the server's files are.
    """

    tickets: int
    rate: float
    model: Choice
    keep: bool
    embedded: Embedded


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
            tickets, model = await _prepare(conn, play)
            audience.tell(f"{model} is attached to support_tickets")
            watcher = Watcher(conn, audience, tickets)
            interrupted = await _serve_while(dsn, watcher)
            new = (s for s in await read_stories(conn) if s.ticket >= tickets.first)
            stories = [story for story in new if story.ended]
            return Summary(
                model,
                await count(conn),
                apart=score(stories, {"apart"}),
                not_examples=score(stories, {"apart", "open"}),
                first_seconds=round(watcher.first_at - began, 2) if watcher.first_at else None,
                seconds=round(time.monotonic() - began, 2),
                interrupted=interrupted,
            )


async def _prepare(conn: Connection, play: Play) -> tuple[Tickets, str]:
    """Make everything up to the attached agent; say which tickets may come, and who works them."""
    await migrate(conn)
    first = await open_desk(conn)
    await take_payments(conn, first, play.tickets)
    spec = await register_model(conn, play.model)
    await attach_agent(conn, spec.name, by_labels=not can_plan(spec))
    return Tickets(first, play.tickets, play.rate), label_of(spec)


async def _serve_while(dsn: str, watcher: Watcher) -> bool:
    """Run the daemon until *watcher* has seen all; True when a signal ended it before."""
    streaming = asyncio.Event()
    config = Config(replication=Replication(slot=SLOT), http=Http(enabled=False))

    async def serve_tickets() -> bool:
        await serve(config, Places(dsn, dsn), Hooks(on_streaming=streaming.set))
        return True

    async def watch_tickets() -> bool:
        await streaming.wait()
        await watcher.watch(dsn)
        return False

    return await first_of(serve=serve_tickets(), watch=watch_tickets())
