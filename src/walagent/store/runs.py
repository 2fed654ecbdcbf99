"""A claimed run: record its steps, wait, end.  Each function is one statement of one round trip."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from walagent.domain.run import Claim, RunState, Step, StepKind
from walagent.message import Json, ToolCall, Usage
from walagent.store.codecs.lossy import LossyJson, LossyText

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
    def document(self) -> dict[str, Json]:
        """The step as agent_internal.run_record has it."""
        return {
            "seq": self.seq,
            "kind": self.kind.value,
            "content": self.content,
            "usage": _usage(self.usage),
            "step_cost": self.cost,
            "duration_ms": self.duration_ms,
        }

    @property
    def values(self) -> dict[str, Any]:
        """The same as parameters of a statement."""
        return {**self.document, "content": LossyJson(self.content)}

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


async def take_request(conn: Connection, claim: Claim, rates: Mapping[str, int]) -> float | None:
    """Count one request in each of *rates*, or in none; return the seconds to wait, else None.

    Args:
        rates: requests per minute, by counter.
    """
    cursor = await conn.execute(
        "select agent_internal.take_request(_run => %(run)s, _lease => %(lease)s,"
        " _names => %(names)s, _limits => %(limits)s)",
        {**_held(claim), "names": list(rates), "limits": list(rates.values())},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def record_step(
    conn: Connection,
    claim: Claim,
    step: NewStep,
    *,
    reserved: bool = False,
    call: int | None = None,
) -> None:
    """Record a step, in the transaction of its effects.

    Args:
        reserved: whether budgets might have a reservation for the step's call, to be settled.
        call: the number of that reservation; None: the step's own.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: roll back and leave the run.
        StepTakenError: the step is recorded already; roll back, its effects are done.
    """
    await conn.execute(
        "select agent_internal.record_step(_run => %(run)s, _lease => %(lease)s, _seq => %(seq)s,"
        " _kind => %(kind)s, _content => %(content)s, _usage => %(usage)s,"
        " _cost => %(step_cost)s::numeric, _duration_ms => %(duration_ms)s, _call => %(call)s)",
        {**_held(claim), **step.values, "call": _call(step, reserved, call)},
    )


@dataclass(frozen=True, slots=True)
class Record:
    """What one transaction records of a run: a step, the run's end, or both.

    Args:
        state: in which the run ends; None: it continues.
        last: the step, if there is one.
        reserved: whether budgets might have a reservation for the call of *last*, or for a failed
            one.
        call: the number of that reservation; None: the step's own.
    """

    claim: Claim
    state: RunState | None
    spent: Spent
    result: str | None = None
    error: Mapping[str, Json] | None = None
    last: NewStep | None = None
    reserved: bool = False
    call: int | None = None

    @property
    def document(self) -> dict[str, Json]:
        """Encode the record as agent_internal.run_record."""
        document: dict[str, Json] = {
            **_held(self.claim),
            "state": self.state and self.state.value,
            "result": self.result,
            "error": self.error,
            "tokens": self.spent.tokens,
            "cost": self.spent.cost,
        }
        if self.last is not None:
            document |= self.last.document
        return document


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """The result of a `Record`: whether another run waited for the end, or why it failed."""

    run_id: int
    unblocked: bool
    failed: str | None  # SQLSTATE, as from `record`


async def record_many(conn: Connection, records: Sequence[Record]) -> list[RecordOutcome]:
    """Record for many runs in one statement; each run occurs once, and none has a reservation.

    A record that fails leaves its run unchanged; `record` raises the reason, or waits for a lock
    that would hold up the others here.  A value that the database cannot parse fails all of them.
    """
    assert not any(each.reserved for each in records)  # noqa: S101 - it would never be settled
    cursor = await conn.execute(
        "select run_id, unblocked, failed from agent_internal.record_many(_records => %(records)s)",
        {"records": LossyJson([each.document for each in records])},
    )
    return [RecordOutcome(*row) for row in await cursor.fetchall()]


async def record(conn: Connection, what: Record) -> bool:
    """Record for one run; return whether another run of its ordering key waited for its end.

    Raises the errors of `record_step`.
    """
    if what.state is not None:
        return await finish_run(
            conn,
            what.claim,
            what.state,
            result=what.result,
            error=what.error,
            spent=what.spent,
            last=what.last,
            reserved=what.reserved,
        )
    if what.last is not None:
        await record_step(conn, what.claim, what.last, reserved=what.reserved, call=what.call)
    return False


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
    """End a run, together with its last step if that is not recorded yet.

    Args:
        reserved: whether budgets might have a reservation for the call of *last*, or a failed one.

    Returns:
        Whether another run of its ordering key waited for it.
    """
    end = {
        **_held(claim),
        "state": state.value,
        "result": None if result is None else LossyText(result),
        "error": None if error is None else LossyJson(error),
        "tokens": spent.tokens,
        "cost": spent.cost,
    }
    if last is None:
        cursor = await conn.execute(
            "select agent_internal.finish_run(_run => %(run)s, _lease => %(lease)s,"
            " _state => %(state)s, _result => %(result)s, _error => %(error)s,"
            " _tokens => %(tokens)s, _cost => %(cost)s::numeric, _reserved => %(reserved)s)",
            {**end, "reserved": reserved},
        )
    else:
        cursor = await conn.execute(
            "select agent_internal.finish_with_step(_run => %(run)s, _lease => %(lease)s,"
            " _seq => %(seq)s, _kind => %(kind)s, _content => %(content)s, _usage => %(usage)s,"
            " _step_cost => %(step_cost)s::numeric, _duration_ms => %(duration_ms)s,"
            " _state => %(state)s, _result => %(result)s, _error => %(error)s,"
            " _tokens => %(tokens)s, _cost => %(cost)s::numeric, _call => %(call)s)",
            {**end, **last.values, "call": _call(last, reserved, None)},
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
    """Release a run without ending it.

    Args:
        delay: seconds until the next attempt, for `waiting_retry`.
        refund: do not count the attempt.
        reserved: whether budgets might have a reservation for a failed call.
    """
    await conn.execute(
        "select agent_internal.park_run(_run => %(run)s, _lease => %(lease)s, _state => %(state)s,"
        " _delay => %(delay)s, _refund => %(refund)s, _error => %(error)s, _tokens => %(tokens)s,"
        " _cost => %(cost)s::numeric, _reserved => %(reserved)s)",
        {
            **_held(claim),
            "state": state.value,
            "delay": timedelta(seconds=delay),
            "refund": refund,
            "error": None if error is None else LossyJson(error),
            "tokens": spent.tokens,
            "cost": spent.cost,
            "reserved": reserved,
        },
    )


async def ask_approval(  # noqa: PLR0913, PLR0917 - a row's columns
    conn: Connection, claim: Claim, seq: int, call: ToolCall, run_as: str, ttl: float, spent: Spent
) -> int:
    """Request approval of *call* and release the run.

    Args:
        ttl: seconds until the request expires.

    Returns:
        The approval's ID.
    """
    cursor = await conn.execute(
        "select agent_internal.ask_approval(_run => %(run)s, _lease => %(lease)s, _seq => %(seq)s,"
        " _call_id => %(call_id)s, _tool => %(tool)s, _arguments => %(arguments)s,"
        " _run_as => %(run_as)s, _ttl => %(ttl)s, _tokens => %(tokens)s,"
        " _cost => %(cost)s::numeric)",
        {
            **_held(claim),
            "seq": seq,
            "call_id": call.id,
            "tool": call.name,
            "arguments": LossyJson(call.arguments),
            "run_as": run_as,
            "ttl": timedelta(seconds=ttl),
            "tokens": spent.tokens,
            "cost": spent.cost,
        },
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


async def refused_by_grants(
    conn: Connection, claim: Claim, call: ToolCall
) -> Mapping[str, Json] | None:
    """Return the result of a call that needs no person's answer: grants refuse it."""
    cursor = await conn.execute(
        "select agent_internal.refused_by_grants(_run_id => %s, _call_id => %s, _name => %s,"
        " _arguments => %s)",
        (claim.run_id, call.id, call.name, LossyJson(call.arguments)),
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def is_approved(conn: Connection, claim: Claim, call: ToolCall) -> bool:
    """Return whether *call* is approved, with exactly these arguments."""
    cursor = await conn.execute(
        "select exists (select from agent.approval a"
        " where a.run_id = %(run)s and a.call_id = %(call)s and a.state = 'approved'"
        " and coalesce(a.edited_digest, a.digest) = agent_internal.call_digest("
        "_run => a.run_id, _call_id => a.call_id, _tool => %(tool)s, _arguments => %(arguments)s))",
        {
            "run": claim.run_id,
            "call": call.id,
            "tool": call.name,
            "arguments": LossyJson(call.arguments),
        },
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def later_run(conn: Connection, claim: Claim) -> int | None:
    """Return the run of a later change of the same row that waits for this one; None: none does.

    Not one whose change is not evaluated yet, nor one of a backfill, which may have read the row
    before.
    """
    cursor = await conn.execute(
        "select r.id from agent.run own join agent.run r"
        "    on r.queue_id = own.queue_id and r.ordering_key = own.ordering_key"
        "   and r.id + 0 > own.id and r.attachment_id = own.attachment_id and r.key = own.key"
        " where own.id = %s and r.state = 'pending' and r.reason = 'change'"
        "   and not r.change ? 'deferred'"
        " order by r.id + 0 limit 1",
        [claim.run_id],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


def _held(claim: Claim) -> dict[str, Json]:
    return {"run": claim.run_id, "lease": claim.lease}


def _call(step: NewStep, reserved: bool, call: int | None) -> int | None:  # noqa: FBT001
    """Return the number of the call that a step settles; None if none."""
    return step.seq if reserved and call is None else call


def _usage(usage: Usage | None) -> list[int] | None:
    if usage is None:
        return None
    return [
        usage.input_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
    ]
