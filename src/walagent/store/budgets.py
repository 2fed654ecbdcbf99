"""Budgets: load them, reserve the cost of a call, and report what is left."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.domain.run import Claim, RunSpec
from walagent.message import Json, Usage
from walagent.store.queries import query
from walagent.store.runs import Spent

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class BudgetScope:
    """The calls that a budget counts; None means any."""

    name: str
    agent: str | None
    attachment: str | None
    model: str | None
    counts_tokens: bool  # whether tokens are limited, so that free models count too

    def includes(self, run: RunSpec, model: str) -> bool:
        """Return whether calls of *model* by *run* count."""
        return (
            self.agent in {None, run.agent.name}
            and self.attachment in {None, run.source}
            and self.model in {None, model}
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A budget does not allow a call.

    `wait`: seconds until it does; None: never.  `raw` is for `wait_for_budget`.  What is left is
    None if a wait is short.
    """

    budget: str
    reason: str
    wait: float | None
    raw: Json
    left_cost: Decimal | None = None  # US dollars
    left_tokens: int | None = None

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        """Build from the result of agent_internal.reserve()."""
        kept = {key: value for key, value in raw.items() if not key.startswith("left_")}
        cost = raw.get("left_cost")
        return cls(
            raw["budget"],
            raw["reason"],
            raw.get("wait"),
            kept,
            None if cost is None else Decimal(str(cost)),
            raw.get("left_tokens"),
        )


async def load_scopes(conn: Connection) -> list[BudgetScope]:
    """Load the scopes of budgets, except those of questions, which check on their own."""
    cursor = await conn.execute(
        "select name, agent, attachment, model, max_tokens is not null from agent.budget"
        " where asker is null order by 1"
    )
    return [BudgetScope(*row) for row in await cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The most that a call can use: its model, tokens and US dollars (None: no price)."""

    model: str
    tokens: int
    cost: Decimal | None


async def reserve(conn: Connection, run: RunSpec, call: int, worst: WorstCase) -> Refusal | None:
    """Reserve what a call can use at most in every budget that counts it, or in none.

    Args:
        call: its number within the run.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: do not call the model; leave the run.
    """
    cursor = await conn.execute(
        "select agent_internal.reserve("
        " _run => %(run)s, _lease => %(lease)s, _call => %(call)s, _agent => %(agent)s,"
        " _attachment => %(attachment)s, _model => %(model)s, _tokens => %(tokens)s,"
        " _cost => %(cost)s::numeric)",
        {
            "run": run.run_id,
            "lease": run.claim.lease,
            "call": call,
            "agent": run.agent.name,
            "attachment": run.source,
            "model": worst.model,
            "tokens": worst.tokens,
            "cost": worst.cost,
        },
    )
    row = await cursor.fetchone()
    raw = row[0] if row else None
    return Refusal.from_json(raw) if raw else None


async def release_call(conn: Connection, claim: Claim, call: int) -> None:
    """Release the reservation of a call that has no reply and will not be repeated.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: leave the run.
    """
    await conn.execute(
        "select agent_internal.release_call(_run => %s, _lease => %s, _call => %s)",
        [claim.run_id, claim.lease, call],
    )


async def settle_unusable(
    conn: Connection, claim: Claim, call: int, usage: Usage, cost: Decimal | None
) -> None:
    """Settle the reservation of a call whose reply came and could not be used.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: leave the run.
    """
    counts = [usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens]
    await conn.execute(
        "select agent_internal.settle_unusable(_run => %(run)s, _lease => %(lease)s,"
        " _call => %(call)s, _usage => %(usage)s::integer[], _cost => %(cost)s::numeric)",
        {
            "run": claim.run_id,
            "lease": claim.lease,
            "call": call,
            "usage": [*counts, usage.output_tokens],
            "cost": cost,
        },
    )


async def wait_for_budget(conn: Connection, claim: Claim, refusal: Json, spent: Spent) -> None:
    """Release the run until its budget allows the call; this uses no attempt."""
    await conn.execute(
        "select agent_internal.wait_for_budget(_run => %(run)s, _lease => %(lease)s,"
        " _refusal => %(refusal)s, _tokens => %(tokens)s, _cost => %(cost)s::numeric)",
        {
            "run": claim.run_id,
            "lease": claim.lease,
            "refusal": Jsonb(refusal),
            "tokens": spent.tokens,
            "cost": spent.cost,
        },
    )


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """The use of a budget: spent and reserved parts of its scarcer limit."""

    name: str
    spent: float
    reserved: float
    waiting: int  # runs
    resets_at: str | None


Unpriced = tuple[str, str, str]  # budget, attachment, model


async def standings(conn: Connection) -> list[BudgetUsage]:
    """Return the use of each budget."""
    cursor = await conn.execute(query("budget_standings"))
    return [BudgetUsage(*row) for row in await cursor.fetchall()]


async def unpriced(conn: Connection) -> list[Unpriced]:
    """Return what budgets in US dollars reject because the model has no price."""
    cursor = await conn.execute(
        "select budget, attachment, model from agent.unpriced order by 1, 2"
    )
    return await cursor.fetchall()


async def orphaned_budgets(conn: Connection) -> list[tuple[str, str]]:
    """Return budgets whose agent, attachment, model or login does not exist, with its kind."""
    cursor = await conn.execute(query("orphaned_budgets"))
    return await cursor.fetchall()
