"""Record that a call outside the database is about to be made."""

import time

from walagent.base import faults
from walagent.domain.run import Claim
from walagent.message import ToolCall
from walagent.store import outbox
from walagent.store.sessions.connections import Pool

_STALE = 2.0  # seconds after which a check of the lease is repeated before a call outside


async def announce(pool: Pool, claim: Claim, seq: int, call: ToolCall, *, again: bool) -> str:
    """Record the intent of a call outside the database; return its idempotency key.

    A process that was suspended since the statement was sent checks its lease again: another worker
    might have the run, or a person might have resolved the call.

    Args:
        again: the intent is recorded already.
    """
    while True:
        async with pool.connection() as conn:
            sent = _clock()
            key = await outbox.begin_call(conn, claim, seq, call, again=again)
        faults.hit("tool.started")
        if _clock() - sent < _STALE:
            return key
        again = True


def _clock() -> float:
    """Return seconds that also pass while the process or the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
