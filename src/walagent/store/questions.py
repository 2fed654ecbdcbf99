"""Questions and their sessions: ask, go on, remember.

A login that asks may do nothing to a run but what the functions for questions let it do to its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.message import Json
from walagent.run import Claim, RunState, Step, StepKind
from walagent.store.budgets import Refusal
from walagent.store.codecs.lossy import ToldJson, ToldText
from walagent.store.runs import NewStep, Spent

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in our hands.

    Args:
        claim: its run, with the steps that are recorded.
    """

    id: int
    claim: Claim
    text: str
    options: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier question of a session and its answer."""

    id: int
    question: str
    answer: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Past:
    """What was asked in a session before.

    Args:
        summary: of the turns that are too many to be told one by one; "" where all are here.
        turns: those after it, oldest first.
    """

    summary: str = ""
    turns: Sequence[Turn] = ()


async def begin_question(  # noqa: PLR0913, PLR0917 - what, whose, and by whom
    conn: Connection,
    session: str,
    text: str,
    options: Mapping[str, Json],
    worker: str,
    lease: timedelta,
) -> Asked:
    """Ask a question and hold its run.

    Raises (as a PostgreSQL error, see `store.errors`):
        ConfigError: the session is somebody else's.
    """
    cursor = await conn.execute(
        "select run_id, lease, question_id from agent_internal.begin_question(%s, %s, %s, %s, %s)",
        [session, text, Jsonb(options), worker, lease],
    )
    row = await cursor.fetchone()
    run_id, number, question = row or (0, 0, 0)
    return Asked(question, await _claim(conn, run_id, number), text, options)


async def resume_question(
    conn: Connection, session: str, worker: str, lease: timedelta
) -> Asked | None:
    """Go on with the question of a session that nobody finished; None when there is none."""
    cursor = await conn.execute(
        "select run_id, lease, question_id, text, options from"
        " agent_internal.resume_question(%s, %s, %s)",
        [session, worker, lease],
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    run_id, number, question, text, options = row
    return Asked(question, await _claim(conn, run_id, number), text, options)


async def question_under_way(conn: Connection, session: str) -> float | None:
    """Say for how many seconds a question of the session is somebody's yet; None: nobody's."""
    cursor = await conn.execute("select agent_internal.question_under_way(%s)", [session])
    row = await cursor.fetchone()
    return None if row is None or row[0] is None else max(row[0], 0.0)


async def _claim(conn: Connection, run_id: int, lease: int) -> Claim:
    cursor = await conn.execute(
        "select attempt, max_attempts, created_at, started_at from agent_internal.question_run(%s)",
        [run_id],
    )
    row = await cursor.fetchone()
    assert row is not None, run_id  # noqa: S101 - we hold it
    attempt, most, created, started = row
    return Claim(
        run_id=run_id,
        attachment_id=0,
        attachment_version=0,
        lease=lease,
        attempt=attempt,
        max_attempts=most,
        reason="question",
        change={},
        key=None,
        depth=0,
        commit_lsn=None,
        committed_at=None,
        created_at=created,
        started_at=started,
        steps=await _steps(conn, run_id),
    )


async def _steps(conn: Connection, run_id: int) -> tuple[Step, ...]:
    cursor = await conn.execute(
        "select seq, kind, content, tokens, cost from agent_internal.question_steps(%s)", [run_id]
    )
    return tuple(
        Step(seq, StepKind(kind), content, tokens, cost)
        for seq, kind, content, tokens, cost in await cursor.fetchall()
    )


async def hold_question(conn: Connection, worker: str, claim: Claim, lease: timedelta) -> bool:
    """Extend the lease; False: the question was cancelled, or another process has it."""
    cursor = await conn.execute(
        "select agent_internal.hold_question(%s, %s, %s, %s)",
        [claim.run_id, claim.lease, worker, lease],
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def reserve(
    conn: Connection, claim: Claim, model: str, tokens: int, cost: Decimal | None
) -> tuple[int, Refusal | None]:
    """Reserve what a call can take at most, in every budget that counts it, or in none.

    Returns:
        the number of the call, for `record_step`, and why it may not be made, if it may not.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: ask nothing, leave the run.
    """
    cursor = await conn.execute(
        "select call, refusal from agent_internal.reserve_for_question(%s, %s, %s, %s,"
        " %s::numeric)",
        [claim.run_id, claim.lease, model, tokens, cost],
    )
    number, raw = await cursor.fetchone() or (0, None)
    return number, raw and Refusal(raw["budget"], raw["reason"], raw.get("wait"), raw)


async def record_step(
    conn: Connection, claim: Claim, step: NewStep, call: int | None = None
) -> None:
    """Record a step.

    Args:
        call: as `reserve` gave it, where the step is a model's reply; it is settled.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError, StepTakenError: leave the run.
    """
    await conn.execute(
        "select agent_internal.record_question_step(%s, %s, %s, %s, %s, %s, %s::numeric, %s, %s)",
        [claim.run_id, claim.lease, *step.values, call],
    )


async def park_question(
    conn: Connection,
    claim: Claim,
    spent: Spent,
    *,
    reason: str = "",
    refusal: Mapping[str, Json] | None = None,
) -> None:
    """Let a question wait until its session goes on.

    Args:
        refusal: of a budget that it waits for.
    """
    await conn.execute(
        "select agent_internal.park_question(%s, %s, %s, %s, %s, %s::numeric)",
        [
            claim.run_id,
            claim.lease,
            ToldJson({"reason": reason}),
            None if refusal is None else Jsonb(refusal),
            spent.tokens,
            spent.cost,
        ],
    )


async def end_question(  # noqa: PLR0913 - a row's columns
    conn: Connection,
    claim: Claim,
    state: RunState,
    spent: Spent,
    *,
    result: str | None = None,
    reason: str | None = None,
    answer: Mapping[str, Json] | None = None,
) -> None:
    """End the run of a question, and keep its answer with it, which outlives the run."""
    await conn.execute(
        "select agent_internal.end_question(%s, %s, %s, %s, %s, %s, %s::numeric, %s)",
        [
            claim.run_id,
            claim.lease,
            state.value,
            None if result is None else ToldText(result),
            None if reason is None else ToldJson({"reason": reason}),
            spent.tokens,
            spent.cost,
            None if answer is None else ToldJson(answer),
        ],
    )


async def past(conn: Connection, session: str, *, most: int = 200) -> Past:
    """Give what was asked in a session before: its summary, and the last *most* turns after it."""
    cursor = await conn.execute(
        "select summary, summary_upto from agent.session where id = %s and owner = session_user",
        [session],
    )
    summary, upto = await cursor.fetchone() or (None, None)
    cursor = await conn.execute(
        "select id, text, answer from (select q.id, q.text, q.answer from agent.question q"
        " join agent.session s on s.id = q.session_id"
        " where q.session_id = %s and s.owner = session_user and q.answer is not null"
        " and q.id > %s order by q.id desc limit %s) latest order by id",
        [session, upto or 0, most],
    )
    return Past(summary or "", [Turn(*row) for row in await cursor.fetchall()])


async def asked_before(conn: Connection, session: str, *, most: int = 1000) -> Sequence[str]:
    """Give the answered questions of a session, oldest first, the last *most* of them."""
    cursor = await conn.execute(
        "select text from (select q.id, q.text from agent.question q"
        " join agent.session s on s.id = q.session_id"
        " where q.session_id = %s and s.owner = session_user and q.answer is not null"
        " order by q.id desc limit %s) latest order by id",
        [session, most],
    )
    return [text for (text,) in await cursor.fetchall()]


async def keep_summary(conn: Connection, session: str, summary: str, upto: int) -> None:
    """Keep what was asked and found in a session, up to a question; never moves backwards."""
    await conn.execute(
        "update agent.session set summary = %s, summary_upto = %s"
        " where id = %s and owner = session_user and coalesce(summary_upto, 0) < %s",
        [ToldText(summary), upto, session, upto],
    )


async def save_query(conn: Connection, question: str, sql: str) -> None:
    """Keep a statement that a person has found right, as an example for the planner."""
    await conn.execute(
        "insert into agent.verified_query (question, sql) values (%s, %s)"
        " on conflict on constraint one_statement_for_a_question"
        " do update set sql = excluded.sql, saved_at = agent_internal.now()",
        [question, sql],
    )


async def similar_queries(
    conn: Connection, question: str, *, most: int = 5
) -> Sequence[tuple[str, str]]:
    """Find saved questions that share words with *question*, the nearest first, with their SQL.

    Saved by this login, or for a role that it is a member of.
    """
    cursor = await conn.execute(
        "select q.question, q.sql from agent.verified_query q,"
        " (select nullif(replace(plainto_tsquery('simple', %s)::text, '&', '|'), '')::tsquery)"
        " as a (w)"
        " where q.words @@ a.w and agent_internal.is_member_of(q.owner)"
        " order by ts_rank(q.words, a.w) desc, q.owner <> session_user, q.id limit %s",
        [question, most],
    )
    return await cursor.fetchall()


async def terms(conn: Connection, question: str, *, most: int = 100) -> Sequence[tuple[str, str]]:
    """What words mean in this business: first those that *question* has, then the others.

    As this login says, or a role that it is a member of.
    """
    cursor = await conn.execute(
        "select term, meaning from (select distinct on (term) term, meaning from agent.glossary"
        " where agent_internal.is_member_of(owner) order by term, owner <> session_user) known"
        " order by position(lower(term) in lower(%s)) = 0, term limit %s",
        [question, most],
    )
    return await cursor.fetchall()
