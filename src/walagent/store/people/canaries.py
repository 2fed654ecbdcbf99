"""Canaries of attachments, for people.

Each calls a function of the schema, which checks privileges; the caller translates its errors.
"""

from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.store.queries import query

Connection = AsyncConnection[Any]


async def set_canary(  # noqa: PLR0913 - the arguments of the function
    conn: Connection,
    attachment: str,
    *,
    changes: str | None,
    share: float | None,
    rollback_if: str | None,
    min_runs: int | None,
) -> int:
    """Begin a canary, or change the one that there is.

    Args:
        changes: a spec; None: change the canary that there is.
        share: None: as it is, of a new canary 0.1.
        rollback_if: None: as it is; "": no rule.
        min_runs: None: as it is, of a new canary 30.

    Returns:
        its version.
    """
    cursor = await conn.execute(
        "select agent.canary(attachment => %(attachment)s, changes => %(changes)s,"
        " share => %(share)s, rollback_if => %(rule)s, min_runs => %(least)s)",
        {
            "attachment": attachment,
            "changes": changes,
            "share": share,
            "rule": rollback_if,
            "least": min_runs,
        },
    )
    return (await cursor.fetchone() or (0,))[0]


async def set_shadow(
    conn: Connection, attachment: str, *, changes: str | None, share: float | None
) -> int:
    """Begin a shadow, or change the share of the one that there is; return its version.

    Args:
        changes: a spec; None: change the shadow that there is.
        share: None: as it is, of a new shadow 1.
    """
    cursor = await conn.execute(
        "select agent.shadow(attachment => %(attachment)s, changes => %(changes)s,"
        " share => %(share)s)",
        {"attachment": attachment, "changes": changes, "share": share},
    )
    return (await cursor.fetchone() or (0,))[0]


async def promote_canary(conn: Connection, attachment: str) -> int:
    """Make the canary of an attachment its version; return it."""
    cursor = await conn.execute(
        "select agent.promote_canary(attachment => %(attachment)s)", {"attachment": attachment}
    )
    return (await cursor.fetchone() or (0,))[0]


async def roll_back_canary(conn: Connection, attachment: str, reason: str | None) -> int:
    """End the canary of an attachment; return the version that all changes get."""
    cursor = await conn.execute(
        "select agent.roll_back_canary(attachment => %(attachment)s, reason => %(reason)s)",
        {"attachment": attachment, "reason": reason},
    )
    return (await cursor.fetchone() or (0,))[0]


async def list_canaries(
    conn: Connection, attachment: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return two rows for each canary, the latest canary first: what it is compared with, and it.

    Args:
        attachment: None: of all.
        limit: maximum number of canaries.
    """
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query("list_canaries"), {"attachment": attachment, "limit": limit})
    return await cursor.fetchall()
