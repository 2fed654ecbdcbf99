"""Questions and their sessions: ask, go on, remember."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.message import Json
from walagent.run import Claim, Step, StepKind

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in our hands.

    Args:
        claim: its run, with the steps that are recorded.
    """

    claim: Claim
    text: str
    options: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier question of a session and its answer."""

    question: str
    answer: Mapping[str, Any]


async def begin_question(  # noqa: PLR0913, PLR0917 - what, whose, and by whom
    conn: Connection,
    session: str,
    text: str,
    options: Mapping[str, Json],
    worker: str,
    lease: timedelta,
) -> Asked:
    """Ask a question and hold its run.

    Raises (as a PostgreSQL error, see `store.translate`):
        ConfigError: the session is somebody else's.
    """
    cursor = await conn.execute(
        "select run_id, lease from agent.begin_question(%s, %s, %s, %s, %s)",
        [session, text, Jsonb(options), worker, lease],
    )
    row = await cursor.fetchone()
    run_id, number = row or (0, 0)
    return Asked(await _claim(conn, run_id, number), text, options)


async def resume_question(
    conn: Connection, session: str, worker: str, lease: timedelta
) -> Asked | None:
    """Go on with the question of a session that nobody finished; None when there is none."""
    cursor = await conn.execute(
        "select run_id, lease, text, options from agent.resume_question(%s, %s, %s)",
        [session, worker, lease],
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    run_id, number, text, options = row
    return Asked(await _claim(conn, run_id, number), text, options)


async def _claim(conn: Connection, run_id: int, lease: int) -> Claim:
    cursor = await conn.execute(
        "select attempt, max_attempts, created_at, started_at from agent.run where id = %s",
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
        "select seq, kind, content, coalesce(input_tokens + cached_tokens + cache_write_tokens"
        " + output_tokens, 0), cost::float8 from agent.step where run_id = %s order by seq",
        [run_id],
    )
    return tuple(
        Step(seq, StepKind(kind), content, tokens, cost)
        for seq, kind, content, tokens, cost in await cursor.fetchall()
    )


async def keep_answer(conn: Connection, run_id: int, answer: Mapping[str, Json]) -> None:
    """Remember an answer with its question, in the transaction that ends the run."""
    await conn.execute(
        "update agent.question set answer = %s where run_id = %s", [Jsonb(answer), run_id]
    )


async def turns(conn: Connection, session: str, *, most: int = 50) -> Sequence[Turn]:
    """Give the answered questions of a session, oldest first, the last *most* of them."""
    cursor = await conn.execute(
        "select text, answer from (select q.id, q.text, q.answer from agent.question q"
        " join agent.session s on s.id = q.session_id"
        " where q.session_id = %s and s.owner = session_user and q.answer is not null"
        " order by q.id desc limit %s) latest order by id",
        [session, most],
    )
    return [Turn(text, answer) for text, answer in await cursor.fetchall()]


async def save_query(conn: Connection, question: str, sql: str) -> None:
    """Keep a statement that a person has found right, as an example for the planner."""
    await conn.execute(
        "insert into agent.verified_query (question, sql) values (%s, %s)"
        " on conflict on constraint one_statement_for_a_question"
        " do update set sql = excluded.sql, saved_at = agent.now()",
        [question, sql],
    )


async def similar_queries(
    conn: Connection, question: str, *, most: int = 5
) -> Sequence[tuple[str, str]]:
    """Find saved questions that share words with *question*, the nearest first, with their SQL."""
    cursor = await conn.execute(
        "select q.question, q.sql from agent.verified_query q,"
        " (select nullif(replace(plainto_tsquery('simple', %s)::text, '&', '|'), '')::tsquery)"
        " as a (w)"
        " where q.owner = session_user and q.words @@ a.w"
        " order by ts_rank(q.words, a.w) desc, q.id limit %s",
        [question, most],
    )
    return await cursor.fetchall()


async def terms(conn: Connection, question: str, *, most: int = 100) -> Sequence[tuple[str, str]]:
    """What words mean in this business: first those that *question* has, then the others."""
    cursor = await conn.execute(
        "select term, meaning from agent.glossary where owner = session_user"
        " order by position(lower(term) in lower(%s)) = 0, term limit %s",
        [question, most],
    )
    return await cursor.fetchall()
