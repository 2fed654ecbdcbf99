"""Batches of a provider: the calls of runs that wait for one, and what came of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Self

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.domain.batch import BatchCall
from walagent.domain.run import Claim
from walagent.message import Json
from walagent.store.codecs.lossy import LossyJson
from walagent.store.runs import Spent

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that is about to wait for a batch.

    Args:
        seq: of the step that will have the reply.
        call: number of its reservation; None: no budget counts it.
        model: the label of the model.
        body: of the request, as it is sent: JSON in ASCII.
    """

    seq: int
    call: int | None
    model: str
    model_id: str
    body: str


@dataclass(frozen=True, slots=True)
class FromBatch:
    """What a batch has for a call.

    Args:
        batch: its ID; None: not formed yet.
        answer: of the provider, as JSON; None: it gave no reply.
        why: why there is no answer, and the call is made directly.
        wait: seconds for which the run was released; it has neither then.
    """

    batch: int | None
    answer: str | None
    why: str
    wait: float

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        """Build from the result of agent_internal.batch_reply()."""
        return cls(
            raw.get("batch"), raw.get("answer"), raw.get("why", ""), float(raw.get("wait", 0))
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that this process has claimed.

    Args:
        model: the label of its model.
        provider_id: at the provider; None: it is not known to be there.
        tried_at: when it was first about to be submitted; None: never.
        attempts: looks at it since its state changed.
        overdue: whether no provider has it any more.
    """

    id: int
    tenant: str
    model: str
    model_id: str
    provider_id: str | None
    items: int
    formed_at: datetime
    tried_at: datetime | None
    attempts: int
    lease: int
    overdue: bool


async def await_batch(conn: Connection, claim: Claim, waiting: Waiting, spent: Spent) -> None:
    """Release a run until its call has a reply.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: leave the run.
    """
    await conn.execute(
        "select agent_internal.await_batch(_run => %(run)s, _lease => %(lease)s, _seq => %(seq)s,"
        " _call => %(call)s, _model => %(model)s, _model_id => %(model_id)s, _body => %(body)s,"
        " _tokens => %(tokens)s, _cost => %(cost)s::numeric)",
        {
            "run": claim.run_id,
            "lease": claim.lease,
            "seq": waiting.seq,
            "call": waiting.call,
            "model": waiting.model,
            "model_id": waiting.model_id,
            "body": waiting.body,
            "tokens": spent.tokens,
            "cost": spent.cost,
        },
    )


async def batch_reply(conn: Connection, claim: Claim, seq: int, spent: Spent) -> FromBatch | None:
    """Return what a batch has for a call; None: the call did not wait for one.

    Raises: as `await_batch`.
    """
    cursor = await conn.execute(
        "select agent_internal.batch_reply(_run => %s, _lease => %s, _seq => %s, _tokens => %s,"
        " _cost => %s::numeric)",
        [claim.run_id, claim.lease, seq, spent.tokens, spent.cost],
    )
    row = await cursor.fetchone()
    return FromBatch.from_json(row[0]) if row and row[0] else None


async def end_item(conn: Connection, run_id: int, seq: int) -> None:
    """Forget the reply to a call that is a step now."""
    await conn.execute("select agent_internal.end_item(_run => %s, _seq => %s)", [run_id, seq])


async def form_batches(
    conn: Connection, items: int, size: int, wait: timedelta
) -> tuple[int, bool]:
    """Make batches of the calls that wait, and let runs go on that have a reply.

    Args:
        items, size: the most calls of a batch, and bytes of them.
        wait: how long the first of them waits for others.

    Returns:
        How many were made, and whether a batch has not ended, or a call waits to be in one.
    """
    cursor = await conn.execute(
        "select f.formed, f.is_open, agent_internal.wake_replied()"
        " from agent_internal.form_batches(_items => %s, _bytes => %s, _wait => %s) f",
        [items, size, wait],
    )
    formed, is_open, _ = await cursor.fetchone() or (0, False, 0)
    return formed, is_open


async def claim_batch(conn: Connection, lease: timedelta) -> Batch | None:
    """Claim a batch that is due; None: no batch is."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        "select id, tenant, model, model_id, provider_id, items, formed_at, tried_at, attempts,"
        " lease, agent_internal.now() - formed_at > agent_internal.longest_batch() as overdue"
        " from agent_internal.claim_batch(_lease => %s) where id is not null",
        [lease],
    )
    row = await cursor.fetchone()
    return None if row is None else Batch(**row)


async def hold_batch(conn: Connection, batch: Batch, lease: timedelta) -> None:
    """Extend the lease of a batch.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError: another process has it.
    """
    await conn.execute(
        "select agent_internal.hold_batch(_batch => %s, _lease => %s, _extend => %s)",
        [batch.id, batch.lease, lease],
    )


async def begin_batch(conn: Connection, batch: Batch) -> list[BatchCall]:
    """Return the calls of a batch that is about to be submitted; raises as `hold_batch`."""
    cursor = await conn.execute(
        "select custom_id, body from agent_internal.begin_batch(_batch => %s, _lease => %s)",
        [batch.id, batch.lease],
    )
    return [BatchCall(*row) for row in await cursor.fetchall()]


async def submit_batch(conn: Connection, batch: Batch, provider_id: str, seconds: float) -> None:
    """Record that the provider has a batch; raises as `hold_batch`.

    Args:
        seconds: until it is looked at.
    """
    await conn.execute(
        "select agent_internal.submit_batch(_batch => %s, _lease => %s, _provider_id => %s,"
        " _seconds => %s)",
        [batch.id, batch.lease, provider_id, seconds],
    )


async def postpone_batch(
    conn: Connection, batch: Batch, seconds: float, error: str | None = None
) -> None:
    """Release a batch for some seconds; raises as `hold_batch`."""
    await conn.execute(
        "select agent_internal.postpone_batch(_batch => %s, _lease => %s, _seconds => %s,"
        " _error => %s)",
        [batch.id, batch.lease, seconds, error],
    )


@dataclass(frozen=True, slots=True)
class BatchReply:
    """A result of a batch.

    Args:
        answer: JSON in ASCII; None: it has no reply that can be used.
        usage: tokens of each kind, as a step has them; None: nothing is charged.
        cost: US dollars; None: not known.
    """

    custom_id: str
    answer: str | None
    why: str
    usage: Sequence[int] | None
    cost: Decimal | None

    @property
    def document(self) -> Mapping[str, Json]:
        """As agent_internal.store_replies() takes it."""
        return {
            "custom_id": self.custom_id,
            "answer": self.answer,
            "why": self.why or None,
            "usage": self.usage,
            "cost": None if self.cost is None else float(self.cost),
        }


async def store_replies(conn: Connection, batch: Batch, replies: Sequence[BatchReply]) -> None:
    """Store results, and let their runs go on; raises as `hold_batch`."""
    await conn.execute(
        "select agent_internal.store_replies(_batch => %s, _lease => %s, _replies => %s)",
        [batch.id, batch.lease, LossyJson([each.document for each in replies])],
    )


async def end_batch(
    conn: Connection, batch: Batch, why: str, *, charged: bool = False, full: bool = False
) -> None:
    """End a batch: calls without a reply are made directly; raises as `hold_batch`.

    Args:
        charged: whether they may have been answered.
        full: whether the provider has no room: then they wait for smaller batches.
    """
    await conn.execute(
        "select agent_internal.end_batch(_batch => %s, _lease => %s, _why => %s, _charged => %s,"
        " _full => %s)",
        [batch.id, batch.lease, why, charged, full],
    )
