"""Replication slots: looking at one, making one, dropping one.

Looking and dropping work over ordinary connections in autocommit, of a login that may replicate;
all else opens connections of its own.

Source: PostgreSQL docs, 54.19 pg_replication_slots; 9.27.6 Replication Management Functions; 55.4
Streaming Replication Protocol, CREATE_REPLICATION_SLOT.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection, Error
from psycopg.errors import DuplicateObject, QueryCanceled, UndefinedObject
from psycopg.rows import class_row

from walagent.connection import open_connection
from walagent.errors import (
    GapError,
    PreconditionError,
    SlotBusyError,
    WalagentError,
)
from walagent.lsn import Lsn
from walagent.wal.connection import answering, connect_replication
from walagent.wal.options import Plugin, quote_name
from walagent.wal.publications import missing_publications
from walagent.wal.refusals import LOST, POOLER, refused

_FAILOVER_SINCE: Final = 170000
_LOOK: Final = 0.5  # seconds between two looks at what a new slot waits for


@dataclass(frozen=True, slots=True)
class SlotState:
    """One slot, as pg_replication_slots has it."""

    name: str
    plugin: str
    database: str
    active_pid: int | None  # the reader that has it
    confirmed: Lsn | None
    restart: Lsn | None  # from here the server keeps its WAL
    wal_status: str  # reserved, extended, unreserved or lost
    invalidated: str  # why, where the server tells (17 and later), else ""
    retained: int  # bytes of WAL kept for it
    failover: bool = False  # whether standbys may synchronise it (17 and later)
    synced: bool = False  # on a standby: whether it is such a copy
    temporary: bool = False  # a copy is, until the standby can vouch for it


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that has just been made, and the database as of where it begins.

    What the *snapshot* shows is what had committed before; everything else comes by the slot.
    """

    state: SlotState
    snapshot: str  # for SET TRANSACTION SNAPSHOT, in the same database

    @property
    def start(self) -> Lsn:
        """Where it begins."""
        return self.state.confirmed or Lsn(0)


@dataclass(frozen=True, slots=True)
class Blocker:
    """A transaction that a new slot waits for."""

    pid: int
    age: float  # seconds since it began
    application_name: str
    state: str


@dataclass(frozen=True, slots=True)
class SystemIdentity:
    """Which cluster a connection leads to, and where its WAL ends."""

    system_id: str
    timeline: int
    wal_end: Lsn
    database: str


# `to_jsonb` because invalidation_reason, failover and synced exist from 17 on only.
_INSPECT: Final = """
select slot_name,
       plugin,
       database,
       active_pid,
       confirmed_flush_lsn::text,
       restart_lsn::text,
       coalesce(wal_status, 'lost'),
       coalesce(to_jsonb(s) ->> 'invalidation_reason', ''),
       coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                                     else pg_current_wal_lsn() end, restart_lsn), 0)::int8,
       coalesce((to_jsonb(s) ->> 'failover')::bool, false),
       coalesce((to_jsonb(s) ->> 'synced')::bool, false),
       temporary
  from pg_replication_slots s
 where slot_name = %s
"""
# A slot's first snapshot waits for transactions one after the other; it shows only the one it
# waits for now, so every transaction that has written and is older than the wait is named.
_BLOCKERS: Final = """
select pid,
       extract(epoch from clock_timestamp() - xact_start)::float8 as age,
       application_name,
       coalesce(state, '') as state
  from pg_stat_activity
 where backend_xid is not null and pid <> all (array[pg_backend_pid(), %s])
 order by xact_start
"""


async def inspect_slot(conn: AsyncConnection, name: str) -> SlotState | None:
    """Look at a slot; None if there is none of that name."""
    row = await (await conn.execute(_INSPECT, [name])).fetchone()
    if row is None:
        return None
    slot, plugin, database, pid, confirmed, restart, *rest = row
    return SlotState(
        slot,
        plugin or "",
        database or "",
        pid,
        confirmed and Lsn.parse(confirmed),
        restart and Lsn.parse(restart),
        *rest,
    )


