"""Check before each stream that the WAL can be read on from where the checkpoint ends."""

from dataclasses import dataclass, replace
from typing import Any

from psycopg import AsyncConnection

from walagent.config import Replication
from walagent.errors import GapError, StreamLostError
from walagent.log import log
from walagent.store import checkpoint as checkpoints
from walagent.store import gaps
from walagent.store.checkpoint import Checkpoint
from walagent.store.connections import connect
from walagent.store.errors import translating
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
    "what was committed meanwhile was not sent, and never will be: `walagent resync` mends the "
    "publications, makes a new slot, and runs the agents on the rows that you choose"
)


@dataclass(frozen=True, slots=True)
class Source:
    """What a stream is about to be opened on."""

    identity: SystemIdentity
    slot: SlotState


async def check_source(
    conn: AsyncConnection[Any], replication_dsn: str, settings: Replication, checkpoint: Checkpoint
) -> Source:
    """Say whether the checkpoint's slot can be read on from where the checkpoint ends.

    A standby that was promoted is on another timeline, with the same slot and checkpoint: that is
        well.

    Raises:
        GapError: what lies between is lost; it is recorded in `agent.gap`.
        SlotBusyError: another reader has it.
        StreamLostError: another reader had it until a moment ago; look again.
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
            raise StreamLostError("the checkpoint has moved meanwhile") from error
        reason = f"{error}{_elsewhere(identity, checkpoint)}"
        lost = await gaps.record_gap(conn, settings.slot, checkpoint.generation, reason)
        if not lost:
            raise StreamLostError("somebody has made a new slot meanwhile") from error
        raise GapError(reason, hint=error.hint) from error
    if settings.failover and not slot.failover:
        await allow_failover(replication_dsn, settings.slot)
        slot = replace(slot, failover=True)
    return Source(identity, slot)


def _check_identity(identity: SystemIdentity, checkpoint: Checkpoint) -> None:
    if identity.system_id != checkpoint.system_id:
        raise GapError(
            f"this server is not the one whose WAL the checkpoint of {checkpoint.slot} tells of:"
            f" system {identity.system_id} instead of {checkpoint.system_id}",
            hint=LOST,
        )
    if identity.wal_end < checkpoint.end_lsn:
        raise GapError(
            f"the server's WAL ends at {identity.wal_end}, before the checkpoint of"
            f" {checkpoint.slot}, at {checkpoint.end_lsn}: it was reset",
            hint=LOST,
        )


def _elsewhere(identity: SystemIdentity, checkpoint: Checkpoint) -> str:
    """Say what else is known about a server that was restored or promoted."""
    if identity.system_id != checkpoint.system_id or identity.timeline == checkpoint.timeline:
        return ""
    return (
        f"; the server is on timeline {identity.timeline}, the checkpoint of"
        f" {checkpoint.timeline}: it was promoted, or restored"
    )


async def _check_given_up(
    replication_dsn: str, settings: Replication, checkpoint: Checkpoint
) -> None:
    """Drop a slot that was given up, if nobody came to it yet."""
    if checkpoint.abandoned_at is None:
        return
    await let_go(replication_dsn, settings.slot)
    raise GapError(
        f"slot {settings.slot} was given up at {checkpoint.abandoned_at:%Y-%m-%d %H:%M:%S %Z}",
        hint=LOST,
    )


async def let_go(replication_dsn: str, slot: str) -> None:
    """Drop a slot, if it is there.

    Raises:
        SlotBusyError: somebody still reads it.
        DatabaseLostError: the server cannot be reached.
    """
    with translating():
        async with await connect(replication_dsn) as conn:
            await drop_slot(conn, slot)


async def check_publications(conn: AsyncConnection[Any], settings: Replication) -> None:
    """See that the server sends, and has always sent, every attached table.

    Raises:
        GapError: somebody took one out, or dropped a publication; what was committed meanwhile was
            not sent, and never will be.
    """
    if settings.plugin != "pgoutput":  # wal2json knows no publications
        return
    if trouble := await gaps.publication_trouble(conn):
        raise GapError("; ".join(trouble), hint=SILENCED)


async def hold_checkpoint(
    conn: AsyncConnection[Any], source: Source, found: Checkpoint, reader: str
) -> Checkpoint:
    """Take the checkpoint over, now that the slot is ours; note that the server was promoted.

    Args:
        found: the checkpoint as it was when the source was checked.
        reader: the name of this reader.

    Raises:
        StreamLostError: another reader has moved it meanwhile; start over.
    """
    checkpoint = await checkpoints.take_checkpoint(conn, found.slot, reader)
    if checkpoint.end_lsn != found.end_lsn:
        raise StreamLostError("the checkpoint moved while the stream was being opened")
    timeline = source.identity.timeline
    if timeline != checkpoint.timeline:
        await checkpoints.record_timeline(conn, checkpoint, timeline)
        log.warning(
            "timeline.changed", slot=checkpoint.slot, former=checkpoint.timeline, timeline=timeline
        )
    return checkpoint
