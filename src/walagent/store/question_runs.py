"""What was asked before, and what it came to: for people who look back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Answered:
    """An earlier question and its answer, as `agent.question` keeps them."""

    session: str
    asked_at: datetime
    question: str
    answer: Mapping[str, Any]

    @property
    def sql(self) -> Sequence[str]:
        """The statements that the answer rests on."""
        return list(self.answer.get("sql") or ())


async def last_answered(conn: Connection, session: str) -> Answered | None:
    """Give the latest question of a session that was answered; None when there is none."""
    cursor = await conn.execute(
        "select q.session_id, q.asked_at, q.text, q.answer"
        "  from agent.question q join agent.session s on s.id = q.session_id"
        " where q.session_id = %s and s.owner = agent.current_principal() and q.answer is not null"
        " order by q.id desc limit 1",
        [session],
    )
    row = await cursor.fetchone()
    return Answered(*row) if row else None


async def find_answered(conn: Connection, words: str, *, most: int = 50) -> Sequence[Answered]:
    """Find the caller's questions, of whatever session, in which or in whose answers *words* stand.

    Gives the latest *most*, oldest first.
    """
    cursor = await conn.execute(
        "select session_id, asked_at, text, answer from ("
        "  select q.id, q.session_id, q.asked_at, q.text, q.answer"
        "    from agent.question q join agent.session s on s.id = q.session_id"
        "   where s.owner = agent.current_principal() and q.answer is not null"
        "     and strpos(lower(concat_ws(' ', q.text, q.answer ->> 'answer')), lower(%s)) > 0"
        "   order by q.id desc limit %s) latest order by id",
        [words, most],
    )
    return [Answered(*row) for row in await cursor.fetchall()]