async def check_slot(
    conn: AsyncConnection, name: str, *, plugin: Plugin, checkpoint: Lsn | None = None
) -> SlotState:
    """Say whether a stream can start where the checkpoint ends, and raise if it cannot.

    Raises:
        GapError: the slot is missing, invalidated, or ahead of *checkpoint*: what lies between is
            lost, and a person decides.
        SlotBusyError: another reader has it; stand by.
        PreconditionError: it was made with another plug-in, or for another database.
    """
    state = await inspect_slot(conn, name)
    if state is None:
        raise GapError(f"there is no slot {name}", hint=LOST)
    if state.plugin != plugin or state.database != conn.info.dbname:
        raise PreconditionError(
            f"slot {name} is of plug-in {state.plugin or 'none'} in database "
            f"{state.database or 'none'}, not of {plugin} in {conn.info.dbname}",
            hint="choose another slot name in the configuration",
        )
    if state.wal_status == "lost" or state.invalidated:
        raise GapError(f"slot {name} is invalidated: {state.invalidated or 'WAL lost'}", hint=LOST)
    if state.active_pid is not None:  # whoever it is moves slot and checkpoint: do not compare them
        raise SlotBusyError(f"slot {name} is read by the backend with pid {state.active_pid}")
    if checkpoint is not None and state.confirmed is not None and state.confirmed > checkpoint:
        raise GapError(
            f"slot {name} is at {state.confirmed}, ahead of the checkpoint's {checkpoint}",
            hint=LOST,
        )
    return state


@asynccontextmanager
async def new_slot(  # noqa: PLR0913 - each has its default
    dsn: str,
    name: str,
    plugin: Plugin = "pgoutput",
    *,
    publications: Sequence[str] = (),
    failover: bool = False,
    timeout: float = 60.0,  # noqa: ASYNC109 - bounds the server's work, and tells whom it waits for
    waiting: Callable[[Sequence[Blocker]], None] = lambda _: None,
) -> AsyncGenerator[NewSlot]:
    """Make a slot; its snapshot can be taken up until the block ends.

    The server waits for every open transaction that has written.  As long as it does, *waiting*
    is told of them about twice a second.

    Args:
        failover: whether standbys may synchronise it, and so be promoted without a gap.

    Raises:
        PreconditionError: a publication is missing (a slot without it would be stuck for ever),
            the slot exists, the server or the role is not set up, it is too old for *failover*,
            or the *timeout* has passed; no slot is left behind then.
        DatabaseLostError: the connection broke.
    """
    async with (
        await open_connection(AsyncConnection[Any], dsn, "walagent slot") as watcher,
        await connect_replication(dsn) as conn,
    ):
        if missing := await missing_publications(watcher, publications):
            raise PreconditionError(
                f"there is no publication {', '.join(missing)}",
                hint="make the publication before the slot",
            )
        if failover:
            _check_failover(conn, name)
        making = asyncio.create_task(
            _make(conn, name, plugin, failover=failover), name=f"create slot {name}"
        )
        try:
            async with asyncio.timeout(timeout):
                await _watch(making, watcher, conn.info.backend_pid, waiting)
                snapshot = await making
        except TimeoutError as error:
            blockers = await _blockers(watcher, conn.info.backend_pid)
            raise _waited(name, timeout, blockers) from error
        finally:
            await _settle(making, conn, watcher, name)
        if (state := await inspect_slot(watcher, name)) is None:
            raise PreconditionError(f"slot {name} was dropped as soon as it was made")
        yield NewSlot(state, snapshot)


async def create_slot(  # noqa: PLR0913 - as `new_slot`
    dsn: str,
    name: str,
    plugin: Plugin = "pgoutput",
    *,
    publications: Sequence[str] = (),
    failover: bool = False,
    timeout: float = 60.0,  # noqa: ASYNC109 - as `new_slot`
    waiting: Callable[[Sequence[Blocker]], None] = lambda _: None,
) -> SlotState:
    """Make a slot, see `new_slot`; everything committed after this returns is read through it."""
    async with new_slot(
        dsn,
        name,
        plugin,
        publications=publications,
        failover=failover,
        timeout=timeout,
        waiting=waiting,
    ) as made:
        return made.state


