"""Canaries of attachments, for walagent's reader."""

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A canary that its rule has ended.

    Args:
        reason: the clause of the rule with the figures of both versions.
    """

    attachment: str
    version: int
    reason: str


async def due_canaries(conn: Connection) -> list[int]:
    """Return the attachments with a canary whose rule is due."""
    cursor = await conn.execute("select * from agent_internal.due_canaries()")
    return [row[0] for row in await cursor.fetchall()]


async def check_canary(conn: Connection, attachment_id: int) -> RolledBack | None:
    """Roll the canary of an attachment back if its rule says so."""
    cursor = await conn.execute(
        "select attachment, version, reason"
        " from agent_internal.check_canary(_attachment_id => %(attachment)s)",
        {"attachment": attachment_id},
    )
    row = await cursor.fetchone()
    return None if row is None else RolledBack(*row)
