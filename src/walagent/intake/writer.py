"""Write runs and the checkpoint's position in one commit."""

from collections.abc import Sequence
from typing import Any, Protocol

from psycopg import AsyncConnection

from walagent.base import faults
from walagent.domain.run import Claim, NewRun
from walagent.intake.batching import Batch, Position
from walagent.intake.placement import place
from walagent.matching.row_changes import Recorded
from walagent.store import checkpoint as checkpoints
from walagent.store import ingestion
from walagent.store.checkpoint import Checkpoint
from walagent.store.ingestion import Start

# Reading and evaluating the next piece of a large transaction can take long.
_REST = "set local idle_in_transaction_session_timeout = '60s'"


class Starter(Protocol):
    """A worker of this process that can start runs as they are inserted."""

    def offer(self) -> Start | None:
        """Return what it can start now; None if it has no free slot."""
        ...

    def start(self, claims: Sequence[Claim]) -> None:
        """Execute runs that were started for it."""
        ...


class Writer:
    """Writes for one slot, on a dedicated connection."""

    def __init__(
        self, conn: AsyncConnection[Any], checkpoint: Checkpoint, starter: Starter | None = None
    ) -> None:
        """Take over *conn*, in autocommit mode."""
        self.conn = conn
        self.checkpoint = checkpoint
        self._starter = starter
        self._large: bool | None = None  # whether the large transaction has runs

    async def write(self, runs: Sequence[NewRun], batch: Batch, position: Position) -> bool:
        """Insert the runs of whole transactions and advance the checkpoint.

        Returns:
            whether runs are left for other workers.

        Raises:
            FencedError: a newer reader holds the checkpoint; nothing was written.
        """
        runs = await place(self.conn, runs)
        special = batch.effects or batch.seen or any(map(_is_special, runs))
        if not special:  # planted: runs-first/path
            return await self._write_plain(runs, position, batch.recorded)
        async with self.conn.transaction():
            await self._insert(runs)
            await self.write_beside(batch)
            await self._advance(position, for_workers=bool(runs))  # planted: runs-first/commit
        return bool(runs)

    async def advance(self, position: Position) -> None:
        """Advance the checkpoint; raises as `write`."""
        await self._advance(position, for_workers=False)

    async def _write_plain(
        self, runs: Sequence[NewRun], position: Position, recorded: Recorded
    ) -> bool:
        """Write in one round trip; start the runs for which this process has free slots."""
        offer = self._starter.offer() if self._starter and runs else None
        claims = await ingestion.ingest(
            self.conn,
            self.checkpoint,
            runs,
            position.commit_lsn,
            position.end_lsn,
            offer,
            position.committed_at,
            recorded.document() if recorded else None,
        )
        if claims and self._starter:
            self._starter.start(claims)
        return len(claims) < len(runs)

    # A large transaction, piece by piece.

    @property
    def in_large(self) -> bool:
        """Return whether a large transaction is being written."""
        return self._large is not None

    async def begin_large(self) -> None:
        """Open the transaction in which the pieces are written.

        It stays open until the end: nobody sees a part of it, and a lost connection rolls it back.
        """
        await self.conn.execute("begin")
        await self.conn.execute(_REST)
        self._large = False

    async def write_piece(self, runs: Sequence[NewRun]) -> None:
        """Insert runs of a piece."""
        runs = await place(self.conn, runs)
        await self._insert(runs)
        if self._large is not None:
            self._large = self._large or bool(runs)

    async def end_large(self, position: Position) -> None:
        """Advance the checkpoint and commit all pieces; raises as `write`."""
        for_workers, self._large = bool(self._large), None
        await self._advance(position, for_workers=for_workers)
        await self.conn.execute("commit")

    async def write_beside(self, batch: Batch) -> None:
        """Write the effects and rows of a batch, and what runs changed."""
        if batch.recorded:
            document = batch.recorded.document(is_part=self.in_large)
            await ingestion.record_row_changes(self.conn, document)
        if batch.effects:
            await checkpoints.record_effects(self.conn, batch.effects)
        if batch.seen:
            await checkpoints.record_seen(self.conn, self.checkpoint.generation, batch.seen)

    async def _insert(self, runs: Sequence[NewRun]) -> None:
        conn, checkpoint = self.conn, self.checkpoint
        if plain := [run for run in runs if run.debounce is None]:
            await ingestion.insert_runs(conn, checkpoint, plain)
        for run in runs:
            if run.debounce is not None:
                await ingestion.collect_run(conn, checkpoint, run)
        if shadowed := [run for run in runs if run.debounce is not None and run.shadow is not None]:
            await ingestion.insert_shadowed(conn, checkpoint, shadowed)
        if deferred := [run for run in runs if run.deferred is not None]:
            await ingestion.defer_changes(conn, checkpoint, deferred)
        faults.hit("intake.runs_inserted")

    async def _advance(self, position: Position, *, for_workers: bool) -> None:
        await checkpoints.advance_checkpoint(
            self.conn,
            self.checkpoint,
            position.commit_lsn,
            position.end_lsn,
            position.committed_at,
            for_workers=for_workers,
        )
        faults.hit("intake.checkpoint_advanced")


def _is_special(run: NewRun) -> bool:
    """Return whether a run needs more than an insert."""
    return run.debounce is not None or run.deferred is not None
