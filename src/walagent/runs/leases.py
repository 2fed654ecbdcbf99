"""The runs that a worker holds, and the heartbeat that extends their leases."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.domain.run import Claim
from walagent.errors import DatabaseLostError
from walagent.store import claiming
from walagent.store.errors import translating
from walagent.store.sessions.connections import Pool, why_not
from walagent.telemetry.log import log

Connection = AsyncConnection[Any]

_UNHELD = 15.0  # seconds between two beats, at least, while nothing is held; below http.ready_after


@dataclass(slots=True)
class Held:
    """A run that this process executes.

    Args:
        cancelled: a person has cancelled it.
        lost: another worker holds it.
        storing: its outcome is being stored; its task must not be cancelled.
    """

    claim: Claim
    task: asyncio.Task[None] | None = None
    cancelled: bool = False
    lost: bool = False
    storing: bool = False

    def store(self) -> None:
        """Record that the outcome is being stored."""
        self.storing = True

    def abandon(self, *, cancelled: bool) -> None:
        """Cancel the run's task, which closes its connection to the model."""
        if self.cancelled or self.storing or self.task is None:
            return
        self.cancelled, self.lost = cancelled, not cancelled
        self.task.cancel()


@dataclass(slots=True)
class Leases:
    """Runs that are held under one worker's name.

    Args:
        lease: seconds.
        beside: called on the heartbeat's connection after the leases are extended.
    """

    pool: Pool
    worker: str
    lease: float
    beside: Callable[[Connection], Awaitable[None]] | None = None
    active: dict[int, Held] = field(default_factory=dict[int, Held])
    turned_at: float = field(default_factory=time.monotonic)  # when the loop last came around
    beat_at: float = field(default_factory=time.monotonic)  # when leases were last extended
    turns: Periodic = field(init=False)

    def __post_init__(self) -> None:
        """Extend three times within a lease."""
        self.turns = Periodic(self.lease / 3, at_once=False)

    def is_current(self, held: Held) -> bool:
        """Whether *held* is the present lease of its run."""
        return self.active.get(held.claim.run_id) is held

    def release(self, held: Held) -> None:
        """Remove a run."""
        if self.is_current(held):
            del self.active[held.claim.run_id]

    @property
    def is_late(self) -> bool:
        """Whether leases might have expired because the process was suspended."""
        return time.monotonic() - self.beat_at > self.lease

    def nudge(self) -> None:
        """Extend the leases now."""
        self.turns.nudge()

    async def run(self) -> None:
        """Extend the leases until cancelled; without any, beat half as often."""
        async for nudged in self.turns:
            self.turned_at = time.monotonic()
            rested = self.turned_at - self.beat_at
            if not (nudged or self.active) and rested < min(self.lease / 2, _UNHELD):
                continue
            try:
                await self.beat()
            except DatabaseLostError as error:
                log.warning("worker.heartbeat_failed", error=error)

    async def beat(self) -> None:
        """Extend all leases once; abandon the runs that are lost or cancelled.

        Raises:
            DatabaseLostError: the database did not reply.
        """
        held = list(self.active.values())
        async with self.connection() as conn:
            claims = [each.claim for each in held]
            lost = await claiming.heartbeat(
                conn, self.worker, claims, timedelta(seconds=self.lease)
            )
            if self.beside is not None:
                await self.beside(conn)
        self.beat_at = time.monotonic()
        for each in held:
            if each.claim.run_id in lost and self.is_current(each):
                each.abandon(cancelled=lost[each.claim.run_id])

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """Give a connection for what must be answered within a lease.

        Raises:
            DatabaseLostError: there was none, or no reply.
        """
        return _connection(self.pool, self.lease)


@asynccontextmanager
async def _connection(pool: Pool, seconds: float) -> AsyncGenerator[Connection]:
    try:
        with translating():
            async with asyncio.timeout(seconds), pool.connection() as conn:
                yield conn
    except TimeoutError as error:
        said, state = why_not(pool)
        words = f": {said}" if said else ""
        raise DatabaseLostError(f"the database does not reply{words}", sqlstate=state) from error
