"""Questions and their sessions: ask, continue, summarize.

A question is a run: once claimed, it is executed like any other (`store.runs`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.domain.run import Claim
from walagent.message import Json
from walagent.store.claiming import ClaimScope, claim_runs
from walagent.store.codecs.lossy import LossyJson, LossyText

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class ClaimedQuestion:
    """A question that this process has claimed.

    Args:
        claim: its run, with the recorded steps.
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
class SessionHistory:
    """The earlier questions of a session.

    Args:
        summary: of the turns that are too many to send in full; "" if none are.
        turns: the later ones, oldest first.
    """

    summary: str = ""
    turns: Sequence[Turn] = ()


@dataclass(frozen=True, slots=True)
class UnfinishedQuestion:
    """A session's question that can be claimed.

    Args:
        run_id: its run; None: a process holds it.
        wait: seconds until that process's lease expires, unless extended; else None.
    """

    run_id: int | None
    queue_id: int
    wait: float | None = None


async def ask(
    conn: Connection, session: str, text: str, options: Mapping[str, Json]
) -> UnfinishedQuestion:
    """Ask a question; `claim_question` starts its execution.

    Raises (as a PostgreSQL error, see `store.errors`):
        ConfigError: the session belongs to another user.
    """
    cursor = await conn.execute(
        "select run_id, queue_id from agent_internal.ask(_session => %(session)s,"
        " _question => %(question)s, _options => %(options)s)",
        {"session": session, "question": text, "options": Jsonb(options)},
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - it returns one row, or raises
    return UnfinishedQuestion(*row)


async def resume_session(conn: Connection, session: str) -> UnfinishedQuestion | None:
    """Make the latest unfinished question of a session claimable; None if it has none."""
    cursor = await conn.execute(
        "select run_id, queue_id, wait from agent_internal.resume_session(_session => %(session)s)",
        {"session": session},
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    run_id, queue_id, wait = row
    return UnfinishedQuestion(run_id, queue_id, None if wait is None else max(wait, 0.0))


async def claim_question(
    conn: Connection, question: UnfinishedQuestion, worker: str, lease: timedelta
) -> ClaimedQuestion | None:
    """Claim a question of this login; None if another process was faster."""
    scope = ClaimScope(("question",), question.queue_id, question.run_id)
    claims = await claim_runs(conn, worker, 1, lease, scope=scope)
    return asked_by(claims[0]) if claims else None


def asked_by(claim: Claim) -> ClaimedQuestion:
    """Return the question of a claimed run."""
    question = claim.question or {}
    return ClaimedQuestion(question["id"], claim, question["text"], question["options"])


async def keep_answer(conn: Connection, question_id: int, answer: Mapping[str, Json]) -> None:
    """Store the answer of a question, which outlives its run, in the transaction that ends it."""
    await conn.execute(
        "update agent.question set answer = %(answer)s where id = %(id)s",
        {"answer": LossyJson(answer), "id": question_id},
    )


async def past(conn: Connection, session: str, *, most: int = 200) -> SessionHistory:
    """Return the history of a session: its summary, and the last *most* turns after it."""
    cursor = await conn.execute(
        "select summary, summary_upto from agent.session"
        " where id = %(session)s and tenant = agent.current_tenant()"
        " and owner = agent.current_principal()",
        {"session": session},
    )
    summary, upto = await cursor.fetchone() or (None, None)
    cursor = await conn.execute(
        "select id, text, answer from (select q.id, q.text, q.answer from agent.question q"
        " join agent.session s on s.tenant = q.tenant and s.id = q.session_id"
        " where q.session_id = %(session)s and s.tenant = agent.current_tenant()"
        " and s.owner = agent.current_principal()"
        " and q.answer is not null and q.id > %(upto)s order by q.id desc limit %(most)s) latest"
        " order by id",
        {"session": session, "upto": upto or 0, "most": most},
    )
    return SessionHistory(summary or "", [Turn(*row) for row in await cursor.fetchall()])


async def asked_before(conn: Connection, session: str, *, most: int = 1000) -> Sequence[str]:
    """Return the last *most* answered questions of a session, oldest first."""
    cursor = await conn.execute(
        "select text from (select q.id, q.text from agent.question q"
        " join agent.session s on s.tenant = q.tenant and s.id = q.session_id"
        " where q.session_id = %(session)s and s.tenant = agent.current_tenant()"
        " and s.owner = agent.current_principal()"
        " and q.answer is not null order by q.id desc limit %(most)s) latest order by id",
        {"session": session, "most": most},
    )
    return [text for (text,) in await cursor.fetchall()]


async def keep_summary(conn: Connection, session: str, summary: str, upto: int) -> None:
    """Store the summary of a session up to a question; never moves backwards."""
    await conn.execute(
        "update agent.session set summary = %(summary)s, summary_upto = %(upto)s"
        " where id = %(session)s and tenant = agent.current_tenant()"
        " and owner = agent.current_principal()"
        " and coalesce(summary_upto, 0) < %(upto)s",
        {"summary": LossyText(summary), "upto": upto, "session": session},
    )


async def save_query(conn: Connection, question: str, sql: str) -> None:
    """Store a statement that a person has confirmed, as an example for the planner."""
    await conn.execute(
        "insert into agent.verified_query (question, sql) values (%(question)s, %(sql)s)"
        " on conflict on constraint one_statement_for_a_question"
        " do update set sql = excluded.sql, saved_at = agent_internal.now()",
        {"question": question, "sql": sql},
    )


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """A question with a statement that a person has confirmed."""

    id: int
    question: str
    sql: str


async def saved_queries(conn: Connection, *, most: int = 1000) -> Sequence[SavedQuery]:
    """Return the latest saved questions of this login and of roles that it is a member of."""
    cursor = await conn.execute(
        "select id, question, sql from agent.verified_query"
        " where agent_internal.is_member_of(owner) order by saved_at desc, id limit %(most)s",
        {"most": most},
    )
    return [SavedQuery(*row) for row in await cursor.fetchall()]


async def saved_query(conn: Connection, number: int) -> SavedQuery | None:
    """Return a saved question of this login, or of a role that it is a member of."""
    cursor = await conn.execute(
        "select id, question, sql from agent.verified_query"
        " where id = %(number)s and agent_internal.is_member_of(owner)",
        {"number": number},
    )
    row = await cursor.fetchone()
    return SavedQuery(*row) if row else None


async def similar_queries(
    conn: Connection, question: str, *, most: int = 5, itself: bool = True
) -> Sequence[tuple[str, str]]:
    """Find saved questions that share words with *question*, with their SQL, the nearest first.

    They were saved by this login, or for a role that it is a member of.

    Args:
        itself: whether *question* is among them, if it was saved.
    """
    cursor = await conn.execute(
        "select q.question, q.sql from agent.verified_query q,"
        " (select nullif(replace(plainto_tsquery('simple', %(question)s)::text, '&', '|'), '')"
        "::tsquery) as a (w)"
        " where q.words @@ a.w and agent_internal.is_member_of(q.owner)"
        " and (%(itself)s or q.question <> %(question)s)"
        " order by ts_rank(q.words, a.w) desc, q.owner <> agent.current_principal(), q.id"
        " limit %(most)s",
        {"question": question, "most": most, "itself": itself},
    )
    return await cursor.fetchall()


async def terms(conn: Connection, question: str, *, most: int = 100) -> Sequence[tuple[str, str]]:
    """Return definitions of business terms: first those in *question*, then the others.

    They were defined by this login, or for a role that it is a member of.
    """
    cursor = await conn.execute(
        "select term, meaning from (select distinct on (term) term, meaning from agent.glossary"
        " where agent_internal.is_member_of(owner)"
        " order by term, owner <> agent.current_principal()) known"
        " order by position(lower(term) in lower(%(question)s)) = 0, term limit %(most)s",
        {"question": question, "most": most},
    )
    return await cursor.fetchall()
