"""The checkpoint of a slot: how far it was read, by whom, and with which attachments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.errors import FencedError
from walagent.postgres.lsn import Lsn
from walagent.store.queries import query

Connection = AsyncConnection[Any]

_COLUMNS: Final = (
    "slot, generation, epoch, system_id, timeline, plugin, commit_lsn::text, end_lsn::text,"
    " committed_at, abandoned_at"
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A slot's row of `agent.checkpoint`, as held by this reader."""

    slot: str
    generation: int
    epoch: int
    system_id: str
    timeline: int
    plugin: str
    commit_lsn: Lsn
    end_lsn: Lsn
    committed_at: datetime | None = None  # of the last ingested transaction
    abandoned_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class VersionEffect:
    """The commit at which a version of an attachment took effect or ended, or its canary did.

    Args:
        version: None: the attachment was removed.
        definition, canary_definition: JSON, from the WAL; None: stored before.
        canary: the version of the canary; None: it has no canary.
        share: of the canary.
        shadow: whether the canary is a shadow.
    """

    attachment_id: int
    version: int | None
    definition: str | None
    commit_lsn: Lsn
    canary: int | None = None
    canary_definition: str | None = None
    share: float | None = None
    shadow: bool = False


async def has_checkpoint(conn: Connection, slot: str) -> bool:
    """Return whether a slot has a checkpoint that can be read; False without walagent's schema."""
    if not await _readable(conn):
        return False
    return await read_checkpoint(conn, slot) is not None


async def read_checkpoint(conn: Connection, slot: str) -> Checkpoint | None:
    """Read the checkpoint of a slot; None if it has none."""
    cursor = await conn.execute(
        f"select {_COLUMNS} from agent.checkpoint where slot = %(slot)s",  # noqa: S608 - our own constant
        {"slot": slot},
    )
    row = await cursor.fetchone()
    return _checkpoint(row) if row else None


async def _readable(conn: Connection) -> bool:
    cursor = await conn.execute(
        "select has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')"
        " from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'agent' and c.relname = 'checkpoint'"
    )
    return await cursor.fetchone() == (True,)


async def slot_of_database(conn: Connection, default: str) -> str:
    """Return the slot that this database has or, if *default* is another database's, can have."""
    known = list[str]()
    if await _readable(conn):
        cursor = await conn.execute("select slot from agent.checkpoint")
        known = [name for (name,) in await cursor.fetchall()]
    cursor = await conn.execute(query("own_slot"), {"known": known, "default": default})
    row = await cursor.fetchone()
    return row[0] if row else default


async def is_older(conn: Connection, position: Lsn) -> bool:
    """Return whether a position is before the publications were created."""
    cursor = await conn.execute(
        "select made_at > %s::pg_lsn from agent_internal.database", [str(position)]
    )
    row = await cursor.fetchone()
    return row is not None and row[0]


async def take_checkpoint(conn: Connection, slot: str, reader: str) -> Checkpoint:
    """Take over the checkpoint: from now on, older readers cannot write.

    Raises:
        FencedError: the slot has no checkpoint, or was abandoned.
    """
    cursor = await conn.execute(
        f"select {_COLUMNS} from agent_internal.take_checkpoint("  # noqa: S608 - our own constant
        "_slot => %(slot)s, _reader => %(reader)s)",
        {"slot": slot, "reader": reader},
    )
    row = await cursor.fetchone()
    if row is None or row[0] is None:
        raise FencedError(f'slot "{slot}" has no checkpoint')
    return _checkpoint(row)


async def try_locks(conn: Connection, slot: str) -> None:
    """Acquire and release the locks that intake needs; waits while others hold them."""
    async with conn.transaction(force_rollback=True):
        await conn.execute(query("lock_checkpoint"))
        await conn.execute(
            "select from agent.checkpoint where slot = %(slot)s for no key update", {"slot": slot}
        )


async def blockers(conn: Connection, waiting: Connection) -> list[tuple[int, str]]:
    """Return what *waiting* waits for: PIDs and application names."""
    cursor = await conn.execute(
        "select a.pid, a.application_name"
        "  from pg_stat_activity a where a.pid = any (pg_blocking_pids(%(pid)s)) order by 1",
        {"pid": waiting.info.backend_pid},
    )
    return await cursor.fetchall()


