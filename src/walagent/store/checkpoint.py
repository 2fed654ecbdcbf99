"""The checkpoint of a slot, and the ingestion of runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

import orjson
from psycopg import AsyncConnection

from walagent.domain.run import Claim, NewRun, RunState
from walagent.errors import FencedError
from walagent.postgres.lsn import Lsn
from walagent.store.codecs.exact import exact, read_json
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
    """The commit at which a version of an attachment took effect or ended."""

    attachment_id: int
    version: int | None  # None: the attachment was removed
    definition: str | None  # JSON, from the WAL
    commit_lsn: Lsn


async def has_checkpoint(conn: Connection, slot: str) -> bool:
    """Return whether a slot has a checkpoint that can be read; False without walagent's schema."""
    cursor = await conn.execute(
        "select has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')"
        " from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'agent' and c.relname = 'checkpoint'"
    )
    if await cursor.fetchone() != (True,):
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
    existing: Iterable[tuple[int, int]] | None = None,
    at: datetime | None = None,
) -> int:
    """Create the checkpoint of a new slot; a slot created again starts the next generation.

    Args:
        existing: attachments with their versions that had committed before *start*, and so are in
            effect from there; None: all current ones.
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
            "ids": None if pairs is None else [attachment for attachment, _ in pairs],
            "versions": None if pairs is None else [version for _, version in pairs],
            "at": at,
        },
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


async def existing_attachments(conn: Connection) -> list[tuple[int, int]]:
    """Return attachments with their versions, for `open_checkpoint`."""
    cursor = await conn.execute("select id, version from agent.attachment order by id")
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


@dataclass(frozen=True, slots=True)
class Start:
    """A worker of this process with free slots, and the lease of the runs that it starts."""

    worker: str
    lease: timedelta
    room: int  # free slots
    rooms: Mapping[int, int] = field(default_factory=dict[int, int])  # by attachment, if fewer


async def ingest(  # noqa: PLR0913, PLR0917 - what commits together
    conn: Connection,
    checkpoint: Checkpoint,
    runs: Sequence[NewRun],
    commit_lsn: Lsn,
    end_lsn: Lsn,
    start: Start | None = None,
    committed_at: datetime | None = None,
) -> list[Claim]:
    """Insert runs and advance the checkpoint, in one statement.

    Args:
        start: a worker of this process with free slots.
        committed_at: when the last transaction in it committed.

    Returns:
        The runs that were started on this worker.

    Raises (as PostgreSQL errors, see `store.errors`):
        FencedError: a newer reader took over; nothing was written.
    """
    marked = _startable(runs, start) if start else frozenset[int]()
    cursor = await conn.execute(
        "select agent_internal.ingest(_slot => %(slot)s, _epoch => %(epoch)s,"
        " _generation => %(generation)s, _commit_lsn => %(commit_lsn)s, _end_lsn => %(end_lsn)s,"
        " _runs => %(runs)s::jsonb, _queues => %(queues)s, _worker => %(worker)s,"
        " _lease => %(lease)s, _committed_at => %(committed_at)s)",
        {
            "slot": checkpoint.slot,
            "epoch": checkpoint.epoch,
            "generation": checkpoint.generation,
            "commit_lsn": str(commit_lsn),
            "end_lsn": str(end_lsn),
            "runs": _documents(runs, marked),
            "queues": sorted({run.attachment_id for run in runs}),
            "worker": start.worker if start and marked else None,
            "lease": start.lease if start else None,
            "committed_at": committed_at,
        },
    )
    row = await cursor.fetchone()
    started = row[0] if row and row[0] else ()
    by_position = {(r.attachment_id, str(r.commit_lsn), r.ordinal): r for r in runs}
    return [_claim(run, lease, by_position[tuple(position)]) for run, lease, *position in started]


def _startable(runs: Sequence[NewRun], start: Start) -> frozenset[int]:
    """Choose the first run of each ordering key, up to the free slots, by position."""
    ordering_keys: dict[tuple[int, object], int] = {}
    left = dict(start.rooms)
    for n, run in enumerate(runs):
        ordering_key = (run.attachment_id, n if run.ordering_key is None else run.ordering_key)
        if ordering_key in ordering_keys:
            continue
        if run.attachment_id in left:
            if left[run.attachment_id] <= 0:
                continue
            left[run.attachment_id] -= 1
        ordering_keys[ordering_key] = n
    return frozenset(islice(ordering_keys.values(), start.room))


def _claim(run_id: int, lease: int, run: NewRun) -> Claim:
    """Build the claim of a run that was started when inserted: first attempt, no steps."""
    now = run.committed_at  # by the database's clock
    return Claim(
        run_id=run_id,
        attachment_id=run.attachment_id,
        attachment_version=run.attachment_version,
        lease=lease,
        attempt=1,
        max_attempts=run.max_attempts,
        reason="change",
        change=to_plain(run.change),
        key=run.key,
        depth=run.depth,
        commit_lsn=str(run.commit_lsn),
        committed_at=run.committed_at,
        created_at=now,
        started_at=now,
        kind=run.kind,
        principal=run.principal,
        queue_id=run.attachment_id,  # an attachment's queue has its ID
        tenant=run.tenant,
    )


def to_plain(change: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert a change to its form when read back from the database."""
    return read_json(orjson.dumps(change, default=exact))


