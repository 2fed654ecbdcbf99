"""A new slot after the old one was lost: what lies between is written down as a gap."""

from collections.abc import Callable, Sequence
from typing import Any

from psycopg import AsyncConnection

from walagent.app.setup import PUBLICATIONS
from walagent.config import Replication
from walagent.errors import SlotBusyError
from walagent.lsn import Lsn
from walagent.store import deciding, reading
from walagent.store import ledger as ledgers
from walagent.store.connections import connect
from walagent.wal.slots import Blocker, create_slot, drop_slot, identify_system, inspect_slot

Connection = AsyncConnection[Any]


async def renew_slot(
    conn: Connection,
    replication_dsn: str,
    settings: Replication,
    waiting: Callable[[Sequence[Blocker]], None] = lambda _: None,
) -> Lsn:
    """Drop the slot if it is there, make it anew, and begin its ledger's next generation.

    What was committed between the ledger's end and the new slot starts no run: the gap is recorded,
    with the new slot as what was done about it.

    Returns:
        where the new slot begins.

    Raises:
        SlotBusyError: somebody reads the slot; stop that process first.
        PreconditionError: the server or the role is not set up for it.
    """
    name = settings.slot
    former = await ledgers.read_ledger(conn, name)
    state = await inspect_slot(conn, name)
    if state is not None and state.active_pid is not None:
        raise SlotBusyError(
            f"slot {name} is read by the backend with pid {state.active_pid}",
            hint="stop the process that reads it first",
        )
    async with await connect(replication_dsn, application="walagent cli") as reader:
        await drop_slot(reader, name)
    publications = PUBLICATIONS if settings.plugin == "pgoutput" else ()
    made = await create_slot(
        replication_dsn,
        name,
        settings.plugin,
        publications=publications,
        failover=settings.failover,
        waiting=waiting,
    )
    identity = await identify_system(replication_dsn)
    start = made.confirmed or Lsn(0)
    async with conn.transaction():
        if former is not None:
            await ledgers.record_gap(conn, name, "a new slot was made", former.end_lsn, start)
        for gap in await reading.list_gaps(conn):
            if gap["slot"] == name:
                await deciding.resolve_gap(conn, gap["id"], f"a new slot begins at {start}")
        await ledgers.open_ledger(
            conn,
            name,
            system_id=identity.system_id,
            timeline=identity.timeline,
            plugin=settings.plugin,
            start=start,
        )
    return start
