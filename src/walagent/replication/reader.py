"""Follow a slot: hold it or stand by, and start over after each lost connection."""

import asyncio
import time
from typing import Never

from walagent.base.concurrency import event_within, first_of
from walagent.base.retries import DATABASE, seconds
from walagent.errors import (
    DatabaseLostError,
    FencedError,
    GapError,
    LoginRefusedError,
    SlotBusyError,
    StreamLostError,
)
from walagent.replication.attempt import Following, StreamAttempt
from walagent.replication.health import ReaderHealth
from walagent.replication.sinks import ResubscribeError, Table
from walagent.replication.slot_watch import SlotWatch
from walagent.replication.source import release_slot
from walagent.replication.wal_activity import WalActivity
from walagent.store import gaps
from walagent.store.checkpoint import Checkpoint
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.telemetry.log import log
from walagent.wal.refusals import LOST

_STANDBY = 0.5  # seconds between attempts of a standby
_HEALTHY = 60.0  # seconds of streaming after which backoff starts again
_LOST = (StreamLostError, DatabaseLostError, LoginRefusedError)


class Reader:
    """Follows one slot until it is given up."""

    def __init__(self, following: Following) -> None:
        """Store the parameters; nothing is connected yet."""
        self._following = following
        self._logins = following.logins
        self._slot = following.settings.slot
        self._watch = SlotWatch(self._logins.dsn, following.settings, self._epoch)
        self.health = ReaderHealth(self._slot, self._watch)
        self._attempt: StreamAttempt | None = None
        self._held: Checkpoint | None = None  # as of this process's last take-over
        self._tables: frozenset[Table] = frozenset()  # requested by `ResubscribeError`
        self._failures = 0  # in a row
        self._is_careful = False  # whether the last stream was lost, or the last attempt at one
        self._let_in = False  # whether the server ever accepted the logins
        self._hurry = asyncio.Event()

    def _epoch(self) -> int | None:
        held = (self._attempt.held if self._attempt else None) or self._held
        return held.epoch if held else None

    @property
    def wal(self) -> WalActivity:
        """Return whether the server writes WAL, as the watch of the slot sees it."""
        return self._watch.wal

    def hurry(self) -> None:
        """End the current pause: the logins have changed."""
        self._hurry.set()

    async def run(self) -> Never:
        """Follow the slot until it is given up.

        Raises:
            GapError, PreconditionError, DecodeError: an operator must act.
            LoginRefusedError: the same, if no login was ever accepted.
        """
        reason = await first_of(slot=self._watch.run(), follow=self._keep_following())
        await self._drop()
        raise GapError(reason, hint=LOST)

    async def _keep_following(self) -> Never:
        while True:
            self._attempt = attempt = StreamAttempt(
                self._following,
                self.health,
                self._watch,
                self._tables,
                is_careful=self._is_careful,
            )
            started = time.monotonic()
            try:
                await attempt.run()
            except ResubscribeError as error:
                self._tables, self._is_careful, wait = error.tables, False, 0.0
                log.info("reader.resubscribing", slot=self._slot)
            except SlotBusyError as error:
                self.health.wait("standing by: another reader holds the slot", error)
                self._let_in, wait = True, _STANDBY
            except GapError as error:
                wait = await self._after_gap(error, attempt)
            except (*_LOST, FencedError) as error:
                wait = self._after_loss(error, attempt, started)
            finally:
                self.health.closed()
            self._leave(attempt)
            await self._pause(wait)

    def _leave(self, attempt: StreamAttempt) -> None:
        """Keep the results of an attempt that later attempts need."""
        self._let_in |= attempt.let_in
        self._held = attempt.held or self._held

    def _after_loss(self, error: Exception, attempt: StreamAttempt, started: float) -> float:
        """Return the pause in seconds; short if the stream delivered something or was open long."""
        if isinstance(error, LoginRefusedError) and not (self._let_in or attempt.let_in):
            raise error
        was_healthy = attempt.has_moved or time.monotonic() - started > _HEALTHY
        self._failures = 0 if was_healthy else self._failures + 1
        self._is_careful = True
        self.health.wait(str(error), error)
        return seconds(DATABASE, self._failures)

    async def _after_gap(self, error: GapError, attempt: StreamAttempt) -> float:
        """Record a gap that was found while the stream was opened or read.

        If it cannot be recorded, or another process has created a new slot, try again later.

        Raises:
            GapError: it is recorded.
        """
        if attempt.found is None or await self._is_recorded(error, attempt.found):
            raise error
        self._failures += 1
        return seconds(DATABASE, self._failures)

    async def _is_recorded(self, error: GapError, found: Checkpoint) -> bool:
        try:
            with translating():
                async with await connect(self._logins.dsn()) as conn:
                    return await gaps.record_gap(conn, found.slot, found.generation, str(error))
        except (DatabaseLostError, LoginRefusedError) as trouble:
            self.health.wait(f"{error}; cannot record the gap: {trouble}", trouble)
            return False

    async def _pause(self, seconds: float) -> None:
        self._hurry.clear()
        await event_within(self._hurry, seconds)
        self.health.turn()

    async def _drop(self) -> None:
        """Drop the slot that was given up, and retry until that succeeds."""
        failures = 0
        while True:
            try:
                return await release_slot(self._logins.replication_dsn(), self._slot)
            except (*_LOST, SlotBusyError) as error:
                failures += 1
                trouble = f"cannot drop the slot that was given up: {error}"
                self.health.wait(trouble, error)
            await self._pause(seconds(DATABASE, failures))
