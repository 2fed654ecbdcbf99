"""Runs and steps: claim, record, wait, end.  Each function is one statement of one round trip."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from walagent.message import Json, ToolCall, Usage
from walagent.run import Claim, RunState, Step, StepKind
from walagent.store.codecs.lossy import ToldJson, ToldText

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step about to be recorded."""

    seq: int
    kind: StepKind
    content: Mapping[str, Json]
    usage: Usage | None = None
    cost: float | None = None
    duration_ms: int | None = None

    @property
    def values(self) -> list[Any]:
        """The parameters of agent_internal.record_step() after run and lease."""
        return [
            self.seq,
            self.kind.value,
            ToldJson(self.content),
            _usage(self.usage),
            self.cost,
            self.duration_ms,
        ]

    @property
    def recorded(self) -> Step:
        """The step as it will be read back."""
        tokens = self.usage.total if self.usage else 0
        return Step(self.seq, self.kind, self.content, tokens, self.cost)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has used up so far."""

    tokens: int
    cost: float | None


async def claim_runs(  # noqa: PLR0913, PLR0917 - who, how many, and of what
    conn: Connection,
    worker: str,
    slots: int,
    lease_for: timedelta,
    done: Mapping[int, int],
    rooms: Mapping[int, int] | None = None,
) -> tuple[list[Claim], bool]:
    """Take up to *slots* runs; say too whether there were more.

    Args:
        done: how many runs of which attachment this worker has let go of since its last claim.
        rooms: of which attachments it takes fewer runs than it has slots.
    """
    tight = rooms or {}
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        "select * from agent_internal.claim_runs(%s, %s, %s, %s, %s, %s, %s)",
        [
            worker,
            slots,
            lease_for,
            list(done),
            list(done.values()),
            list(tight),
            list(tight.values()),
        ],
    )
    rows = await cursor.fetchall()
    more = [row.pop("more") for row in rows]
    return [_claim(row) for row in rows], any(more)


def _claim(row: dict[str, Any]) -> Claim:
    merged, steps = row.pop("merged"), row.pop("steps")
    return Claim(
        **row, merged=tuple(merged or ()), steps=tuple(_step(step) for step in steps or ())
    )


def _step(raw: dict[str, Any]) -> Step:
    kind, cost = StepKind(raw["kind"]), raw["cost"]
    return Step(raw["seq"], kind, raw["content"], raw["tokens"], cost and float(cost))


async def record_step(
    conn: Connection, claim: Claim, step: NewStep, *, reserved: bool = False
) -> None:
    """Record a step, in the transaction of its effects.

    Args:
        reserved: budgets may have reserved for it, here and below: what it cost is settled, or what
            was reserved for a call that has failed is released.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: roll back and leave the run.
        StepTakenError: the step is there already; roll back, its effects are done.
    """
    await conn.execute(
        "select agent_internal.record_step(%s, %s, %s, %s, %s, %s, %s::numeric, %s, %s)",
        [claim.run_id, claim.lease, *step.values, reserved],
    )


async def finish_run(  # noqa: PLR0913 - a row's columns
    conn: Connection,
    claim: Claim,
    state: RunState,
    *,
    result: str | None,
    error: Mapping[str, Json] | None,
    spent: Spent,
    last: NewStep | None = None,
    reserved: bool = False,
) -> bool:
    """End a run, together with its last step where there is one to record.

    Returns:
        whether another run of its ordering_key was waiting for it.
    """
    text = None if result is None else ToldText(result)
    failed = None if error is None else ToldJson(error)
    end = [state.value, text, failed, spent.tokens, spent.cost, reserved]
    if last is None:
        cursor = await conn.execute(
            "select agent_internal.finish_run(%s, %s, %s, %s, %s, %s, %s::numeric, %s)",
            [claim.run_id, claim.lease, *end],
        )
    else:
        cursor = await conn.execute(
            "select agent_internal.finish_with_step("
            "%s, %s, %s, %s, %s, %s, %s::numeric, %s, %s, %s, %s, %s, %s::numeric, %s)",
            [claim.run_id, claim.lease, *last.values, *end],
        )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def park_run(  # noqa: PLR0913 - a row's columns
    conn: Connection,
    claim: Claim,
    state: RunState,
    *,
    delay: float = 0.0,
    refund: bool = False,
    error: Mapping[str, Json] | None = None,
    spent: Spent,
    reserved: bool = False,
) -> None:
    """Let a run go without ending it.

    Args:
        delay: seconds until the next attempt, for `waiting_retry`.
        refund: give the attempt back.
    """
    await conn.execute(
        "select agent_internal.park_run(%s, %s, %s, %s, %s, %s, %s, %s::numeric, %s)",
        [
            claim.run_id,
            claim.lease,
            state.value,
            timedelta(seconds=delay),
            refund,
            None if error is None else ToldJson(error),
            spent.tokens,
            spent.cost,
            reserved,
        ],
    )


async def ask_approval(  # noqa: PLR0913, PLR0917 - a row's columns
    conn: Connection, claim: Claim, seq: int, call: ToolCall, run_as: str, ttl: float, spent: Spent
) -> int:
    """Ask a person about *call* and let the run wait.

    Args:
        ttl: seconds until the question expires.

    Returns:
        the approval's id.
    """
    cursor = await conn.execute(
        "select agent_internal.ask_approval(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s::numeric)",
        [
            claim.run_id,
            claim.lease,
            seq,
            call.id,
            call.name,
            ToldJson(call.arguments),
            run_as,
            timedelta(seconds=ttl),
            spent.tokens,
            spent.cost,
        ],
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


async def is_approved(conn: Connection, claim: Claim, call: ToolCall) -> bool:
    """Whether a person has approved *call*, with exactly these arguments."""
    cursor = await conn.execute(
        "select exists (select from agent.approval a"
        " where a.run_id = %s and a.call_id = %s and a.state = 'approved'"
        " and a.digest = agent_internal.call_digest(a.run_id, a.call_id, %s, %s))",
        [claim.run_id, call.id, call.name, ToldJson(call.arguments)],
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def heartbeat(
    conn: Connection, worker: str, claims: Sequence[Claim], lease_for: timedelta
) -> dict[int, bool]:
    """Extend the leases of *claims*.

    Returns:
        the runs to let go of; True: cancelled, False: another worker holds it.
    """
    cursor = await conn.execute(
        "select * from agent_internal.heartbeat(%s, %s, %s, %s)",
        [worker, [c.run_id for c in claims], [c.lease for c in claims], lease_for],
    )
    return dict(await cursor.fetchall())


async def tick(conn: Connection) -> float | None:
    """Do what time has made due; return the seconds until something is due again."""
    row = await (await conn.execute("select agent_internal.tick()")).fetchone()
    return row[0] if row else None


async def begin_write(conn: Connection, claim: Claim, rest: float = 60.0) -> str:
    """Start a write-back transaction: fence the run, and tag the transaction as ours.

    Args:
        rest: seconds that it may rest before the server ends it.

    Returns:
        the transaction's id.
    """
    cursor = await conn.execute(
        "select pg_current_xact_id()::text,"
        "       set_config('idle_in_transaction_session_timeout', %s, true)"
        "  from agent_internal.begin_write(%s, %s)",
        [str(round(rest * 1000)), claim.run_id, claim.lease],
    )
    row = await cursor.fetchone()
    return row[0] if row else ""


async def prolong(conn: Connection, claim: Claim, seconds: float) -> None:
    """Let the time for which this transaction has held the run not count against its lease."""
    await conn.execute(
        "select agent_internal.extend_lease(%s, %s, %s)",
        [claim.run_id, claim.lease, timedelta(seconds=seconds)],
    )


async def become(conn: Connection, role: str, search_path: str) -> None:
    """Become an attachment's role for the rest of the transaction.

    Raises (as a PostgreSQL error, see `store.errors`):
        RoleRefusedError: it is gone, or we are no member of it any more.
    """
    await conn.execute("select agent_internal.assume_role(%s, %s)", [role, search_path])


async def clean_session(conn: Connection) -> str:
    """Forget what a tool has left in the session; return the id of the transaction we are in."""
    cursor = await conn.execute(
        "select coalesce(pg_current_xact_id_if_assigned()::text, '') from"
        " agent_internal.clean_session()"
    )
    row = await cursor.fetchone()
    return row[0] if row else ""


async def sees(  # noqa: PLR0913, PLR0917 - the function's arguments
    conn: Connection,
    role: str,
    relation: int,
    columns: Sequence[str] | None,
    question: str | None,
    key: Mapping[str, Json] | None,
) -> tuple[bool, bool]:
    """Ask whether *role* may be shown a row, and whether row level security had a say in that.

    Raises (as a PostgreSQL error, see `store.errors`):
        RoleRefusedError: it is gone, is not ours to take on, or may not read these columns.
    """
    cursor = await conn.execute(
        "select seen, row_security from agent_internal.row_visibility(%s, %s, %s, %s, %s)",
        [role, relation, columns, question, None if key is None else Jsonb(key)],
    )
    row = await cursor.fetchone()
    return (bool(row[0]), bool(row[1])) if row else (False, True)


async def register_worker(conn: Connection, name: str, slots: int, version: str) -> None:
    """Say that a worker is there."""
    await conn.execute(
        "insert into agent.worker (name, slots, version) values (%s, %s, %s)"
        " on conflict (name) do update set started_at = agent_internal.now(), seen_at ="
        " agent_internal.now(),"
        " slots = excluded.slots, version = excluded.version",
        [name, slots, version],
    )


async def release_runs(conn: Connection, worker: str) -> None:
    """Give back what a worker still holds, as if it had not been begun."""
    await conn.execute("select agent_internal.release_runs(%s)", [worker])


async def forget_worker(conn: Connection, name: str) -> None:
    """Say that a worker has left, and forget those that were not seen for a day."""
    await conn.execute(
        "delete from agent.worker where name = %s or seen_at < agent_internal.now() - interval"
        " '1 day'",
        [name],
    )


def _usage(usage: Usage | None) -> list[int] | None:
    if usage is None:
        return None
    return [
        usage.input_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
    ]
