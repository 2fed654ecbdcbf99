"""Create slot and checkpoint, in the right order."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from psycopg import AsyncConnection, sql

from walagent.config import Replication
from walagent.errors import DatabaseLostError, PreconditionError
from walagent.lsn import Lsn
from walagent.store import checkpoint as checkpoints
from walagent.store import gaps
from walagent.store.checkpoint import Checkpoint
from walagent.wal.slots import (
    Blocker,
    identify_system,
    inspect_slot,
    new_slot,
)

PUBLICATIONS = ("walagent", "walagent_inserts")  # made by the migrations
_NOBODY_KNOWS = datetime.fromtimestamp(0, UTC)

Waiting = Callable[[Sequence[Blocker]], None]


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
