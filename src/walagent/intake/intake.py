"""From items of the WAL to runs: batch, evaluate, insert, advance the checkpoint.

One rule holds it all together: the runs of whole transactions and the checkpoint's new position
commit together, and only then does that position count as durable.  So a crash anywhere costs a
repetition, and a repeated transaction is recognized by its position.

What is there is ingested at once: while one group commits, the next one collects in the stream's
buffer, so groups grow with the load and stay small when it is quiet.
"""

import time
from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from walagent import faults
from walagent.change import Commit, Idle, Item, Op
from walagent.intake.batching import GROUP, SPILL_AFTER, Gathered, Gathering
from walagent.intake.conditions import Evaluator
from walagent.intake.evaluation import Evaluation
from walagent.intake.settings import IntakeSettings
from walagent.intake.standby_hold import HEARTBEAT, Replicated
from walagent.intake.writer import Writer
from walagent.lsn import Lsn
from walagent.matching.registry import Registry
from walagent.replication.sinks import ResubscribeError, Table, Want, Wants
from walagent.store import checkpoint as checkpoints
from walagent.store.checkpoint import Checkpoint
from walagent.store.errors import translating

_INSERTS = frozenset({Op.INSERT})
IDLE_SECONDS = 30.0  # how long a position without runs may wait to be written down
IDLE_BYTES = 16 << 20  # of WAL passed meanwhile


class Intake:
    """Ingests the changes of one slot; implements `Sink`."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it reads, writes and knows
        self,
        conn: AsyncConnection[Any],
        evaluator: Evaluator,
        checkpoint: Checkpoint,
        registry: Registry,
        key: bytes,
        settings: IntakeSettings,
    ) -> None:
        """Take over *conn*, a connection of intake's own in autocommit mode.

        Args:
            registry: the attachments in effect where the checkpoint ends.
            key: `agent_internal.secret`, which proves our own write-backs.
        """
        self._gathering = Gathering(registry, key, settings.backfilling, checkpoint.end_lsn)
        self._evaluation = Evaluation(evaluator, settings.limits)
        self._writer = Writer(conn, checkpoint, settings.starter)
        self._settings = settings
        self._replicated = Replicated(checkpoint.end_lsn) if settings.replicated else None
        self._patience = HEARTBEAT if settings.replicated else IDLE_SECONDS
        self._written = checkpoint.end_lsn  # where the checkpoint ends
        self._written_at = time.monotonic()
        self.settled = checkpoint.end_lsn  # the runs of all changes before it are committed

    # What the reader asks.

    def tables(self) -> Wants:
        """Return the tables with an attachment; attaching publishes them."""
        return {
            table: Want(inserts_only=ops <= _INSERTS, is_published=True)
            for table, ops in self._gathering.registry.operations.items()
        }

    @property
    def durable(self) -> Lsn:
        """Where the checkpoint ends; with copies of the slot, where that of the standbys ends."""
        return self._written if self._replicated is None else self._replicated.released

    def hold(self, checkpoint: Checkpoint) -> None:
        """Write with the epoch of *checkpoint*, which is held now, and ends where it ended."""
        self._writer.checkpoint = checkpoint

    async def take(self, items: Sequence[Item]) -> None:
        """Ingest the next items.

        Raises:
            DatabaseLostError: start over from the checkpoint.
            FencedError: a newer reader is at work.
            DecodeError: the WAL holds an attachment that cannot be read.
            ResubscribeError: open the stream again, for other tables.
        """
        gathering, writer = self._gathering, self._writer
        with translating():
            for item in items:
                gathering.take(item)
                if self._settings.carried is not None:
                    await self._check_tables(self._settings.carried)
                if writer.in_large and isinstance(item, Commit):
                    await self._end_large()
                elif (opened := gathering.open) and opened.gathered.is_large(SPILL_AFTER):
                    await self._spill()
                elif gathering.group.is_large(GROUP):
                    await self._write_group()
            if not writer.in_large:
                await self._write_group()
                await self._write_idle(items[-1])
                await self._look_at_ground()
            if self._replicated is not None:
                await self._hold_back(self._replicated)

    # Whole transactions.

    async def _write_group(self) -> None:
        """Commit the runs of the complete transactions, and the position after them."""
        gathering = self._gathering
        group, gathering.group = gathering.group, Gathered()
        if not group.is_empty:
            outcomes = await self._evaluation.outcomes_of(group.found)
            await self._evaluation.pause_broken(self._writer.conn)
            runs = self._evaluation.runs_of(outcomes)
            waiting = await self._writer.write(runs, group, gathering.position)
            self._committed(has_runs=waiting)
        self.settled = gathering.passed

    def _committed(self, *, has_runs: bool) -> None:
        """The checkpoint is durable: call what waits for it."""
        faults.hit("intake.committed")
        self._written, self._written_at = self._gathering.passed, time.monotonic()
        if has_runs:
            self._settings.on_runs()
        for attachment in self._gathering.attached:
            self._settings.on_attached(attachment)
        self._gathering.attached.clear()

    # One that is too large to gather.

    async def _spill(self) -> None:
        """Write what the open transaction has brought so far; it commits with the rest of it.

        What was complete before it is committed first.
        """
        if not self._writer.in_large:
            await self._write_group()
            await self._writer.begin_large()
        if (opened := self._gathering.open) is not None:
            piece, opened.gathered = opened.gathered, Gathered()
            await self._write_piece(piece)

    async def _end_large(self) -> None:
        """Commit a large transaction's runs; its rest has just joined the empty group."""
        rest, self._gathering.group = self._gathering.group, Gathered()
        await self._write_piece(rest)
        await self._writer.end_large(self._gathering.position)
        self._committed(has_runs=True)
        self.settled = self._gathering.passed

    async def _write_piece(self, piece: Gathered) -> None:
        """Insert the runs of a piece, some at a time: each is larger than the change it is of."""
        outcomes = await self._evaluation.outcomes_of(piece.found)
        await self._writer.write_beside(piece)
        for at in range(0, len(outcomes), GROUP):
            runs = self._evaluation.runs_of(outcomes[at : at + GROUP])
            await self._writer.write_piece(runs)

    # What needs no run.

    async def _write_idle(self, last: Item) -> None:
        """Write a position down that no run needed, but not often: writing makes WAL itself.

        A server that asks for an answer may be waiting for it to shut down: it gets one at once.
        """
        passed = self._gathering.passed
        asked = isinstance(last, Idle) and last.reply_requested
        waited = time.monotonic() - self._written_at
        if passed > self._written and (
            asked or waited > self._patience or passed - self._written > IDLE_BYTES
        ):
            await self._writer.advance(self._gathering.position)
            self._committed(has_runs=False)

    async def _look_at_ground(self) -> None:
        """Call for a look at a table that the WAL has described again."""
        await self._evaluation.pause_broken(self._writer.conn)
        if self._gathering.registry.described:
            self._gathering.registry.described = False
            self._settings.on_described()

    async def _hold_back(self, replicated: Replicated) -> None:
        """Hold the checkpoint's position back until standbys have their copy of it, too."""
        if self._written > replicated.held:
            replicated.hold(self._written, await checkpoints.wal_flushed(self._writer.conn))
        replicated.release(self._gathering.passed)

    async def _check_tables(self, carried: frozenset[Table]) -> None:
        tables = self._gathering.registry.relations
        if tables <= carried:
            return
        if not self._writer.in_large:
            await self._write_group()
        raise ResubscribeError(tables)
