"""Pausing attachments on the daemon's own account, and saying so."""

from typing import Any

from psycopg import AsyncConnection

from walagent.attachment import Attachment
from walagent.log import log
from walagent.store import attachments


async def pause_broken(conn: AsyncConnection[Any], attachment: Attachment, reason: str) -> bool:
    """Pause an attachment that cannot go on, as often as it is seen to.

    Returns:
        whether it is paused now; not while a person's transaction is changing it.
    """
    paused = await attachments.pause_broken(conn, attachment.id, reason)
    if paused:
        log.warning("attachment.paused", attachment=attachment.name, reason=reason)
    return paused is not None


async def pause_drifted(conn: AsyncConnection[Any]) -> None:
    """Pause every attachment whose table, role or tools are not what it was defined with."""
    for name, reason in await attachments.pause_drifted(conn):
        log.warning("attachment.paused", attachment=name, reason=reason)