async def drop_slot(conn: AsyncConnection, name: str) -> None:
    """Drop a slot; nothing to do if there is none.

    Raises:
        SlotBusyError: somebody reads it.
    """
    try:
        await conn.execute("select pg_drop_replication_slot(%s)", [name])
    except UndefinedObject:
        return
    except Error as error:
        raise refused(error, name) from error


async def identify_system(dsn: str) -> SystemIdentity:
    """Ask which cluster this is, over a connection of its own that can replicate.

    Raises:
        PreconditionError: something between us and the server does not know replication.
        StreamLostError: the server cannot be reached.
    """
    conn = await connect_replication(dsn)
    try:
        async with answering():
            row = await (await conn.execute("IDENTIFY_SYSTEM")).fetchone()
    except Error as error:
        raise refused(error, "") from error
    finally:
        await conn.close()
    if row is None:
        raise PreconditionError("the server does not identify itself", hint=POOLER)
    system_id, timeline, wal_end, database = row
    return SystemIdentity(str(system_id), int(timeline), Lsn.parse(wal_end), database or "")


async def allow_failover(dsn: str, name: str) -> None:
    """Let standbys synchronise a slot that was made without that.

    Raises:
        SlotBusyError: somebody reads it.
        PreconditionError: the server is older than 17.
        StreamLostError: it cannot be reached.

    Source: PostgreSQL docs, 55.4 Streaming Replication Protocol, ALTER_REPLICATION_SLOT.
    """
    conn = await connect_replication(dsn)
    try:
        _check_failover(conn, name)
        await conn.execute(f"ALTER_REPLICATION_SLOT {quote_name(name)} (FAILOVER)".encode())
    except Error as error:
        raise refused(error, name) from error
    finally:
        await conn.close()


def _check_failover(conn: AsyncConnection, name: str) -> None:
    version = conn.info.server_version
    if version < _FAILOVER_SINCE:
        raise PreconditionError(
            f"slot {name} cannot be synchronised to a standby: PostgreSQL {version // 10000} has"
            " no failover slots, 17 is the first that has",
            hint="replication: {failover: false}; the promotion of a standby is then a gap",
        )


async def _make(conn: AsyncConnection, name: str, plugin: Plugin, *, failover: bool) -> str:
    """Make the slot, and give its snapshot, which lives until *conn* is used again."""
    options = "SNAPSHOT 'export', FAILOVER" if failover else "SNAPSHOT 'export'"
    statement = f"CREATE_REPLICATION_SLOT {quote_name(name)} LOGICAL {plugin} ({options})"
    try:
        row = await (await conn.execute(statement.encode())).fetchone()
    except DuplicateObject as error:
        raise PreconditionError(f"slot {name} exists already") from error
    except QueryCanceled:
        raise
    except Error as error:
        raise refused(error, name) from error
    assert row is not None  # noqa: S101 - it answers with one
    return str(row[2])


async def _watch(
    making: asyncio.Task[str],
    watcher: AsyncConnection,
    pid: int,
    waiting: Callable[[Sequence[Blocker]], None],
) -> None:
    while not (await asyncio.wait({making}, timeout=_LOOK))[0]:
        if blockers := await _blockers(watcher, pid):
            waiting(blockers)


async def _blockers(watcher: AsyncConnection, pid: int) -> Sequence[Blocker]:
    async with watcher.cursor(row_factory=class_row(Blocker)) as cursor:
        return await (await cursor.execute(_BLOCKERS, [pid])).fetchall()


def _waited(name: str, timeout: float, blockers: Sequence[Blocker]) -> WalagentError:
    names = ", ".join(f"pid {each.pid} (open for {each.age:.0f} s)" for each in blockers)
    return PreconditionError(
        f"slot {name} was not ready in {timeout:.0f} s; it waits for {names or 'the server'}",
        hint="end those transactions, or SELECT pg_terminate_backend(pid), and try again",
    )


async def _settle(
    making: asyncio.Task[str], conn: AsyncConnection, watcher: AsyncConnection, name: str
) -> None:
    """Leave no half-made slot behind when making it was given up."""
    if making.done():
        return
    await conn.cancel_safe()
    await asyncio.wait({making})
    with suppress(Error, WalagentError):
        making.result()  # it was made at the last moment
        await drop_slot(watcher, name)
