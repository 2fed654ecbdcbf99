"""A worker and the queue: register, claim runs, extend leases, release, leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from walagent.domain.run import Claim, Step, StepKind
from walagent.message import Json

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class ClaimScope:
    """The runs that a claim can take.

    Args:
        kinds: of runs.
        queue: only from this one; None: from all.
        run: only this run of the queue; None: any.
        limits: the maximum number of runs for queues that are limited to fewer than the slots.
    """

    kinds: Sequence[str] = ("agent",)
    queue: int | None = None
    run: int | None = None
    limits: Mapping[int, int] = field(default_factory=dict[int, int])


EVERYTHING: Final = ClaimScope()  # of the kind agent


@dataclass(slots=True)
class Turn:
    """What a worker remembers of its last claim: so turns of tenants and queues cost no write."""

    place: Json = field(default_factory=dict[str, Json])  # as agent_internal.claim_in_turn() has it
    more: bool = False  # whether the last claim left runs


async def claim_runs(  # noqa: PLR0913, PLR0917 - who, how many, and of what
    conn: Connection,
    worker: str,
    slots: int,
    lease_for: timedelta,
    scope: ClaimScope = EVERYTHING,
    turn: Turn | None = None,
) -> list[Claim]:
    """Claim up to *slots* runs.

    Args:
        turn: of the worker; it is brought forward.
    """
    turn = turn or Turn()
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        "select * from agent_internal.claim_runs(_worker => %(worker)s, _slots => %(slots)s,"
        " _lease => %(lease)s, _kinds => %(kinds)s, _queue => %(queue)s, _run => %(run)s,"
        " _limited => %(limited)s, _limits => %(limits)s, _turn => %(turn)s)",
        {
            "worker": worker,
            "slots": slots,
            "lease": lease_for,
            "kinds": list(scope.kinds),
            "queue": scope.queue,
            "run": scope.run,
            "limited": list(scope.limits),
            "limits": list(scope.limits.values()),
            "turn": Jsonb(turn.place),
        },
    )
    rows = await cursor.fetchall()
    turn.more = False
    for row in rows:
        turn.more, turn.place = row.pop("more"), row.pop("turn")
    return [_claim(row) for row in rows]


def _claim(row: dict[str, Any]) -> Claim:
    merged, steps = row.pop("merged"), row.pop("steps")
    row["attachment_id"] = row["attachment_id"] or 0  # a question has none
    row["attachment_version"] = row["attachment_version"] or 0
    return Claim(
        **row, merged=tuple(merged or ()), steps=tuple(_step(step) for step in steps or ())
    )


def _step(raw: dict[str, Any]) -> Step:
    kind, cost = StepKind(raw["kind"]), raw["cost"]
    return Step(raw["seq"], kind, raw["content"], raw["tokens"], cost and float(cost))


async def heartbeat(
    conn: Connection, worker: str, claims: Sequence[Claim], lease_for: timedelta
) -> dict[int, bool]:
    """Extend the leases of *claims*.

    Returns:
        The runs to stop; True: cancelled, False: another worker holds it.
    """
    cursor = await conn.execute(
        "select * from agent_internal.heartbeat(_worker => %(worker)s, _runs => %(runs)s,"
        " _leases => %(leases)s, _lease => %(lease)s)",
        {
            "worker": worker,
            "runs": [claim.run_id for claim in claims],
            "leases": [claim.lease for claim in claims],
            "lease": lease_for,
        },
    )
    return dict(await cursor.fetchall())


@dataclass(frozen=True, slots=True)
class Tick:
    """What a tick came to.

    Args:
        done: False: another transaction ticks.
        due: seconds until something is due again; None: nothing is known to be.
        ready: whether a run might be there to claim.
    """

    done: bool
    due: float | None
    ready: bool


async def tick(conn: Connection) -> Tick:
    """Perform what is due."""
    cursor = await conn.execute("select done, due, ready from agent_internal.tick()")
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - a function with OUT parameters returns one row
    return Tick(*row)


async def register_worker(conn: Connection, name: str, slots: int, version: str) -> None:
    """Register a worker."""
    await conn.execute(
        "insert into agent.worker (name, slots, version)"
        " values (%(name)s, %(slots)s, %(version)s)"
        " on conflict (name) do update set started_at = agent_internal.now(),"
        " seen_at = agent_internal.now(), slots = excluded.slots, version = excluded.version",
        {"name": name, "slots": slots, "version": version},
    )


async def release_runs(conn: Connection, worker: str) -> None:
    """Release all runs of a worker, as if it had not started them."""
    await conn.execute(
        "select agent_internal.release_runs(_worker => %(worker)s)", {"worker": worker}
    )


async def forget_worker(conn: Connection, name: str) -> None:
    """Remove a worker, and all that were not seen for a day."""
    await conn.execute(
        "delete from agent.worker"
        " where name = %(name)s or seen_at < agent_internal.now() - interval '1 day'",
        {"name": name},
    )
