"""Watch the WAL that the slot retains, whether or not this process reads it.

It has its own connection: a blocked reader must not delay the alarm.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Never

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.config import Replication
from walagent.config.base import in_bytes
from walagent.errors import FencedError, StreamLostError, WalagentError
from walagent.replication.slot_retention import Backlog, Sign
from walagent.replication.wal_activity import WalActivity
from walagent.store import gaps, status
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.telemetry import metrics
from walagent.telemetry.log import log
from walagent.wal.options import READER
from walagent.wal.synchronous import why_counted

_CHECK = 2.0  # seconds between two checks
_CALM = 5.0  # the same, while the server writes no WAL
# For one statement: a check that cannot write is repeated.
_PATIENCE: Final = {"statement_timeout": "5s"}


class SlotWatch:
    """Measures what the slot retains, raises the alarm, and decides when to give up the slot."""

    def __init__(
        self, login: Callable[[], str], settings: Replication, epoch: Callable[[], int | None]
    ) -> None:
        """Store the parameters; nothing is connected yet.

        Args:
            login: returns the connection string.
            epoch: of the checkpoint at this process's last take-over; None: it never held it.
        """
        self._login = login
        self._slot = settings.slot
        self._alarm = settings.alarm_bytes
        self._limit = settings.give_up_bytes
        self._patience = settings.give_up_after
        self._epoch = epoch
        self._backlog = Backlog(alarm=self._alarm, limit=self._limit, patience=self._patience)
        self._kept = False  # whether it was logged that the slot is kept above the limit
        self._counted: StreamLostError | None = None  # as a synchronous standby
        self._is_active = True  # whether WAL was written before the last check
        self._changed = asyncio.Event()
        self.retained = 0
        self.behind = 0
        self.wal = WalActivity()

    @property
    def warnings(self) -> Sequence[str]:
        """Return the warnings for health checks, one sentence each."""
        if not self._backlog.alarming or self._alarm is None:
            return []
        warning = (
            f"slot retains {in_bytes(self.retained)} of WAL, more than"
            f" {in_bytes(self._alarm)} (replication.alarm_bytes)"
        )
        return [warning]

    async def synchronous(self) -> Never:
        """Wait until the server counts the reader as a synchronous standby.

        A connection of the reader could not tell: it waits itself for what it has committed.

        Raises:
            StreamLostError: release the slot.
        """
        while self._counted is None:
            self._changed.clear()
            await self._changed.wait()
        raise self._counted

    async def run(self) -> str:
        """Watch until the slot is given up and the gap is recorded; the caller drops the slot.

        Returns:
            the reason.
        """
        async for _ in Periodic(_CHECK):
            with suppress(WalagentError), translating():  # the reader reports the problem
                async with await connect(
                    self._login(), application="walagent watch", settings=_PATIENCE
                ) as conn:
                    return await self._keep_checking(conn)
            self.wal.see(None)
        raise AssertionError("the turns have no end")

    async def _keep_checking(self, conn: AsyncConnection[Any]) -> str:
        while True:
            if (reason := await self._check(conn)) is not None:
                return reason
            await asyncio.sleep(_CHECK if self._is_active else _CALM)

    async def _check(self, conn: AsyncConnection[Any]) -> str | None:
        """Check once; return the reason if the slot was given up."""
        seen = await status.read_backlog(conn, self._slot)
        self._counted = why_counted(seen.standby_names, READER)
        self._changed.set()
        self._is_active = self.wal.see(seen.end)
        self.retained, self.behind = seen.retained, seen.behind
        signs = self._backlog.look(seen.retained, seen.behind, time.monotonic())
        metrics.slot_retained_bytes.set(seen.retained)
        metrics.replication_lag_bytes.set(seen.behind)
        metrics.slot_alarm.set(self._backlog.alarming)
        if Sign.RAISED in signs:
            log.warning("slot.alarm_raised", slot=self._slot, retained=seen.retained)
        if Sign.CLEARED in signs:
            log.info("slot.alarm_cleared", slot=self._slot, retained=seen.retained)
        if Sign.HOPELESS in signs:
            return await self._give_up(conn)
        self._kept = False
        return None

    async def _give_up(self, conn: AsyncConnection[Any]) -> str | None:
        """Record the gap if this process holds the checkpoint; only then give up the slot."""
        epoch = self._epoch()
        reason = (
            f'slot "{self._slot}" was given up: it retained {in_bytes(self.retained)} of WAL, more'
            f" than {in_bytes(self._limit or 0)} (replication.give_up_bytes), and its reader made"
            f" no progress for {self._patience:g} s"
        )
        gap, error = None, FencedError("another reader holds the checkpoint")
        if epoch is not None:
            try:
                with translating():
                    gap = await gaps.give_up(conn, self._slot, epoch, reason)
            except WalagentError as caught:
                error = caught
        if gap is None:
            self._keep(error)
            return None
        log.error("slot.given_up", slot=self._slot, retained=self.retained, gap=gap)
        return reason

    def _keep(self, error: WalagentError) -> None:
        """Log once that the slot is kept, and why."""
        if not self._kept:
            log.warning("slot.drop_skipped", slot=self._slot, retained=self.retained, error=error)
        self._kept = True
