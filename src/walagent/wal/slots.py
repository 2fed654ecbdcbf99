"""Inspect, create and drop replication slots.

Inspecting and dropping use a given connection in autocommit, whose role can replicate; everything
else opens its own connections.

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

from walagent.errors import (
    GapError,
    PreconditionError,
    SlotBusyError,
    WalagentError,
)
from walagent.postgres.connection import OWN_PATH, open_connection
from walagent.postgres.lsn import Lsn
from walagent.postgres.quoting import quote_name
from walagent.wal.connection import answering, connect_replication
from walagent.wal.options import Plugin
from walagent.wal.publications import missing_publications
from walagent.wal.refusals import LOST, POOLER, SLOTS, refused

_FAILOVER_SINCE: Final = 170000
_LOOK: Final = 0.5  # seconds between two checks of what a new slot waits for


@dataclass(frozen=True, slots=True)
class SlotState:
    """One row of pg_replication_slots."""

    name: str
    plugin: str
    database: str
    active_pid: int | None  # the reader that uses it
    confirmed: Lsn | None
    restart: Lsn | None  # the server retains its WAL from here
    wal_status: str  # reserved, extended, unreserved or lost
    invalidated: str  # the reason, if the server reports it (17 and later), else ""
    retained: int  # bytes of WAL
    failover: bool = False  # whether standbys can synchronize it (17 and later)
    synced: bool = False  # on a standby: whether it was synchronized from the primary
    temporary: bool = False  # a synchronized slot is temporary until the standby has caught up
    here: str = ""  # the database of the connection: a pooler can have another name for it


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that was just created, and a snapshot of the database at its start.

    The snapshot contains what was committed before; the slot sends everything after.
    """

    state: SlotState
    snapshot: str  # for SET TRANSACTION SNAPSHOT, in the same database

    @property
    def start(self) -> Lsn:
        """Return the position at which the slot starts."""
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
    """The cluster that a connection leads to, and the end of its WAL."""

    system_id: str
    timeline: int
    wal_end: Lsn
    database: str


# `to_jsonb`: invalidation_reason, failover and synced exist only from 17 on.
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
       temporary,
       current_database()
  from pg_replication_slots s
 where slot_name = %s
"""
_ROOM: Final = """
select current_setting('max_replication_slots')::int - (select count(*) from pg_replication_slots),
       exists (select from pg_replication_slots where slot_name = %(slot)s),
       current_setting('max_wal_senders')::int - (select count(*) from pg_stat_replication),
       exists (select from pg_replication_slots where slot_name = %(slot)s and active)
"""
# A new slot waits for transactions one after the other and reports only the current one, so this
# lists every transaction that has written and is older than the wait.
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
    """Read the state of a slot; None if it does not exist."""
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


def check_use(state: SlotState, plugin: Plugin) -> None:
    """Raise PreconditionError unless a slot is this database's, and *plugin*'s."""
    _check_database(state)
    if state.plugin != plugin:
        raise PreconditionError(
            f'slot "{state.name}" uses plugin "{state.plugin}", expected "{plugin}"',
            hint="Use --slot NAME or replication.slot to name another slot.",
        )


def _check_database(state: SlotState) -> None:
    if state.database != state.here:
        raise PreconditionError(
            f'slot "{state.name}" belongs to database "{state.database}", expected "{state.here}"',
            hint="A slot belongs to one database, and all databases of a server share slot names."
            " Use --slot NAME or replication.slot.",
        )


async def check_slot(
    conn: AsyncConnection, name: str, *, plugin: Plugin, checkpoint: Lsn | None = None
) -> SlotState:
    """Check that a stream can start at the checkpoint.

    Raises:
        GapError: the slot is missing, invalidated, or ahead of *checkpoint*: the changes between
            are lost, and an operator decides.
        SlotBusyError: another reader has it; wait on standby.
        PreconditionError: it was created with another plugin, or for another database.
    """
    state = await inspect_slot(conn, name)
    if state is None:
        raise GapError(f'slot "{name}" does not exist', hint=LOST)
    check_use(state, plugin)
    if state.wal_status == "lost" or state.invalidated:
        why = state.invalidated or "WAL lost"
        raise GapError(f'slot "{name}" is invalidated: {why}', hint=LOST)
    if state.active_pid is not None:  # that reader moves slot and checkpoint: do not compare them
        raise SlotBusyError(f'slot "{name}" is active for PID {state.active_pid}')
    if checkpoint is not None and state.confirmed is not None and state.confirmed > checkpoint:
        raise GapError(
            f'slot "{name}" is at {state.confirmed}, ahead of the checkpoint at {checkpoint}',
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
    timeout: float = 60.0,  # noqa: ASYNC109 - bounds the server's work; the error has the PIDs
    waiting: Callable[[Sequence[Blocker]], None] = lambda _: None,
) -> AsyncGenerator[NewSlot]:
    """Create a slot; its snapshot can be used until the block ends.

    The server waits for every open transaction that has written.  Meanwhile *waiting* is called
    with these transactions about twice a second.

    Args:
        failover: whether standbys synchronize it, so that one can be promoted without a gap.

    Raises:
        PreconditionError: a publication is missing (the slot could never advance past the WAL
            before it), the slot exists, the server or the role is not configured, the server is too
            old for *failover*, or the *timeout* has passed; then no slot is left behind.
        DatabaseLostError: the connection was lost.
    """
    async with (
        await open_connection(AsyncConnection[Any], dsn, "walagent slot", OWN_PATH) as watcher,
        await connect_replication(dsn) as conn,
    ):
        if missing := await missing_publications(watcher, publications):
            raise PreconditionError(
                f"publication does not exist: {', '.join(missing)}",
                hint="Create the publication before the slot.",
            )
        if failover:
            _check_failover(conn, name)
        making = asyncio.create_task(
            _make(conn, name, plugin, failover=failover), name=f"create slot {name}"
        )
        try:
            async with asyncio.timeout(timeout):
                await watch_creation(making, watcher, conn.info.backend_pid, waiting)
                snapshot = await making
        except TimeoutError as error:
            blockers = await _blockers(watcher, conn.info.backend_pid)
            raise _waited(name, timeout, blockers) from error
        finally:
            await _settle(making, conn, watcher, name)
        if (state := await inspect_slot(watcher, name)) is None:
            raise PreconditionError(f'slot "{name}" was dropped while it was created')
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
    """Create a slot, see `new_slot`; it sends everything committed after this returns."""
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
    """Drop a slot of this database if it exists; PostgreSQL would drop that of another one, too.

    Raises:
        SlotBusyError: it is active.
        PreconditionError: it belongs to another database.
    """
    if (state := await inspect_slot(conn, name)) is None:
        return
    _check_database(state)
    try:
        await conn.execute("select pg_drop_replication_slot(%s)", [name])
    except UndefinedObject:
        return
    except Error as error:
        raise refused(error, name) from error


async def check_room(conn: AsyncConnection[Any], *, leave_for: str) -> None:
    """Check that a temporary slot can be created, and leaves one for the reader.

    Args:
        leave_for: the reader's slot, for which one is left if it does not exist, and a WAL sender
            if it is not active.

    Raises:
        PreconditionError: it cannot.
    """
    row = await (await conn.execute(_ROOM, {"slot": leave_for})).fetchone()
    if row is None:
        return
    for setting, free, is_taken in (
        ("max_replication_slots", row[0], row[1]),
        ("max_wal_senders", row[2], row[3]),
    ):
        if free > 0 and (is_taken or free > 1):
            continue
        left = "" if is_taken or not free else f', and the last one is for slot "{leave_for}"'
        raise PreconditionError(f"{setting} has {free} left{left}", hint=SLOTS)


async def identify_system(dsn: str) -> SystemIdentity:
    """Identify the cluster through a new replication connection.

    Raises:
        PreconditionError: a proxy or pooler between here and the server cannot replicate.
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
        raise PreconditionError("the server does not answer IDENTIFY_SYSTEM", hint=POOLER)
    system_id, timeline, wal_end, database = row
    return SystemIdentity(str(system_id), int(timeline), Lsn.parse(wal_end), database or "")


