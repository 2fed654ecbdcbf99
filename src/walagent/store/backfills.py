"""Backfills: which are pending, their progress, and their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.domain.attachment import Attachment
from walagent.domain.run import BACKFILL_PRIORITY
from walagent.postgres.lsn import Lsn
from walagent.store.codecs.exact import exact

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class BackfillJob:
    """An unfinished backfill."""

    attachment: Attachment
    generation: int  # 0: requested with the attach; else of the slot that followed a gap
    state: str
    cursor: Mapping[str, Any] | None
    rows_done: int


async def running(conn: Connection) -> set[int]:
    """Return the attachments with an unfinished backfill; intake records their new rows."""
    cursor = await conn.execute(
        "select attachment_id from agent.backfill where state in ('pending', 'running')"
    )
    return {row[0] for row in await cursor.fetchall()}


async def next_backfill(conn: Connection) -> BackfillJob | None:
    """Return the oldest unfinished backfill, with the version that it was requested for."""
    cursor = await conn.execute(
        "select v.definition, b.generation, b.state, b.cursor, b.rows_done"
        "  from agent.backfill b"
        "       join agent.attachment_version v using (attachment_id, version)"
        " where b.state in ('pending', 'running') and v.active_from is not null"
        " order by b.attachment_id, b.generation limit 1"
    )
    row = await cursor.fetchone()
    return BackfillJob(Attachment.from_json(row[0]), *row[1:]) if row else None


async def start(conn: Connection, job: BackfillJob) -> None:
    """Record the start of a backfill, with the planner's estimate of its size."""
    await conn.execute(
        "update agent.backfill"
        "   set state = 'running', started_at = agent_internal.now(),"
        "       rows_total = (select greatest(reltuples, 0)::bigint from pg_class"
        "                     where oid = %(relation)s)"
        " where attachment_id = %(attachment)s and generation = %(generation)s",
        {"relation": job.attachment.target.relation_oid, **_job(job)},
    )


async def finish(conn: Connection, job: BackfillJob) -> None:
    """Record the end of a backfill, and delete the list of rows to skip."""
    await conn.execute(
        "update agent.backfill"
        "   set state = 'done', finished_at = agent_internal.now(), rows_total = rows_done"
        " where attachment_id = %(attachment)s and generation = %(generation)s",
        _job(job),
    )
    await _forget_seen(conn)


async def fail(conn: Connection, job: BackfillJob, error: Exception) -> None:
    """Record the failure of a backfill."""
    await conn.execute(
        "update agent.backfill set state = 'failed', finished_at = agent_internal.now(),"
        " error = %(error)s where attachment_id = %(attachment)s and generation = %(generation)s",
        {"error": str(error), **_job(job)},
    )
    await _forget_seen(conn)


async def _forget_seen(conn: Connection) -> None:
    """Delete the lists of rows to skip without an unfinished backfill."""
    await conn.execute(
        "delete from agent_internal.backfill_seen"
        " where attachment_id <> all (array(select attachment_id from agent.backfill"
        "                                    where state in ('pending', 'running')))"
    )


async def wal_position(conn: Connection) -> Lsn:
    """Return the current end of the server's WAL."""
    row = await (await conn.execute("select pg_current_wal_insert_lsn()::text")).fetchone()
    return Lsn.parse(row[0]) if row else Lsn(0)


async def nudge(conn: Connection) -> None:
    """Write a logical message to the WAL, for the reader to pass."""
    await conn.execute("select pg_logical_emit_message(true, 'walagent', 'nudge')")


async def seen(conn: Connection, job: BackfillJob, keys: Sequence[str]) -> set[str]:
    """Return those of *keys* that got a run in another way since the backfill was requested."""
    cursor = await conn.execute(
        "select key from agent_internal.backfill_seen"
        " where attachment_id = %(attachment)s and generation >= %(generation)s"
        " and key = any (%(keys)s)",
        {"keys": list(keys), **_job(job)},
    )
    return {row[0] for row in await cursor.fetchall()}


async def insert_runs(
    conn: Connection, attachment: Attachment, generation: int, runs: Sequence[Mapping[str, Any]]
) -> None:
    """Insert one run for each row: change, key, ordering_key, state, error of agent.new_run.

    `wake` lets workers have them, in the same transaction and as late as can be: it holds a lock.
    """
    pinned = {
        "tenant": attachment.tenant,
        "attachment_id": attachment.id,
        "attachment_version": attachment.version,
        "max_attempts": attachment.queueing.max_attempts,
        "priority": attachment.queueing.priority + BACKFILL_PRIORITY,
    }
    documents = [{**pinned, **run} for run in runs]
    await conn.execute(
        "select agent_internal.insert_backfill_runs(_generation => %(generation)s,"
        " _runs => %(runs)s::jsonb)",
        {"generation": generation, "runs": orjson.dumps(documents, default=exact).decode()},
    )


async def wake(conn: Connection) -> None:
    """Notify the workers of the runs that were inserted, at commit."""
    await conn.execute("select agent_internal.wake_workers()")


async def move(
    conn: Connection, job: BackfillJob, cursor: Mapping[str, Any], rows: int, runs: int
) -> None:
    """Advance a backfill, in the transaction that inserted its runs."""
    await conn.execute(
        "update agent.backfill"
        "   set cursor = %(cursor)s, rows_done = rows_done + %(rows)s, runs = runs + %(runs)s"
        " where attachment_id = %(attachment)s and generation = %(generation)s",
        {"cursor": Jsonb(cursor), "rows": rows, "runs": runs, **_job(job)},
    )


def _job(job: BackfillJob) -> dict[str, int]:
    return {"attachment": job.attachment.id, "generation": job.generation}
