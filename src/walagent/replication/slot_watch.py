"""Watching what the slot keeps, whether or not this process reads it.

On a connection of its own: what keeps the reader from its work must not keep this from being told.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from psycopg import AsyncConnection

from walagent import metrics
from walagent.concurrency import Periodic
from walagent.config import Replication
from walagent.config.base import in_bytes
from walagent.errors import FencedError, WalagentError
from walagent.log import log
from walagent.replication.slot_retention import Backlog, Sign
from walagent.store import gaps, status
from walagent.store.connections import connect
from walagent.store.errors import translating

_LOOK = 2.0  # seconds between two looks; one costs the server next to nothing
# Of one statement: a look that cannot write now is repeated.
_PATIENCE: Final = {"statement_timeout": "5s"}


class SlotWatch:
    """Tells of what the slot keeps, raises the alarm, and decides when to give the slot up."""

    def __init__(
        self, login: Callable[[], str], settings: Replication, epoch: Callable[[], int | None]
    ) -> None:
        """Connect to nothing yet.

        Args:
            login: gives the connection string.
            epoch: of the checkpoint, as this process took it over last; None: it never did.
        """
        self._login = login
        self._slot = settings.slot
        self._alarm = settings.alarm_bytes
        self._limit = settings.give_up_bytes
        self._patience = settings.give_up_after
        self._epoch = epoch
        self._backlog = Backlog(alarm=self._alarm, limit=self._limit, patience=self._patience)
        self._kept = False  # whether it was said that the slot is kept beyond the limit
        self.retained = 0
        self.behind = 0

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know, a sentence each."""
        if not self._backlog.alarming or self._alarm is None:
            return []
        warning = (
            f"the slot keeps {in_bytes(self.retained)} of WAL, more than"
            f" {in_bytes(self._alarm)} (replication.alarm_bytes)"
        )
        return [warning]

    async def run(self) -> str:
        """Watch until the slot is given up, which is then recorded; the caller drops it.

        Returns:
            why it was given up.
        """
        async for _ in Periodic(_LOOK):
            with suppress(WalagentError), translating():  # the reader reports what is wrong
                async with await connect(
                    self._login(), application="walagent watch", settings=_PATIENCE
                ) as conn:
                    return await self._keep_looking(conn)
        raise AssertionError("the turns have no end")

    async def _keep_looking(self, conn: AsyncConnection[Any]) -> str:
        async for _ in Periodic(_LOOK):
            if (reason := await self._look(conn)) is not None:
                return reason
        raise AssertionError("the turns have no end")

    async def _look(self, conn: AsyncConnection[Any]) -> str | None:
        """Look once; give the reason if the slot was given up."""
        seen = await status.read_backlog(conn, self._slot)
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
        """Record the gap, if the checkpoint is ours and can be written; only then may the slot
        go.
        """
        epoch = self._epoch()
        reason = (
            f"slot {self._slot} was given up: it kept {in_bytes(self.retained)} of WAL, more than"
            f" {in_bytes(self._limit or 0)} (replication.give_up_bytes), and its reader came no"
            f" closer for {self._patience:g} s"
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
        """Say once that the slot is kept all the same, and why."""
        if not self._kept:
            log.warning("slot.drop_skipped", slot=self._slot, retained=self.retained, error=error)
        self._kept = True
