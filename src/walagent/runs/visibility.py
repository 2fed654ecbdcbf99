"""Whether a row may be shown to an agent.  The WAL knows no privileges, so PostgreSQL is asked."""

import time
from collections.abc import Mapping
from typing import Any

from walagent.agent.tools.statements import sight_statement
from walagent.attachment import Attachment
from walagent.store import runs
from walagent.store.connections import Pool

# Seconds for which an answer holds where it does not depend on the row.  Under load that spares a
# round trip for each run; a run takes longer to be shown to its model.
_FRESH = 1.0


class Visibility:
    """Asks as each attachment's role; what it may see can change while the attachment stays."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._until: dict[tuple[int, int], float] = {}

    async def allows(
        self, attachment: Attachment, change: Mapping[str, Any], *, begun: bool
    ) -> bool:
        """Whether the row of *change* may be shown; of a run that has begun, it has been.

        Raises (as a PostgreSQL error):
            RoleRefusedError: no row may; see `store.runs.sees`.
        """
        version = (attachment.id, attachment.version)
        if self._until.get(version, 0.0) > time.monotonic():
            return True
        text, key = ("select true", None) if begun else _question(attachment, change)
        asked_at = time.monotonic()
        async with self._pool.connection() as conn:
            seen, row_security = await runs.sees(
                conn,
                attachment.authority.run_as,
                attachment.target.relation_oid,
                _columns(attachment),
                text,
                key,
            )
        if not row_security:
            self._until[version] = asked_at + _FRESH
        return seen


def _question(
    attachment: Attachment, change: Mapping[str, Any]
) -> tuple[str | None, Mapping[str, Any] | None]:
    return sight_statement(attachment, change) or (None, None)


def _columns(attachment: Attachment) -> list[str] | None:
    """What the agent is shown of a row, and what its tools are given; None: all of it."""
    if attachment.target.columns is None:
        return None
    bound = {column for tool in attachment.agent.tools for column in tool.bind.values()}
    return sorted(attachment.target.columns | bound)
