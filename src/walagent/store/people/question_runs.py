"""Earlier questions and their answers, for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """An earlier question and its answer, from `agent.question`."""

    session: str
    asked_at: datetime
    question: str
    answer: Mapping[str, Any]

    @property
    def sql(self) -> Sequence[str]:
        """Return the statements on which the answer is based."""
        return list(self.answer.get("sql") or ())


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session, and how many questions it has."""

    session: str
    made_at: datetime
    asked_at: datetime
    questions: int


async def list_sessions(conn: Connection, *, most: int = 1000) -> Sequence[SessionSummary]:
    """Return the caller's sessions, the latest first."""
    cursor = await conn.execute(
        "select s.id, s.made_at, s.asked_at, count(q.id)"
        "  from agent.session s"
        " left join agent.question q on q.tenant = s.tenant and q.session_id = s.id"
        " where s.tenant = agent.current_tenant() and s.owner = agent.current_principal()"
        " group by s.tenant, s.id order by s.asked_at desc, s.id limit %(most)s",
        {"most": most},
    )
    return [SessionSummary(*row) for row in await cursor.fetchall()]


async def delete_session(conn: Connection, session: str) -> bool:
    """Delete a session of the caller with its runs; return whether there was one."""
    cursor = await conn.execute("select agent.delete_session(%(session)s)", {"session": session})
    row = await cursor.fetchone()
    return bool(row and row[0])


async def answered_in(
    conn: Connection, session: str, *, most: int = 1000
) -> Sequence[AnsweredQuestion]:
    """Return the latest *most* answered questions of a session, oldest first."""
    cursor = await conn.execute(
        "select session_id, asked_at, text, answer from ("
        "  select q.id, q.session_id, q.asked_at, q.text, q.answer"
        "    from agent.question q"
        " join agent.session s on s.tenant = q.tenant and s.id = q.session_id"
        "   where q.session_id = %(session)s and s.tenant = agent.current_tenant()"
        " and s.owner = agent.current_principal()"
        "     and q.answer is not null order by q.id desc limit %(most)s) latest order by id",
        {"session": session, "most": most},
    )
    return [AnsweredQuestion(*row) for row in await cursor.fetchall()]


async def last_answered(conn: Connection, session: str) -> AnsweredQuestion | None:
    """Return the latest answered question of a session; None if it has none."""
    cursor = await conn.execute(
        "select q.session_id, q.asked_at, q.text, q.answer"
        "  from agent.question q"
        " join agent.session s on s.tenant = q.tenant and s.id = q.session_id"
        " where q.session_id = %(session)s and s.tenant = agent.current_tenant()"
        " and s.owner = agent.current_principal()"
        "   and q.answer is not null order by q.id desc limit 1",
        {"session": session},
    )
    row = await cursor.fetchone()
    return AnsweredQuestion(*row) if row else None


async def find_answered(
    conn: Connection, words: str, *, most: int = 50
) -> Sequence[AnsweredQuestion]:
    """Find the caller's questions in any session that contain *words*, or whose answers do.

    Returns the latest *most*, oldest first.
    """
    cursor = await conn.execute(
        "select session_id, asked_at, text, answer from ("
        "  select q.id, q.session_id, q.asked_at, q.text, q.answer"
        "    from agent.question q"
        " join agent.session s on s.tenant = q.tenant and s.id = q.session_id"
        "   where s.tenant = agent.current_tenant()"
        " and s.owner = agent.current_principal() and q.answer is not null"
        "     and strpos(lower(concat_ws(' ', q.text, q.answer ->> 'answer')),"
        "                lower(%(words)s)) > 0"
        "   order by q.id desc limit %(most)s) latest order by id",
        {"words": words, "most": most},
    )
    return [AnsweredQuestion(*row) for row in await cursor.fetchall()]
