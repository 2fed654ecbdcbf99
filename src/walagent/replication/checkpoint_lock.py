"""Check that the checkpoint can be written, before the slot is acquired.

A reader that holds the slot and cannot write does not read either, and an unread socket can block
server checkpoints.  So while another session locks the tables, the slot stays free.
"""

import asyncio
from typing import Any

from psycopg import AsyncConnection

from walagent.errors import DatabaseLostError
from walagent.store import checkpoint as checkpoints
from walagent.store.sessions.connections import connect
from walagent.telemetry.mask import mask

_PATIENCE = 2.0  # seconds; a shorter lock is not reported


async def check_locks(dsn: str, looker: AsyncConnection[Any], slot: str) -> None:
    """Check that no lock prevents writing the checkpoint and the runs.

    Args:
        looker: a connection that reads what the connection that requests the locks waits for.

    Raises:
        DatabaseLostError: another process holds a lock; try again later.
    """
    async with await connect(dsn, application="walagent intake") as conn:
        asking = asyncio.create_task(checkpoints.try_locks(conn, slot))
        try:
            done, _ = await asyncio.wait([asking], timeout=_PATIENCE)
            if not done:
                raise DatabaseLostError(sentence_of(await checkpoints.blockers(looker, conn)))
            asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


def sentence_of(blockers: list[tuple[int, str]]) -> str:
    """Say which sessions hold the lock, without secrets."""
    # An application_name is of somebody else, and who reads /readyz has not signed in.
    names = [f"PID {pid} ({mask(name) or 'no application_name'})" for pid, name in blockers]
    who = " and ".join(names) or "another process"
    return f"cannot write the checkpoint: {who} holds a conflicting lock"