async def allow_failover(dsn: str, name: str) -> None:
    """Enable failover for a slot that was created without it.

    Raises:
        SlotBusyError: it is active.
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
            f'cannot synchronize slot "{name}" to standbys: PostgreSQL {version // 10000} has no'
            " failover slots, 17 or newer is required",
            hint="Set replication.failover to false; the promotion of a standby then causes a gap.",
        )


async def _make(conn: AsyncConnection, name: str, plugin: Plugin, *, failover: bool) -> str:
    """Create the slot and return its snapshot, which is valid until *conn* is used again."""
    options = "SNAPSHOT 'export', FAILOVER" if failover else "SNAPSHOT 'export'"
    statement = f"CREATE_REPLICATION_SLOT {quote_name(name)} LOGICAL {plugin} ({options})"
    try:
        row = await (await conn.execute(statement.encode())).fetchone()
    except DuplicateObject as error:
        raise PreconditionError(f'slot "{name}" already exists') from error
    except QueryCanceled:
        raise
    except Error as error:
        raise refused(error, name) from error
    assert row is not None  # noqa: S101 - the command returns one row
    return str(row[2])


async def watch_creation(
    making: asyncio.Task[Any],
    watcher: AsyncConnection,
    pid: int,
    waiting: Callable[[Sequence[Blocker]], None],
) -> None:
    """Until a slot is made, call *waiting* with the transactions that it waits for.

    Args:
        pid: of the backend that creates it.
    """
    while not (await asyncio.wait({making}, timeout=_LOOK))[0]:
        if blockers := await _blockers(watcher, pid):
            waiting(blockers)


async def _blockers(watcher: AsyncConnection, pid: int) -> Sequence[Blocker]:
    async with watcher.cursor(row_factory=class_row(Blocker)) as cursor:
        return await (await cursor.execute(_BLOCKERS, [pid])).fetchall()


def _waited(name: str, timeout: float, blockers: Sequence[Blocker]) -> WalagentError:
    names = ", ".join(f"PID {each.pid} (open for {each.age:.0f} s)" for each in blockers)
    return PreconditionError(
        f'could not create slot "{name}" in {timeout:.0f} s: waiting for {names or "the server"}',
        hint="End those transactions, or SELECT pg_terminate_backend(PID), and retry.",
    )


async def _settle(
    making: asyncio.Task[str], conn: AsyncConnection, watcher: AsyncConnection, name: str
) -> None:
    """Drop the slot if its creation was abandoned but succeeded."""
    if making.done():
        return
    await conn.cancel_safe()
    await asyncio.wait({making})
    with suppress(Error, WalagentError):
        making.result()  # it was created at the last moment
        await drop_slot(watcher, name)
