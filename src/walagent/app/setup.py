"""Slot and ledger: made in the right order, checked before each stream."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from psycopg import AsyncConnection

from walagent.config import Replication
from walagent.errors import DatabaseLostError, GapError, StreamLostError
from walagent.lsn import Lsn
from walagent.store import ledger as ledgers
from walagent.store.ledger import Ledger
from walagent.wal.slots import (
    Blocker,
    SlotState,
    SystemIdentity,
    allow_failover,
    check_slot,
    create_slot,
    identify_system,
    inspect_slot,
)

PUBLICATIONS = ("walagent", "walagent_inserts")  # made by the migrations


@dataclass(frozen=True, slots=True)
class Source:
    """What a stream is about to be opened on."""

    identity: SystemIdentity
    slot: SlotState


async def ensure_slot(
    conn: AsyncConnection[Any],
    replication_dsn: str,
    settings: Replication,
    waiting: Callable[[Sequence[Blocker]], None] = lambda _: None,
) -> Ledger:
    """Find the slot's ledger, or make slot and ledger where there are none yet.

    A slot without a ledger is taken over at its own position: nobody has read it for us.

    Raises:
        DatabaseLostError: this is a standby; it may be promoted.
        GapError: there is a ledger, and the slot is gone: a person decides how to go on.
    """
    await _refuse_standby(conn)
    ledger = await ledgers.read_ledger(conn, settings.slot)
    if ledger is not None:
        return ledger
    async with _alone(conn):
        return await _make_slot(conn, replication_dsn, settings, waiting)


async def _refuse_standby(conn: AsyncConnection[Any]) -> None:
    row = await (await conn.execute("select pg_is_in_recovery()")).fetchone()
    if row and row[0]:
        raise DatabaseLostError(
            "this server is a standby: nothing can be written there until it is promoted",
            hint="name all servers, and the primary is found: host=a,b"
            " target_session_attrs=read-write",
        )


@asynccontextmanager
async def _alone(conn: AsyncConnection[Any]) -> AsyncGenerator[None]:
    """Let one process at a time make slots; of daemons that start at once, the others find it."""
    await conn.execute("select pg_advisory_lock(hashtext('walagent.slot'))")
    try:
        yield
    finally:
        await conn.execute("select pg_advisory_unlock(hashtext('walagent.slot'))")


async def _make_slot(
    conn: AsyncConnection[Any],
    replication_dsn: str,
    settings: Replication,
    waiting: Callable[[Sequence[Blocker]], None],
) -> Ledger:
    ledger = await ledgers.read_ledger(conn, settings.slot)
    if ledger is not None:
        return ledger
    state = await inspect_slot(conn, settings.slot)
    if state is None:
        publications = PUBLICATIONS if settings.plugin == "pgoutput" else ()
        state = await create_slot(
            replication_dsn,
            settings.slot,
            settings.plugin,
            publications=publications,
            failover=settings.failover,
            waiting=waiting,
        )
    identity = await identify_system(replication_dsn)
    async with conn.transaction():
        await ledgers.open_ledger(
            conn,
            settings.slot,
            system_id=identity.system_id,
            timeline=identity.timeline,
            plugin=settings.plugin,
            start=state.confirmed or Lsn(0),
        )
    ledger = await ledgers.read_ledger(conn, settings.slot)
    assert ledger is not None  # noqa: S101 - it has just been committed
    return ledger


async def check_source(
    conn: AsyncConnection[Any], replication_dsn: str, settings: Replication, ledger: Ledger
) -> Source:
    """Say whether the ledger's slot can be read on from where the ledger ends.

    A standby that was promoted is on another timeline, with the same slot and ledger: that is well.

    Raises:
        GapError: what lies between is lost; it is recorded in `agent.gap`.
        SlotBusyError: another reader has it.
        StreamLostError: another reader had it until a moment ago; look again.
    """
    identity = await identify_system(replication_dsn)
    try:
        _check_identity(identity, ledger)
        slot = await check_slot(conn, settings.slot, plugin=settings.plugin, ledger=ledger.end_lsn)
    except GapError as error:
        now = await ledgers.read_ledger(conn, settings.slot)
        if now != ledger:  # its last reader moved it after we had read it, and the slot after that
            raise StreamLostError("the ledger has moved meanwhile") from error
        state = await inspect_slot(conn, settings.slot)
        to_lsn = state.confirmed if state else identity.wal_end
        await ledgers.record_gap(conn, settings.slot, str(error), ledger.end_lsn, to_lsn)
        raise
    if settings.failover and not slot.failover:
        await allow_failover(replication_dsn, settings.slot)
        slot = replace(slot, failover=True)
    return Source(identity, slot)


def _check_identity(identity: SystemIdentity, ledger: Ledger) -> None:
    if identity.system_id != ledger.system_id:
        raise GapError(
            f"this server is not the one whose WAL the ledger of {ledger.slot} tells of:"
            f" system {identity.system_id} instead of {ledger.system_id}",
            hint="a dump and restore makes another server; see docs/operations.md, gaps",
        )
