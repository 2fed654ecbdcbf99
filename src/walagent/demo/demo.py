"""Run the demo: tickets from another process, the daemon as in `walagent run`, and a summary.

server → database → desk → model → agent.attach() → serve() → writer → … → summary
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from walagent.app.serve import Hooks, serve
from walagent.base.concurrency import first_of
from walagent.config import Config, Embedded, Http, Replication
from walagent.config.dsn import Places
from walagent.demo.database import SLOT, open_database
from walagent.demo.desk import attach_agent, open_desk, take_payments
from walagent.demo.model import ModelChoice, label_of, register_model
from walagent.demo.stories import read_stories
from walagent.demo.summary import Summary, count, score
from walagent.demo.watch import Observer, TicketRange, Watcher
from walagent.models.registry import can_plan
from walagent.store.errors import translating
from walagent.store.install.migrate import migrate
from walagent.store.sessions.connections import connect

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the demo.

    Args:
        rate: tickets a second.
        keep: continue in the database of the last demo.
        embedded: the paths of the embedded server.
    """

    tickets: int
    rate: float
    model: ModelChoice
    keep: bool
    embedded: Embedded


async def run_demo(options: DemoOptions, observer: Observer) -> Summary:
    """Run the demo and return the summary.

    Raises:
        PreconditionError, ModelUnauthorizedError: an operator must act first.
        ConfigError: the model does not exist.
    """
    began = time.monotonic()
    prepared = list[tuple[TicketRange, str]]()

    async def prepare(dsn: str) -> None:
        observer.report("preparing the database")
        async with _connected(dsn) as conn:
            prepared.append(await _prepare(conn, options))

    observer.report("starting PostgreSQL")
    async with (
        open_database(options.embedded, prepare, keep=options.keep) as dsn,
        _connected(dsn) as conn,
    ):
        tickets, model = prepared[-1]
        with translating():
            observer.report(f"{model} is attached to support_tickets")
            watcher = Watcher(conn, observer, tickets)
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


@asynccontextmanager
async def _connected(dsn: str) -> AsyncGenerator[Connection]:
    """Connect to the demo's own database, whose tables are written without their schema."""
    async with await connect(dsn, application="walagent demo") as conn:
        await conn.execute("set search_path = public, pg_temp")
        yield conn


async def _prepare(conn: Connection, options: DemoOptions) -> tuple[TicketRange, str]:
    """Set everything up to the attached agent; return the tickets to write and the model's name."""
    await migrate(conn)
    first = await open_desk(conn)
    await take_payments(conn, first, options.tickets)
    spec = await register_model(conn, options.model)
    await attach_agent(conn, spec.name, by_labels=not can_plan(spec))
    return TicketRange(first, options.tickets, options.rate), label_of(spec)


async def _serve_while(dsn: str, watcher: Watcher) -> bool:
    """Run the daemon until *watcher* has seen all tickets; True if a signal ended it before."""
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
