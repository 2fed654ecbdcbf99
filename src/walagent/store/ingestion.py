"""Runs of the changes that were read: inserted with the checkpoint, collected or deferred."""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from psycopg import AsyncConnection

from walagent.domain.run import Claim, NewRun, RunState
from walagent.postgres.lsn import Lsn
from walagent.store.checkpoint import Checkpoint
from walagent.store.codecs.exact import exact, read_json
from walagent.store.queries import query

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Start:
    """A worker of this process with free slots, and the lease of the runs that it starts."""

    worker: str
    lease: timedelta
    room: int  # free slots
    rooms: Mapping[int, int] = field(default_factory=dict[int, int])  # by attachment, if fewer


async def active_tenants(conn: Connection, names: Collection[str]) -> frozenset[str]:
    """Return those of *names* that are active tenants."""
    cursor = await conn.execute(
        "select name from agent.tenant where active and name = any (%(names)s::text[])",
        {"names": [name for name in names if name]},
    )
    return frozenset(name for (name,) in await cursor.fetchall())


async def ingest(  # noqa: PLR0913, PLR0917 - what commits together
    conn: Connection,
    checkpoint: Checkpoint,
    runs: Sequence[NewRun],
    commit_lsn: Lsn,
    end_lsn: Lsn,
    start: Start | None = None,
    committed_at: datetime | None = None,
    row_changes: Mapping[str, Any] | None = None,
) -> list[Claim]:
    """Insert runs and advance the checkpoint, in one statement.

    Args:
        start: a worker of this process with free slots.
        committed_at: when the last transaction in it committed.
        row_changes: what runs changed; see `record_row_changes`.

    Returns:
        The runs that were started on this worker.

    Raises (as PostgreSQL errors, see `store.errors`):
        FencedError: a newer reader took over; nothing was written.
    """
    marked = startable(runs, start) if start else frozenset[int]()
    cursor = await conn.execute(
        "select agent_internal.ingest(_slot => %(slot)s, _epoch => %(epoch)s,"
        " _generation => %(generation)s, _commit_lsn => %(commit_lsn)s, _end_lsn => %(end_lsn)s,"
        " _runs => %(runs)s::jsonb, _worker => %(worker)s,"
        " _lease => %(lease)s, _committed_at => %(committed_at)s,"
        " _changes => %(changes)s::jsonb)",
        {
            "slot": checkpoint.slot,
            "epoch": checkpoint.epoch,
            "generation": checkpoint.generation,
            "commit_lsn": str(commit_lsn),
            "end_lsn": str(end_lsn),
            "runs": _documents(runs, marked),
            "worker": start.worker if start and marked else None,
            "lease": start.lease if start else None,
            "committed_at": committed_at,
            "changes": None if row_changes is None else orjson.dumps(row_changes).decode(),
        },
    )
    row = await cursor.fetchone()
    started = row[0] if row and row[0] else ()
    by_position = {(r.attachment_id, str(r.commit_lsn), r.ordinal): r for r in runs}
    return [_claim(run, lease, by_position[tuple(position)]) for run, lease, *position in started]


def startable(runs: Sequence[NewRun], start: Start) -> frozenset[int]:
    """Choose the first run of each ordering key, up to the free slots: by priority and position."""
    firsts: dict[tuple[int, object], int] = {}
    for n, run in enumerate(runs):
        firsts.setdefault(
            (run.attachment_id, n if run.ordering_key is None else run.ordering_key), n
        )
    left = dict(start.rooms)
    chosen = list[int]()
    for n in sorted(firsts.values(), key=lambda n: -runs[n].priority):
        attachment = runs[n].attachment_id
        if attachment in left:
            if left[attachment] <= 0:
                continue
            left[attachment] -= 1
        chosen.append(n)
    return frozenset(chosen[: start.room])


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


async def record_row_changes(conn: Connection, changes: Mapping[str, Any]) -> None:
    """Record what runs changed, in the transaction that advances the checkpoint.

    Args:
        changes: `matching.row_changes.Recorded.document`.
    """
    await conn.execute(
        "select agent_internal.record_row_changes(_changes => %(changes)s::jsonb),"
        " agent_internal.take_corrections(_found => %(changes)s::jsonb)",
        {"changes": orjson.dumps(changes).decode()},
    )


_LAST_WRITES: Final = """
select n.nspname, c.relname, w.key, array_agg(w.column_name)
  from agent_internal.last_write w
       join pg_catalog.pg_class c on c.oid = w.relation
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 group by n.nspname, c.relname, w.relation, w.row_hash, w.key
"""
_NEXT_WRITES: Final = "fetch 10000 from last_writes"


async def last_writes(
    conn: Connection,
) -> AsyncGenerator[tuple[str, str, dict[str, str | None], list[str]]]:
    """Yield schema, table, key and columns of each row that agents wrote lately."""
    async with conn.transaction():
        # Declared here: a cursor of psycopg stays open where its connection is lost as it closes.
        await conn.execute(f"declare last_writes cursor for {_LAST_WRITES}".encode())
        while rows := await (await conn.execute(_NEXT_WRITES)).fetchall():
            for row in rows:
                yield row


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


async def insert_shadowed(conn: Connection, checkpoint: Checkpoint, runs: Sequence[NewRun]) -> None:
    """Record which runs that collect have a shadow, in the transaction that inserted them."""
    await conn.execute(
        "select agent_internal.insert_shadowed(_generation => %(generation)s,"
        " _runs => %(runs)s::jsonb)",
        {"generation": checkpoint.generation, "runs": _documents(runs)},
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
    if run.priority:
        document["priority"] = run.priority
    if run.shadow is not None:
        document["shadow"] = run.shadow
    if run.state is not RunState.PENDING or run.error is not None:
        document |= {"state": run.state.value, "error": run.error}
    return document
