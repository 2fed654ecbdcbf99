"""Runs in the queue without a reader, and a clock that can be set."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from weakref import WeakKeyDictionary

import orjson
from psycopg import AsyncConnection

from tests.helpers.database import column, rows, run_all, value
from walagent.domain.run import Claim, RunState
from walagent.message import Json
from walagent.store import claiming, runs
from walagent.store.claiming import ClaimScope, Turn
from walagent.store.runs import NewStep, Spent

LEASE = timedelta(seconds=30)
NOTHING = Spent(0, None)
_turns: WeakKeyDictionary[AsyncConnection, Turn] = WeakKeyDictionary()


async def add_runs(
    conn: AsyncConnection, attachment: int, *ordering_keys: str | None, **fields: Json
) -> list[int]:
    """Put runs into the queue, one for each ordering_key, as intake does."""
    last = await value(conn, "select coalesce(max(commit_lsn), '0/100') - '0/0' from agent.run")
    documents = [
        {
            "attachment_id": attachment,
            "attachment_version": 1,
            "commit_lsn": f"0/{int(last) + n + 1:X}",
            "ordinal": 0,
            "committed_at": "2026-01-01T00:00:00Z",
            "change": {"op": "insert", "new": {"id": n}},
            "key": str(n),
            "ordering_key": ordering_key,
            "max_attempts": 5,
            **fields,
        }
        for n, ordering_key in enumerate(ordering_keys)
    ]
    await value(
        conn, "select agent_internal.insert_runs(1, %s::jsonb)", orjson.dumps(documents).decode()
    )
    ids = await column(
        conn, "select id from agent.run order by id desc limit %s", len(ordering_keys)
    )
    return ids[::-1]


async def claim(
    conn: AsyncConnection,
    slots: int = 100,
    *,
    worker: str = "w1",
    lease: timedelta = LEASE,
    limits: Mapping[int, int] | None = None,
) -> list[Claim]:
    """Claim as a worker does; each session has its turn."""
    scope = ClaimScope(limits=limits or {})
    turn = _turns.setdefault(conn, Turn())
    return await claiming.claim_runs(conn, worker, slots, lease, scope, turn)


async def finish(
    conn: AsyncConnection,
    held: Claim,
    state: RunState = RunState.SUCCEEDED,
    *,
    error: Mapping[str, Json] | None = None,
    last: NewStep | None = None,
) -> None:
    """End a run as a worker does."""
    await runs.finish_run(conn, held, state, result=None, error=error, spent=NOTHING, last=last)


async def park_for_approval(conn: AsyncConnection, held: Claim) -> None:
    """Let a run wait for a person."""
    await conn.execute(
        "select agent_internal.ask_approval(%(run)s, %(lease)s,"
        " (select count(*)::integer from agent.step where run_id = %(run)s),"
        " gen_random_uuid()::text, 'refund_user', '{}', 'somebody', '1 day', 0, 0)",
        {"run": held.run_id, "lease": held.lease},
    )


def ids(claims: Sequence[Claim]) -> list[int]:
    """The runs of some claims."""
    return [held.run_id for held in claims]


async def states(conn: AsyncConnection) -> list[str]:
    """The states of all runs, in order."""
    return await column(conn, "select state::text from agent.run order by id")


async def one_run(conn: AsyncConnection, columns: str, run_id: int) -> tuple[Json, ...]:
    """Some columns of a run."""
    (row,) = await rows(conn, f"select {columns} from agent.run where id = %s", run_id)
    return row


async def set_clock(conn: AsyncConnection, ahead: str) -> None:
    """Let the database's own clock be *ahead*, an interval, of the real one."""
    await run_all(
        conn,
        "create or replace function agent_internal.now() returns timestamptz language sql stable"
        f" as $$ select statement_timestamp() + interval '{ahead}' $$",
    )
