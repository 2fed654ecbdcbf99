"""A reader and a worker inside the test's own process, which die when an armed fault fires.

They die without goodbye: their sockets are cut, so the server sees what a killed process leaves.
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection

from tests.faults.rig.stage import TOOLS
from tests.faults.rig.waiting import DEADLINE, until_true
from walagent.base import faults
from walagent.config import Replication
from walagent.errors import SlotBusyError
from walagent.intake.conditions import Evaluator
from walagent.intake.intake import Intake
from walagent.intake.settings import IntakeSettings
from walagent.matching.canary import Canary
from walagent.matching.registry import Registry
from walagent.models.model import Model
from walagent.replication.bootstrap import PUBLICATIONS, ensure_slot
from walagent.replication.feed import Feed
from walagent.replication.source import check_source
from walagent.runs.tools.toolbox import Toolbox
from walagent.runs.worker import Worker, WorkerSettings
from walagent.store import attachments
from walagent.store import checkpoint as checkpoints
from walagent.store.checkpoint import Checkpoint
from walagent.store.role_reader import RoleReader
from walagent.store.sessions.connections import connect, open_pool
from walagent.store.sessions.tool_connections import open_tool_connections
from walagent.tools.python import find_tools
from walagent.wal.connection import connect_replication, start_replication
from walagent.wal.options import StreamOptions
from walagent.wal.stream import ReplicationStream
from walagent.wal.transactions import PgoutputTransactions
from walagent.workers.worker_resources import agent_resources

Done = Callable[[], Awaitable[bool]]


class Intaker:
    """A reader's intake with its connections; `die` cuts them."""

    def __init__(self, dsn: str, slot: str) -> None:
        self._dsn = dsn
        self._settings = Replication(slot=slot)
        self._conns: list[AsyncConnection[Any]] = []
        self.stream: ReplicationStream | None = None

    async def start(self) -> Feed:
        """Open the stream where the checkpoint ends and take the checkpoint over."""
        conn, evaluate = await self._connect(), await self._connect()
        checkpoint = await ensure_slot(conn, self._dsn, self._settings)
        await self._wait_for_slot(conn, checkpoint)
        canaries = [Canary(*each) for each in await attachments.active_canaries(conn)]
        registry = Registry(await attachments.active_attachments(conn), canaries)
        options = StreamOptions(
            self._settings.slot,
            publications=PUBLICATIONS,
            start=checkpoint.end_lsn,
            sender_timeout=60,  # one loop reads, ingests and looks whether it is done
        )
        replication = await connect_replication(self._dsn, sender_timeout=options.sender_timeout)
        self._conns.append(replication)
        transport = await start_replication(replication, options)
        transactions = PgoutputTransactions(
            lambda _: True, start=options.start, prefixes=options.prefixes
        )
        checkpoint = await checkpoints.take_checkpoint(conn, self._settings.slot, "test")
        self.stream = ReplicationStream(transport, options, transactions)  # reads from now on
        key = await attachments.secret_key(conn)
        evaluator, settings = Evaluator(evaluate, RoleReader(evaluate)), IntakeSettings()
        return Feed(self.stream, [Intake(conn, evaluator, checkpoint, registry, key, settings)])

    async def die(self) -> None:
        """Let go of everything as a killed process does."""
        for conn in self._conns:
            hang_up(conn)
        if self.stream is not None:
            await self.stream.close()
        for conn in self._conns:
            await conn.close()

    async def _connect(self) -> AsyncConnection[Any]:
        conn = await connect(self._dsn)
        self._conns.append(conn)
        return conn

    async def _wait_for_slot(self, conn: AsyncConnection[Any], checkpoint: Checkpoint) -> None:
        """The server needs a moment to notice that the last reader is dead."""

        async def is_free() -> bool:
            with suppress(SlotBusyError):
                await check_source(conn, self._dsn, self._settings, checkpoint)
                return True
            return False

        await until_true(is_free, "the slot is free")


def hang_up(conn: AsyncConnection[Any]) -> None:
    """Cut the connection below libpq, which would say goodbye."""
    if conn.closed:
        return
    with socket.socket(fileno=os.dup(conn.pgconn.socket)) as wire, suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)


async def ingest(dsn: str, slot: str, done: Done) -> bool:
    """Take changes in until *done*; True when a fault killed it before."""
    intaker = Intaker(dsn, slot)
    try:
        feed = await intaker.start()
        async with asyncio.timeout(DEADLINE):
            while not await done():
                await feed.take_one()
    except faults.Crash:
        return True
    finally:
        await intaker.die()
    return False


async def work(dsn: str, models: Mapping[str, Model], done: Done, *, slots: int = 1) -> bool:
    """Work runs until *done*; True when a fault killed it before."""
    name = f"worker-{time.monotonic_ns()}"
    async with (
        open_pool(dsn, size=4, application=name) as pool,
        open_tool_connections(pool, lambda: dsn) as calls,
        await connect(dsn) as conn,
    ):
        key = await attachments.secret_key(conn)
        tools = find_tools([TOOLS])
        shop = agent_resources(pool, Toolbox(calls, tools), models.__getitem__, key)
        worker = Worker(WorkerSettings(name, slots=slots, poll=0.05, drain=5), shop)
        working = asyncio.create_task(worker.run())

        async def is_over() -> bool:
            return working.done() or await done()

        await until_true(is_over, "the worker has died, or has done everything")
        worker.stop()
        died = await _died(working)
        if died:
            await _hang_up_on(conn, name)
    return died


async def _died(working: asyncio.Task[None]) -> bool:
    try:
        await working
    except BaseExceptionGroup as group:
        if group.subgroup(faults.Crash) is None:
            raise
        return True
    except faults.Crash:
        return True
    return False


async def _hang_up_on(conn: AsyncConnection[Any], application: str) -> None:
    """The pool does not show its connections, so the server ends them."""
    await conn.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s",
        [application],
    )
