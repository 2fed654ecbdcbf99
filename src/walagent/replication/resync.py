"""Create a new slot after a gap.

publications repaired → old slot dropped → new slot, with a snapshot of where it begins →
recovery of what was lost, the gap, and the checkpoint's next generation: one commit

A process that is killed before the commit leaves a slot ahead of the checkpoint, which is a gap:
repeat the resync.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from psycopg import AsyncConnection, Error

from walagent.config import Replication
from walagent.config.dsn import Places
from walagent.errors import ConfigError, GapError, SlotBusyError, WalagentError
from walagent.postgres.lsn import Lsn
from walagent.replication.bootstrap import (
    Waiting,
    alone,
    as_of,
    can_repair,
    clock,
    publications_of,
)
from walagent.replication.source import check_source
from walagent.store import checkpoint as checkpoints
from walagent.store import gaps
from walagent.store.gaps import ChoiceResult, Gap
from walagent.store.sessions.connections import connect
from walagent.wal.slots import (
    NewSlot,
    SystemIdentity,
    drop_slot,
    identify_system,
    inspect_slot,
    new_slot,
)

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Renewal:
    """A new generation of the checkpoint; it starts when the transaction on `conn` commits."""

    conn: Connection
    past: Connection  # reads the snapshot in which the new slot starts
    generation: int
    gaps: Sequence[Gap]
    ingested_until: datetime | None  # commits before it are ingested; None: nothing was ingested


class Recovery(Protocol):
    """Recovers changes that were lost."""

    async def check(self, conn: Connection) -> None:
        """Check, before anything is changed, that `settle` can apply the choices.

        Raises:
            ConfigError: it cannot.
        """
        ...

    async def settle(self, renewal: Renewal) -> Sequence[ChoiceResult]:
        """Apply the choices in the transaction of the renewal."""
        ...


@dataclass(frozen=True, slots=True)
class ResyncResult:
    """Where the new slot starts, and the result of the recovery."""

    start: Lsn
    made: Sequence[ChoiceResult]


async def find_gaps(conn: Connection, replication_dsn: str, settings: Replication) -> Sequence[Gap]:
    """Return the open gaps, after recording one that no reader has recorded yet.

    Raises:
        ConfigError: there is no checkpoint, so nothing can be lost.
        SlotBusyError: a reader uses the slot, so it has no gap.
    """
    checkpoint = await checkpoints.read_checkpoint(conn, settings.slot)
    if checkpoint is None:
        raise ConfigError(
            f'slot "{settings.slot}" has no checkpoint and no gap', hint="Run walagent init."
        )
    with suppress(GapError):
        await check_source(conn, replication_dsn, settings, checkpoint)
    return await gaps.open_gaps(conn, settings.slot)


async def resync(
    conn: Connection,
    places: Places,
    settings: Replication,
    recovery: Recovery,
    *,
    waiting: Waiting = lambda _: None,
) -> ResyncResult:
    """Drop the slot if it exists, create it again, and recover what was lost.

    Raises:
        SlotBusyError: the slot is in use; stop that process first.
        ConfigError: the choices cannot be applied.
        PreconditionError: the server or the role does not meet the requirements.
    """
    login = places.replication_dsn
    async with alone(conn):
        if await gaps.may_publish(conn):
            await gaps.adopt_tables(conn)
        await recovery.check(conn)
        repair = await can_repair(conn, settings)
        await _drop(conn, login, settings)
        if repair:
            await gaps.publish_again(conn)
        at = await clock(conn)
        async with (
            _new_slot(login, settings, waiting) as slot,
            await connect(places.dsn, application="walagent resync") as past,
            as_of(past, slot.snapshot),
        ):
            identity = await identify_system(login)
            async with conn.transaction():
                renewal = await _renew(conn, past, settings, slot, identity, at)
                made = await recovery.settle(renewal)
                for gap in renewal.gaps:
                    await gaps.settle_gap(conn, gap, made, slot.start)
                return ResyncResult(slot.start, made)


async def _renew(  # noqa: PLR0913, PLR0917 - what a generation begins with
    conn: Connection,
    past: Connection,
    settings: Replication,
    slot: NewSlot,
    identity: SystemIdentity,
    at: datetime,
) -> Renewal:
    """Record the gap up to the new slot, and start the next generation there."""
    former = await checkpoints.read_checkpoint(conn, settings.slot)
    if former is not None:
        await gaps.record_gap(conn, settings.slot, former.generation, "a new slot was created")
    lost = await gaps.open_gaps(conn, settings.slot)
    generation = await checkpoints.open_checkpoint(
        conn,
        settings.slot,
        system_id=identity.system_id,
        timeline=identity.timeline,
        plugin=settings.plugin,
        start=slot.start,
        existing=await checkpoints.existing_attachments(past),
        at=at,
    )
    return Renewal(conn, past, generation, lost, former.committed_at if former else None)


async def _drop(conn: Connection, replication_dsn: str, settings: Replication) -> None:
    state = await inspect_slot(conn, settings.slot)
    if state is not None and state.active_pid is not None:
        raise SlotBusyError(
            f'slot "{settings.slot}" is active for PID {state.active_pid}',
            hint="Stop the process that reads it.",
        )
    async with await connect(replication_dsn, application="walagent cli") as reader:
        await drop_slot(reader, settings.slot)


@asynccontextmanager
async def _new_slot(
    replication_dsn: str, settings: Replication, waiting: Waiting
) -> AsyncGenerator[NewSlot]:
    """Create the slot, and drop it if the block fails."""
    async with new_slot(
        replication_dsn,
        settings.slot,
        settings.plugin,
        publications=publications_of(settings),
        failover=settings.failover,
        waiting=waiting,
    ) as slot:
        try:
            yield slot
        except BaseException:
            with suppress(WalagentError, Error):
                async with await connect(replication_dsn, application="walagent cli") as conn:
                    await drop_slot(conn, settings.slot)
            raise
