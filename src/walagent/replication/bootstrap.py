"""Slot and checkpoint: made in the right order, checked before each stream."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from psycopg import AsyncConnection, sql

from walagent.config import Replication
from walagent.errors import DatabaseLostError, GapError, PreconditionError, StreamLostError
from walagent.lsn import Lsn
from walagent.store import checkpoint as checkpoints
from walagent.store import gaps
from walagent.store.checkpoint import Checkpoint
from walagent.store.connections import connect
from walagent.store.errors import translating
from walagent.wal.refusals import LOST
from walagent.wal.slots import (
    Blocker,
    SlotState,
    SystemIdentity,
    allow_failover,
    check_slot,
    drop_slot,
    identify_system,
    inspect_slot,
    new_slot,
)

PUBLICATIONS = ("walagent", "walagent_inserts")  # made by the migrations
SILENCED = (
    "what was committed meanwhile was not sent, and never will be: `walagent resync` mends the "
    "publications, makes a new slot, and runs the agents on the rows that you choose"
)
_NOBODY_KNOWS = datetime.fromtimestamp(0, UTC)

Waiting = Callable[[Sequence[Blocker]], None]


@dataclass(frozen=True, slots=True)
class Source:
    """What a stream is about to be opened on."""

    identity: SystemIdentity
    slot: SlotState


async def ensure_slot(
    conn: AsyncConnection[Any],
    replication_dsn: str,
    settings: Replication,
    waiting: Waiting = lambda _: None,
) -> Checkpoint:
    """Find the slot's checkpoint, or make slot and checkpoint where there are none yet.

    A slot without a checkpoint is taken over at its own position: nobody has read it for us.

    Raises:
        DatabaseLostError: this is a standby; it may be promoted.
        PreconditionError: the publications were altered, and it takes the schema's owner to mend
            them; or the server or the role is not set up for a slot.
    """
    await _refuse_standby(conn)
    checkpoint = await checkpoints.read_checkpoint(conn, settings.slot)
    if checkpoint is not None:
        return checkpoint
    async with alone(conn):
        if await checkpoints.read_checkpoint(conn, settings.slot) is None:
            await _begin(conn, replication_dsn, settings, waiting)
    checkpoint = await checkpoints.read_checkpoint(conn, settings.slot)
    assert checkpoint is not None  # noqa: S101 - it has just been committed
    return checkpoint


async def _refuse_standby(conn: AsyncConnection[Any]) -> None:
    row = await (await conn.execute("select pg_is_in_recovery()")).fetchone()
    if row and row[0]:
        raise DatabaseLostError(
            "this server is a standby: nothing can be written there until it is promoted",
            hint="name all servers, and the primary is found: host=a,b"
            " target_session_attrs=read-write",
        )


@asynccontextmanager
async def alone(conn: AsyncConnection[Any]) -> AsyncGenerator[None]:
    """Let one process at a time make slots; of daemons that start at once, the others find it."""
    await conn.execute("select pg_advisory_lock(hashtext('walagent.slot'))")
    try:
        yield
    finally:
        await conn.execute("select pg_advisory_unlock(hashtext('walagent.slot'))")


async def _begin(
    conn: AsyncConnection[Any], replication_dsn: str, settings: Replication, waiting: Waiting
) -> None:
    """Open the checkpoint of a slot that is there, or of a new one."""
    state = await inspect_slot(conn, settings.slot)
    if state is not None:
        await _open(conn, replication_dsn, settings, state.confirmed or Lsn(0), None, _NOBODY_KNOWS)
        return
    if await gaps.may_publish(conn):
        await gaps.adopt_tables(conn)
    if await can_mend(conn, settings):
        await gaps.publish_again(conn)
    at = await clock(conn)
    async with new_slot(
        replication_dsn,
        settings.slot,
        settings.plugin,
        publications=publications_of(settings),
        failover=settings.failover,
        waiting=waiting,
    ) as made:
        async with as_of(conn, made.snapshot):
            existing = await checkpoints.existing_attachments(conn)
        await _open(conn, replication_dsn, settings, made.start, existing, at)


async def _open(  # noqa: PLR0913, PLR0917 - what a checkpoint begins with
    conn: AsyncConnection[Any],
    replication_dsn: str,
    settings: Replication,
    start: Lsn,
    existing: list[tuple[int, int]] | None,
    at: datetime,
) -> int:
    identity = await identify_system(replication_dsn)
    return await checkpoints.open_checkpoint(
        conn,
        settings.slot,
        system_id=identity.system_id,
        timeline=identity.timeline,
        plugin=settings.plugin,
        start=start,
        existing=existing,
        at=at,
    )


@asynccontextmanager
async def as_of(conn: AsyncConnection[Any], snapshot: str) -> AsyncGenerator[None]:
    """Read the database as a snapshot shows it; see `NewSlot`."""
    async with conn.transaction():
        await conn.execute("set transaction isolation level repeatable read, read only")
        await conn.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot)))
        yield


async def clock(conn: AsyncConnection[Any]) -> datetime:
    """Tell the server's time, by which it dates commits."""
    row = await (await conn.execute("select clock_timestamp()")).fetchone()
    assert row is not None  # noqa: S101 - a select without a table
    return row[0]


def publications_of(settings: Replication) -> Sequence[str]:
    """Name the publications that a slot needs."""
    return PUBLICATIONS if settings.plugin == "pgoutput" else ()


async def can_mend(conn: AsyncConnection[Any], settings: Replication) -> bool:
    """Whether there is anything to mend about the publications, and we may.

    Mending removes all trace of what was not sent, so the slot must be gone before.

    Raises:
        PreconditionError: we may not.
    """
    if settings.plugin != "pgoutput" or not (trouble := await gaps.publication_trouble(conn)):
        return False
    if not await gaps.may_publish(conn):
        raise PreconditionError(
            "; ".join(trouble), hint="do the same as the owner of the schema agent, who may mend it"
        )
    return True


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
