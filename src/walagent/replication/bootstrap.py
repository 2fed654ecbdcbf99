"""Create the slot and its checkpoint, in this order."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from walagent.config import Replication
from walagent.errors import DatabaseLostError, PreconditionError
from walagent.postgres.lsn import Lsn
from walagent.store import checkpoint as checkpoints
from walagent.store import gaps
from walagent.store.checkpoint import Checkpoint
from walagent.store.sessions.connections import connect
from walagent.wal.slots import (
    Blocker,
    check_use,
    identify_system,
    inspect_slot,
    new_slot,
)

PUBLICATIONS = ("walagent", "walagent_inserts")  # created by the migrations
_UNKNOWN = datetime.fromtimestamp(0, UTC)

Waiting = Callable[[Sequence[Blocker]], None]


async def ensure_slot(
    conn: AsyncConnection[Any],
    replication_dsn: str,
    settings: Replication,
    waiting: Waiting = lambda _: None,
) -> Checkpoint:
    """Return the slot's checkpoint; create slot and checkpoint if they do not exist.

    The checkpoint of an existing slot without one starts at the slot's position.

    Raises:
        DatabaseLostError: the server is a standby, which can be promoted.
        PreconditionError: the publications were altered, and only the schema's owner can fix them;
            the slot is that of another database or plugin; or the server or the role does not meet
            the requirements for a slot.
    """
    await refuse_standby(conn)
    checkpoint = await checkpoints.read_checkpoint(conn, settings.slot)
    if checkpoint is not None:
        return checkpoint
    async with alone(conn):
        if await checkpoints.read_checkpoint(conn, settings.slot) is None:
            await _begin(conn, replication_dsn, settings, waiting)
    checkpoint = await checkpoints.read_checkpoint(conn, settings.slot)
    assert checkpoint is not None  # noqa: S101 - it has just been committed
    return checkpoint


async def refuse_standby(conn: AsyncConnection[Any]) -> None:
    """Check that the server accepts writes.

    Raises:
        DatabaseLostError: it does not; it can be promoted.
    """
    row = await (await conn.execute("select pg_is_in_recovery()")).fetchone()
    if row and row[0]:
        raise DatabaseLostError(
            "server is in recovery and does not accept writes",
            hint="Use host=a,b target_session_attrs=read-write in the connection string to find"
            " the primary.",
        )


@asynccontextmanager
async def alone(conn: AsyncConnection[Any]) -> AsyncGenerator[None]:
    """Lock slot creation: daemons that start at the same time create one slot.

    A second connection holds the lock, for *conn* commits meanwhile.  Its transaction has no ID, so
    the new slot does not wait for it.
    """
    dsn = make_conninfo(conn.info.dsn, password=conn.info.password or None)
    async with (
        await connect(dsn, application="walagent slot lock", idle=0) as holder,
        holder.transaction(force_rollback=True),
    ):
        await holder.execute("select agent_internal.lock_slot()")
        yield


async def _begin(
    conn: AsyncConnection[Any], replication_dsn: str, settings: Replication, waiting: Waiting
) -> None:
    """Create the checkpoint of the existing slot, or of a new one."""
    state = await inspect_slot(conn, settings.slot)
    if state is not None:
        check_use(state, settings.plugin)
        if state.confirmed is not None and await checkpoints.is_older(conn, state.confirmed):
            raise PreconditionError(
                f'slot "{state.name}" is older than the publications: it was left by a former'
                " installation and cannot be read",
                hint="Run walagent init --new-slot to replace it.",
            )
        await _open(conn, replication_dsn, settings, state.confirmed or Lsn(0), None, _UNKNOWN)
        return
    if await gaps.may_publish(conn):
        await gaps.adopt_tables(conn)
    if await can_repair(conn, settings):
        await gaps.publish_again(conn)
    at = await clock(conn)
    async with new_slot(
        replication_dsn,
        settings.slot,
        settings.plugin,
        publications=publications_of(settings),
        failover=settings.failover,
        waiting=waiting,
    ) as slot:
        async with as_of(conn, slot.snapshot):
            existing = await checkpoints.existing_attachments(conn)
        await _open(conn, replication_dsn, settings, slot.start, existing, at)


async def _open(  # noqa: PLR0913, PLR0917 - what a checkpoint begins with
    conn: AsyncConnection[Any],
    replication_dsn: str,
    settings: Replication,
    start: Lsn,
    existing: list[tuple[int, int, float | None, bool]] | None,
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
    """Read the database in a snapshot; see `NewSlot`."""
    async with conn.transaction():
        await conn.execute("set transaction isolation level repeatable read, read only")
        await conn.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot)))
        yield


async def clock(conn: AsyncConnection[Any]) -> datetime:
    """Return the server's clock, which also dates commits."""
    row = await (await conn.execute("select clock_timestamp()")).fetchone()
    assert row is not None  # noqa: S101 - a select without a table
    return row[0]


def publications_of(settings: Replication) -> Sequence[str]:
    """Return the publications that a slot needs."""
    return PUBLICATIONS if settings.plugin == "pgoutput" else ()


async def can_repair(conn: AsyncConnection[Any], settings: Replication) -> bool:
    """Return whether the publications need a repair that this login may make.

    A repair removes the evidence of changes that were not sent: drop the slot before.

    Raises:
        PreconditionError: they need one that this login may not make.
    """
    if settings.plugin != "pgoutput" or not (trouble := await gaps.publication_trouble(conn)):
        return False
    if not await gaps.may_publish(conn):
        raise PreconditionError(
            "; ".join(trouble), hint="Run this command as the owner of the schema agent."
        )
    return True
