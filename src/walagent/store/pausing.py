"""Pause broken attachments and log it."""

from typing import Any

from psycopg import AsyncConnection

from walagent.store import attachments
from walagent.telemetry.log import log


async def pause_broken(
    conn: AsyncConnection[Any], attachment_id: int, name: str, reason: str
) -> bool:
    """Pause an attachment whose runs cannot succeed.

    Args:
        attachment_id: 0: the run has none, and nothing is paused.

    Returns:
        Whether it starts no more runs; False while a transaction is changing it.
    """
    if not attachment_id:
        return True
    paused = await attachments.pause_broken(conn, attachment_id, reason)
    if paused:
        log.warning("attachment.paused", attachment=name, reason=reason)
    return paused is not None


async def pause_drifted(conn: AsyncConnection[Any]) -> None:
    """Pause every attachment whose table, role or tools differ from its definition."""
    for name, reason in await attachments.pause_drifted(conn):
        log.warning("attachment.paused", attachment=name, reason=reason)