async def insert_runs(conn: Connection, checkpoint: Checkpoint, runs: Sequence[NewRun]) -> int:
    """Insert runs that do not collect; return how many were new."""
    cursor = await conn.execute(
        "select agent_internal.insert_runs(_generation => %(generation)s,"
        " _runs => %(runs)s::jsonb)",
        {"generation": checkpoint.generation, "runs": _documents(runs)},
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


async def defer_changes(conn: Connection, checkpoint: Checkpoint, runs: Iterable[NewRun]) -> None:
    """Store the whole changes of deferred runs, in the transaction that inserted them."""
    changes = [
        {
            "attachment_id": run.attachment_id,
            "commit_lsn": str(run.commit_lsn),
            "ordinal": run.ordinal,
            "change": run.deferred,
        }
        for run in runs
    ]
    await conn.execute(
        "select agent_internal.defer_changes(_generation => %(generation)s,"
        " _changes => %(changes)s::jsonb)",
        {"generation": checkpoint.generation, "changes": orjson.dumps(changes).decode()},
    )


async def collect_run(conn: Connection, checkpoint: Checkpoint, run: NewRun) -> bool:
    """Insert a run that collects, or let its change join the one that is collecting.

    Returns:
        whether the change was new.
    """
    cursor = await conn.execute(
        query("collect_run"),
        {
            "generation": checkpoint.generation,
            "attachment": run.attachment_id,
            "ordering_key": run.ordering_key,
            "tenant": run.tenant,
            "run": _documents([run]),
            "debounce": run.debounce,
            "commit_lsn": str(run.commit_lsn),
            "ordinal": run.ordinal,
        },
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def advance_checkpoint(  # noqa: PLR0913, PLR0917 - a row's columns
    conn: Connection,
    checkpoint: Checkpoint,
    commit_lsn: Lsn,
    end_lsn: Lsn,
    queues: Iterable[int] = (),
    committed_at: datetime | None = None,
) -> None:
    """Advance the checkpoint in the transaction that inserted the runs, and notify the workers.

    Args:
        queues: the attachments that have new runs.
        committed_at: when the last ingested transaction committed.

    Raises (as PostgreSQL errors, see `store.errors`):
        FencedError: a newer reader took over; roll back and stop.
    """
    await conn.execute(
        "select agent_internal.advance_checkpoint(_slot => %(slot)s, _epoch => %(epoch)s,"
        " _commit_lsn => %(commit_lsn)s, _end_lsn => %(end_lsn)s, _queues => %(queues)s,"
        " _committed_at => %(committed_at)s)",
        {
            "slot": checkpoint.slot,
            "epoch": checkpoint.epoch,
            "commit_lsn": str(commit_lsn),
            "end_lsn": str(end_lsn),
            "queues": sorted(set(queues)),
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
                "lsn": str(effect.commit_lsn),
            },
        )


def _documents(runs: Sequence[NewRun], marked: frozenset[int] = frozenset()) -> str:
    """Encode runs as one JSON array: one parameter is far cheaper than one for each column."""
    documents = [
        {**_document(run), "start": True} if n in marked else _document(run)
        for n, run in enumerate(runs)
    ]
    return orjson.dumps(documents, default=exact).decode()


def _document(run: NewRun) -> dict[str, Any]:
    """Encode a run as agent.new_run, without fields that most runs do not have."""
    document = {
        "tenant": run.tenant,
        "attachment_id": run.attachment_id,
        "attachment_version": run.attachment_version,
        "commit_lsn": str(run.commit_lsn),
        "ordinal": run.ordinal,
        "committed_at": run.committed_at,
        "change": run.change,
        "key": run.key,
        "ordering_key": run.ordering_key,
        "max_attempts": run.max_attempts,
    }
    if run.kind != "agent":
        document |= {"kind": run.kind, "principal": run.principal, "delay": run.delay}
    if run.cause_run is not None:
        document |= {"cause_run": run.cause_run, "depth": run.depth}
    if run.state is not RunState.PENDING or run.error is not None:
        document |= {"state": run.state.value, "error": run.error}
    return document
