"""Questions and their sessions: ask, continue, remember.

A question is a run: once claimed, it is held, recorded and ended as any other (`store.runs`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.message import Json
from walagent.run import Claim
from walagent.store.codecs.lossy import ToldJson, ToldText
from walagent.store.runs import ClaimScope, claim_runs

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


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A session's question that is to be claimed.

    Args:
        run_id: its run; None: a process holds it.
        wait: for so many seconds, unless that process extends its lease; else None.
    """

    run_id: int | None
    queue_id: int
    wait: float | None = None


async def ask(conn: Connection, session: str, text: str, options: Mapping[str, Json]) -> Unfinished:
    """Ask a question; `claim_question` begins to work on it.

    Raises (as a PostgreSQL error, see `store.errors`):
        ConfigError: the session is somebody else's.
    """
    cursor = await conn.execute(
        "select run_id, queue_id from agent_internal.ask(_session => %(session)s,"
        " _question => %(question)s, _options => %(options)s)",
        {"session": session, "question": text, "options": Jsonb(options)},
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - it returns one row, or raises
    return Unfinished(*row)


async def resume_session(conn: Connection, session: str) -> Unfinished | None:
    """Let the latest unfinished question of a session be claimed; None when there is none."""
    cursor = await conn.execute(
        "select run_id, queue_id, wait from agent_internal.resume_session(_session => %(session)s)",
        {"session": session},
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    run_id, queue_id, wait = row
    return Unfinished(run_id, queue_id, None if wait is None else max(wait, 0.0))


async def claim_question(
    conn: Connection, question: Unfinished, worker: str, lease: timedelta
) -> Asked | None:
    """Claim a question of this login; None when somebody else was faster."""
    scope = ClaimScope(("question",), question.queue_id, question.run_id)
    claims, _ = await claim_runs(conn, worker, 1, lease, scope=scope)
    return asked_by(claims[0]) if claims else None


def asked_by(claim: Claim) -> Asked:
    """Give the question that a claimed run answers."""
    question = claim.question or {}
    return Asked(question["id"], claim, question["text"], question["options"])


async def keep_answer(conn: Connection, question_id: int, answer: Mapping[str, Json]) -> None:
    """Keep the answer of a question, which outlives its run, in the transaction that ends it."""
    await conn.execute(
        "update agent.question set answer = %(answer)s where id = %(id)s",
        {"answer": ToldJson(answer), "id": question_id},
    )


async def past(conn: Connection, session: str, *, most: int = 200) -> Past:
    """Give what was asked in a session before: its summary, and the last *most* turns after it."""
    cursor = await conn.execute(
        "select summary, summary_upto from agent.session"
        " where id = %s and owner = agent.current_principal()",
        [session],
    )
    summary, upto = await cursor.fetchone() or (None, None)
    cursor = await conn.execute(
        "select id, text, answer from (select q.id, q.text, q.answer from agent.question q"
        " join agent.session s on s.id = q.session_id"
        " where q.session_id = %s and s.owner = agent.current_principal() and q.answer is not null"
        " and q.id > %s order by q.id desc limit %s) latest order by id",
        [session, upto or 0, most],
    )
    return Past(summary or "", [Turn(*row) for row in await cursor.fetchall()])


async def asked_before(conn: Connection, session: str, *, most: int = 1000) -> Sequence[str]:
    """Give the answered questions of a session, oldest first, the last *most* of them."""
    cursor = await conn.execute(
        "select text from (select q.id, q.text from agent.question q"
        " join agent.session s on s.id = q.session_id"
        " where q.session_id = %s and s.owner = agent.current_principal() and q.answer is not null"
        " order by q.id desc limit %s) latest order by id",
        [session, most],
    )
    return [text for (text,) in await cursor.fetchall()]


async def keep_summary(conn: Connection, session: str, summary: str, upto: int) -> None:
    """Keep what was asked and found in a session, up to a question; never moves backwards."""
    await conn.execute(
        "update agent.session set summary = %s, summary_upto = %s"
        " where id = %s and owner = agent.current_principal() and coalesce(summary_upto, 0) < %s",
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
        " order by ts_rank(q.words, a.w) desc, q.owner <> agent.current_principal(), q.id limit %s",
        [question, most],
    )
    return await cursor.fetchall()


async def terms(conn: Connection, question: str, *, most: int = 100) -> Sequence[tuple[str, str]]:
    """What words mean in this business: first those that *question* has, then the others.

    As this login says, or a role that it is a member of.
    """
    cursor = await conn.execute(
        "select term, meaning from (select distinct on (term) term, meaning from agent.glossary"
        " where agent_internal.is_member_of(owner)"
        " order by term, owner <> agent.current_principal()) known"
        " order by position(lower(term) in lower(%s)) = 0, term limit %s",
        [question, most],
    )
    return await cursor.fetchall()
