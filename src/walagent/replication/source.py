"""Check before each stream that the WAL after the checkpoint is available."""

from dataclasses import dataclass, replace
from typing import Any

from psycopg import AsyncConnection

from walagent.config import Replication
from walagent.errors import GapError, StreamLostError
from walagent.store import checkpoint as checkpoints
from walagent.store import gaps
from walagent.store.checkpoint import Checkpoint
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.telemetry.log import log
from walagent.wal.refusals import LOST
from walagent.wal.slots import (
    SlotState,
    SystemIdentity,
    allow_failover,
    check_slot,
    drop_slot,
    identify_system,
)

SILENCED = (
    "Run walagent wal resync to repair the publications, create a new slot and start runs for rows "
    "that you choose. What was committed meanwhile was not sent."
)


@dataclass(frozen=True, slots=True)
class Source:
    """The server and slot of a stream."""

    identity: SystemIdentity
    slot: SlotState


async def check_source(
    conn: AsyncConnection[Any], replication_dsn: str, settings: Replication, checkpoint: Checkpoint
) -> Source:
    """Check that the slot can be read from the end of the checkpoint.

    A promoted standby has another timeline with the same slot and checkpoint, which is no gap.

    Raises:
        GapError: WAL between them is lost; the gap is recorded in `agent.gap`.
        SlotBusyError: another reader holds the slot.
        StreamLostError: another reader has just released it; try again.
    """
    identity = await identify_system(replication_dsn)
    try:
        _check_identity(identity, checkpoint)
        await _check_given_up(replication_dsn, settings, checkpoint)
        slot = await check_slot(
            conn, settings.slot, plugin=settings.plugin, checkpoint=checkpoint.end_lsn
        )
        await check_publications(conn, settings)
    except GapError as error:
        now = await checkpoints.read_checkpoint(conn, settings.slot)
        if (
            now != checkpoint
        ):  # its last reader moved it after we had read it, and the slot after that
            raise StreamLostError("checkpoint was advanced by another reader") from error
        reason = f"{error}{_elsewhere(identity, checkpoint)}"
        lost = await gaps.record_gap(conn, settings.slot, checkpoint.generation, reason)
        if not lost:
            raise StreamLostError("another process has created a new slot") from error
        raise GapError(reason, hint=error.hint) from error
    if settings.failover and not slot.failover:
        await allow_failover(replication_dsn, settings.slot)
        slot = replace(slot, failover=True)
    return Source(identity, slot)


def _check_identity(identity: SystemIdentity, checkpoint: Checkpoint) -> None:
    if identity.system_id != checkpoint.system_id:
        raise GapError(
            f"system identifier {identity.system_id} does not match {checkpoint.system_id}, stored"
            f' for slot "{checkpoint.slot}"',
            hint=LOST,
        )
    if identity.wal_end < checkpoint.end_lsn:
        raise GapError(
            f"WAL ends at {identity.wal_end}, before the checkpoint of slot"
            f' "{checkpoint.slot}" at {checkpoint.end_lsn}: it was reset',
            hint=LOST,
        )


def _elsewhere(identity: SystemIdentity, checkpoint: Checkpoint) -> str:
    """Describe a server that was restored or promoted."""
    if identity.system_id != checkpoint.system_id or identity.timeline == checkpoint.timeline:
        return ""
    return (
        f"; the server is on timeline {identity.timeline}, the checkpoint on"
        f" {checkpoint.timeline}: the server was promoted or restored"
    )


async def _check_given_up(
    replication_dsn: str, settings: Replication, checkpoint: Checkpoint
) -> None:
    """Drop a slot that was given up, if that was not done yet."""
    if checkpoint.abandoned_at is None:
        return
    await release_slot(replication_dsn, settings.slot)
    raise GapError(
        f'slot "{settings.slot}" was given up at {checkpoint.abandoned_at:%Y-%m-%d %H:%M:%S %Z}',
        hint=LOST,
    )


async def release_slot(replication_dsn: str, slot: str) -> None:
    """Drop a slot, if it exists.

    Raises:
        SlotBusyError: a reader still holds it.
        DatabaseLostError: the server cannot be reached.
    """
    with translating():
        async with await connect(replication_dsn) as conn:
            await drop_slot(conn, slot)


async def check_publications(conn: AsyncConnection[Any], settings: Replication) -> None:
    """Check that the server sends, and has always sent, every requested table.

    Raises:
        GapError: another role removed one or dropped a publication; what was committed meanwhile
            is lost.
    """
    if settings.plugin != "pgoutput":  # wal2json has no publications
        return
    if trouble := await gaps.publication_trouble(conn):
        raise GapError("; ".join(trouble), hint=SILENCED)


async def hold_checkpoint(
    conn: AsyncConnection[Any], source: Source, found: Checkpoint, reader: str
) -> Checkpoint:
    """Take over the checkpoint, after the slot; record a promotion of the server.

    Args:
        found: the checkpoint as it was when the source was checked.
        reader: the name of this reader.

    Raises:
        StreamLostError: another reader has advanced it; start over.
    """
    checkpoint = await checkpoints.take_checkpoint(conn, found.slot, reader)
    if checkpoint.end_lsn != found.end_lsn:
        raise StreamLostError(
            "checkpoint was advanced by another reader while the stream was opened"
        )
    timeline = source.identity.timeline
    if timeline != checkpoint.timeline:
        await checkpoints.record_timeline(conn, checkpoint, timeline)
        log.warning(
            "timeline.changed", slot=checkpoint.slot, former=checkpoint.timeline, timeline=timeline
        )
    return checkpoint