async def open_checkpoint(  # noqa: PLR0913 - a row's columns
    conn: Connection,
    slot: str,
    *,
    system_id: str,
    timeline: int,
    plugin: str,
    start: Lsn,
    existing: Iterable[tuple[int, int, float | None, bool]] | None = None,
    at: datetime | None = None,
) -> int:
    """Create the checkpoint of a new slot; a slot created again starts the next generation.

    Args:
        existing: of `existing_attachments`, what had committed before *start*, and so is in effect
            from there; None: all current ones.
        at: a time before which every change that the slot does not send had committed; None: now.

    Returns:
        The generation.
    """
    pairs = None if existing is None else list(existing)
    cursor = await conn.execute(
        query("open_checkpoint"),
        {
            "slot": slot,
            "system_id": system_id,
            "timeline": timeline,
            "plugin": plugin,
            "start": str(start),
            "ids": None if pairs is None else [attachment for attachment, *_ in pairs],
            "versions": None if pairs is None else [version for _, version, *_ in pairs],
            "shares": None if pairs is None else [share for _, _, share, _ in pairs],
            "shadows": None if pairs is None else [shadow for _, _, _, shadow in pairs],
            "at": at,
        },
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


async def existing_attachments(conn: Connection) -> list[tuple[int, int, float | None, bool]]:
    """Return attachments with version and, of canaries, share and whether it is a shadow."""
    cursor = await conn.execute(
        "select id, version, null, false from agent.attachment union all"
        " select id, (canary_definition ->> 'version')::integer, canary_share, canary_shadow"
        " from agent.attachment where canary is not null order by 1, 2"
    )
    return await cursor.fetchall()


async def record_timeline(conn: Connection, checkpoint: Checkpoint, timeline: int) -> None:
    """Record the current timeline: a standby was promoted."""
    await conn.execute(
        "update agent.checkpoint set timeline = %(timeline)s"
        " where slot = %(slot)s and epoch = %(epoch)s",
        {"timeline": timeline, "slot": checkpoint.slot, "epoch": checkpoint.epoch},
    )


async def wal_flushed(conn: Connection) -> Lsn:
    """Return the flushed position of the server's WAL, past everything that has committed."""
    row = await (await conn.execute("select pg_current_wal_flush_lsn()::text")).fetchone()
    assert row is not None  # noqa: S101 - a select without from returns one row
    return Lsn.parse(row[0])


def _checkpoint(row: Sequence[Any]) -> Checkpoint:
    slot, generation, epoch, system_id, timeline, plugin, commit_lsn, end_lsn, *rest = row
    return Checkpoint(
        slot,
        generation,
        epoch,
        system_id,
        timeline,
        plugin,
        Lsn.parse(commit_lsn),
        Lsn.parse(end_lsn),
        *rest,
    )


async def advance_checkpoint(  # noqa: PLR0913 - a row's columns
    conn: Connection,
    checkpoint: Checkpoint,
    commit_lsn: Lsn,
    end_lsn: Lsn,
    committed_at: datetime | None = None,
    *,
    for_workers: bool = False,
) -> None:
    """Advance the checkpoint in the transaction that inserted the runs, and notify the workers.

    Args:
        for_workers: whether there are runs for them.
        committed_at: when the last ingested transaction committed.

    Raises (as PostgreSQL errors, see `store.errors`):
        FencedError: a newer reader took over; roll back and stop.
    """
    await conn.execute(
        "select agent_internal.advance_checkpoint(_slot => %(slot)s, _epoch => %(epoch)s,"
        " _commit_lsn => %(commit_lsn)s, _end_lsn => %(end_lsn)s, _for_workers => %(for_workers)s,"
        " _committed_at => %(committed_at)s)",
        {
            "slot": checkpoint.slot,
            "epoch": checkpoint.epoch,
            "commit_lsn": str(commit_lsn),
            "end_lsn": str(end_lsn),
            "for_workers": for_workers,
            "committed_at": committed_at,
        },
    )


async def record_seen(conn: Connection, generation: int, seen: Iterable[tuple[int, str]]) -> None:
    """Record rows that backfills of this generation and older ones must skip.

    Args:
        seen: attachment and primary key of each row.
    """
    pairs = list(seen)
    await conn.execute(
        "insert into agent_internal.backfill_seen (attachment_id, generation, key)"
        " select a, %(generation)s, k"
        "   from unnest(%(attachments)s::bigint[], %(keys)s::text[]) as x (a, k)"
        " on conflict do nothing",
        {
            "generation": generation,
            "attachments": [attachment for attachment, _ in pairs],
            "keys": [key for _, key in pairs],
        },
    )


async def record_effects(conn: Connection, effects: Iterable[VersionEffect]) -> None:
    """Store the commit from which each version of an attachment is in effect."""
    for effect in effects:
        await conn.execute(
            query("record_effect"),
            {
                "attachment": effect.attachment_id,
                "version": effect.version,
                "definition": effect.definition,
                "canary": effect.canary,
                "canary_definition": effect.canary_definition,
                "share": effect.share,
                "shadow": effect.shadow,
                "lsn": str(effect.commit_lsn),
            },
        )
