"""Turn WAL items into runs: batch, evaluate, insert, advance the checkpoint.

The runs of whole transactions and the checkpoint's new position commit together; then the position
is durable.  After a crash the server resends what is not durable, and a transaction that was
ingested is recognized by its position.

Intake does not wait to fill a group: while one group commits, the next one collects in the stream's
buffer, so groups grow with the load.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from walagent.base import faults
from walagent.domain.change import Commit, Idle, Item, Op
from walagent.intake.batching import GROUP, PORTION, SPILL_AFTER, Batch, Batcher
from walagent.intake.conditions import Evaluator
from walagent.intake.evaluation import Evaluation
from walagent.intake.settings import IntakeSettings
from walagent.intake.standby_hold import HEARTBEAT, StandbyHold
from walagent.intake.writer import Writer
from walagent.matching.corrections import Corrections
from walagent.matching.registry import Registry
from walagent.postgres.lsn import Lsn
from walagent.replication.sinks import ResubscribeError, Table, Want, Wants
from walagent.store import checkpoint as checkpoints
from walagent.store.attachments import attached_tables
from walagent.store.checkpoint import Checkpoint
from walagent.store.errors import translating

_INSERTS = frozenset({Op.INSERT})
_SETTLING = 0.2  # seconds without another attached table, after which the stream is opened again
_MOST_SETTLING = 2.0  # seconds for which other changes wait for that
IDLE_SECONDS = 30.0  # after which a position without runs is written
IDLE_BYTES = 16 << 20  # of WAL after which it is written
IDLE_LEAST = 64 << 10  # bytes; for less, as for the write of the last position, time is no reason


class Intake:
    """Ingests the changes of one slot; implements `Sink`."""

    def __init__(  # noqa: PLR0913, PLR0917 - connections, state and settings
        self,
        conn: AsyncConnection[Any],
        evaluator: Evaluator,
        checkpoint: Checkpoint,
        registry: Registry,
        key: bytes,
        settings: IntakeSettings,
    ) -> None:
        """Take over *conn*, a dedicated connection in autocommit mode.

        Args:
            registry: the attachments in effect at the end of the checkpoint.
            key: `agent_internal.secret`, which signs origin markers.
        """
        self._batcher = Batcher(registry, key, settings.backfilling, checkpoint.end_lsn)
        self._evaluation = Evaluation(evaluator, settings.limits)
        self._writer = Writer(conn, checkpoint, settings.starter)
        self._settings = settings
        self._standby_hold = StandbyHold(checkpoint.end_lsn) if settings.replicated else None
        self._idle_seconds = HEARTBEAT if settings.replicated else IDLE_SECONDS
        self._written = checkpoint.end_lsn  # where the checkpoint ends
        self._written_at = time.monotonic()
        self.settled = checkpoint.end_lsn  # the runs of all changes before it are committed

    @property
    def corrections(self) -> Corrections:
        """What agents wrote; the caller adds all before the end of the checkpoint."""
        return self._batcher.corrections

    # Called by the reader.

    def tables(self) -> Wants:
        """Return the tables with an attachment; attaching publishes them."""
        return {
            table: Want(inserts_only=ops <= _INSERTS, is_published=True)
            for table, ops in self._batcher.registry.operations.items()
        }

    @property
    def durable(self) -> Lsn:
        """Return the end of the checkpoint; with copies of the slot, the end that standbys have."""
        return self._written if self._standby_hold is None else self._standby_hold.released

    def hold(self, checkpoint: Checkpoint) -> None:
        """Write with the epoch of *checkpoint*, which is held now and ends where it ended."""
        self._writer.checkpoint = checkpoint

    async def take(self, items: Sequence[Item]) -> None:
        """Ingest the next items.

        Raises:
            DatabaseLostError: start over from the checkpoint.
            FencedError: a newer reader holds the checkpoint.
            DecodeError: the WAL contains an attachment that cannot be read.
            ResubscribeError: open the stream again, for other tables.
        """
        batcher, writer = self._batcher, self._writer
        with translating():
            for item in items:
                batcher.take(item)
                if self._settings.carried is not None:
                    await self._check_tables(self._settings.carried)
                if writer.in_large and isinstance(item, Commit):
                    await self._end_large()
                elif (opened := batcher.open) and opened.batch.is_large(SPILL_AFTER):
                    await self._spill()
                elif batcher.group.is_large(GROUP):
                    await self._write_group()
            if not writer.in_large:
                await self._write_group()
                await self._write_idle(items[-1])
                await self._check_drift()
            if self._standby_hold is not None:
                await self._hold_back(self._standby_hold)

    # Whole transactions.

    async def _write_group(self) -> None:
        """Commit the runs of the complete transactions, and the position after them."""
        batcher = self._batcher
        group, batcher.group = batcher.group, Batch()
        if not group.is_empty:
            outcomes = await self._evaluation.outcomes_of(group.found)
            await self._evaluation.pause_broken(self._writer.conn)
            runs = self._evaluation.runs_of(outcomes)
            if runs or group.has_beside:  # a position alone can wait: _write_idle() writes it
                waiting = await self._writer.write(runs, group, batcher.position)
                self._committed(has_runs=waiting)
        self.settled = batcher.passed

    def _committed(self, *, has_runs: bool) -> None:
        """Record that the checkpoint is durable, and call the callbacks."""
        faults.hit("intake.committed")
        self._written, self._written_at = self._batcher.passed, time.monotonic()
        if has_runs:
            self._settings.on_runs()
        for attachment in self._batcher.attached:
            self._settings.on_attached(attachment)
        self._batcher.attached.clear()

    # Large transactions.

    async def _spill(self) -> None:
        """Write a piece of the open transaction; it commits with the rest of the transaction.

        Complete transactions before it are committed first.
        """
        if not self._writer.in_large:
            await self._write_group()
            await self._writer.begin_large()
        if (opened := self._batcher.open) is not None:
            await self._write_piece(opened.cut())

    async def _end_large(self) -> None:
        """Commit a large transaction; its last piece has just joined the empty group."""
        rest, self._batcher.group = self._batcher.group, Batch()
        await self._write_piece(rest)
        await self._writer.end_large(self._batcher.position)
        self._committed(has_runs=True)
        self.settled = self._batcher.passed

    async def _write_piece(self, piece: Batch) -> None:
        """Insert the runs of a piece in portions: a run is larger than its change."""
        outcomes = await self._evaluation.outcomes_of(piece.found)
        await self._writer.write_beside(piece)
        for at in range(0, len(outcomes), PORTION):
            runs = self._evaluation.runs_of(outcomes[at : at + PORTION])
            await self._writer.write_piece(runs)

    # Positions without runs.

    async def _write_idle(self, last: Item) -> None:
        """Write a position without runs, but rarely: a write also makes WAL.

        A server that requests a reply might wait for it to shut down: write at once.
        """
        behind = self._batcher.passed - self._written
        asked = isinstance(last, Idle) and last.reply_requested
        is_due = time.monotonic() - self._written_at > self._idle_seconds
        least = 0 if self._standby_hold is not None else IDLE_LEAST
        if behind > 0 and (asked or (is_due and behind > least) or behind > IDLE_BYTES):
            await self._writer.advance(self._batcher.position)
            self._committed(has_runs=False)

    async def _check_drift(self) -> None:
        """Pause broken attachments; report a table that the WAL has described again."""
        await self._evaluation.pause_broken(self._writer.conn)
        if self._batcher.registry.described:
            self._batcher.registry.described = False
            self._settings.on_described()

    async def _hold_back(self, hold: StandbyHold) -> None:
        """Hold the checkpoint's position back until standbys have its commit."""
        if self._written > hold.held:
            hold.hold(self._written, await checkpoints.wal_flushed(self._writer.conn))
        hold.release(self._batcher.passed)

    async def _check_tables(self, carried: frozenset[Table]) -> None:
        tables = self._batcher.registry.relations
        if tables <= carried:
            return
        if not self._writer.in_large:
            await self._write_group()
        raise ResubscribeError(tables | await self._attached())

    async def _attached(self) -> frozenset[Table]:
        """Return the tables attached now, after a moment without another one: the stream is then
        opened once for all of them.
        """
        started, found = time.monotonic(), frozenset[Table]()
        while not (now := await attached_tables(self._writer.conn)) <= found:
            found |= now
            if time.monotonic() - started > _MOST_SETTLING:
                break
            await asyncio.sleep(_SETTLING)
        return found
