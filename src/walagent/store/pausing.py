"""Pause attachments on the daemon's own account, and log it."""

from typing import Any

from psycopg import AsyncConnection

from walagent.log import log
from walagent.store import attachments


async def pause_broken(
    conn: AsyncConnection[Any], attachment_id: int, name: str, reason: str
) -> bool:
    """Pause an attachment none of whose runs can succeed.

    Args:
        attachment_id: 0: the run belongs to none, and there is nothing to pause.

    Returns:
        whether no further run of it starts; False while a transaction is changing it.
    """
    if not attachment_id:
        return True
    paused = await attachments.pause_broken(conn, attachment_id, reason)
    if paused:
        log.warning("attachment.paused", attachment=name, reason=reason)
    return paused is not None


async def pause_drifted(conn: AsyncConnection[Any]) -> None:
    """Pause every attachment whose table, role or tools are not what it was defined with."""
    for name, reason in await attachments.pause_drifted(conn):
        log.warning("attachment.paused", attachment=name, reason=reason)
