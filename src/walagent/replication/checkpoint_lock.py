"""Whether the checkpoint can be written: looked at before the slot is taken, not while it is held.

A reader that holds the slot and cannot write reads nothing, and what is not read holds up the
server's checkpoints.  So while somebody else has the tables locked, the slot stays free.
"""

import asyncio
from typing import Any

from psycopg import AsyncConnection

from walagent.errors import DatabaseLostError
from walagent.store import checkpoint as checkpoints
from walagent.store.connections import connect

_PATIENCE = 2.0  # seconds; a lock that passes by is none to tell of


async def check_locks(dsn: str, looker: AsyncConnection[Any], slot: str) -> None:
    """Check that no lock keeps us from writing the checkpoint and the runs.

    Args:
        looker: a connection that finds out what another one, which asks for the locks, waits for.

    Raises:
        DatabaseLostError: there is a lock, and whose; try again later.
    """
    async with await connect(dsn, application="walagent intake") as conn:
        asking = asyncio.create_task(checkpoints.try_locks(conn, slot))
        try:
            done, _ = await asyncio.wait([asking], timeout=_PATIENCE)
            if not done:
                raise DatabaseLostError(_sentence(await checkpoints.blockers(looker, conn)))
            asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


def _sentence(blockers: list[tuple[int, str]]) -> str:
    names = [f"process {pid} ({name or 'no application_name'})" for pid, name in blockers]
    who = " and ".join(names) or "somebody"
    return f"the checkpoint cannot be written: {who} holds a lock on it; see pg_stat_activity"
