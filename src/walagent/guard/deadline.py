"""Bound the time for which a statement is waited for, whatever the server does.

PostgreSQL acts on a timeout or a cancel request only where its code checks for interrupts.  Some
functions do not for minutes: translate, strpos, btrim of long texts, comparisons of large arrays.
"""

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from psycopg import AsyncConnection, Error

from walagent.errors import StatementRefusedError
from walagent.postgres.connection import hang_up

T = TypeVar("T")

GRACE: Final = 2.0  # seconds for the server to act on a timeout, and on a cancel request
_CANCELED: Final = "57014"  # query_canceled


async def within(
    conns: Collection[AsyncConnection[Any]], seconds: float, work: Coroutine[Any, Any, T]
) -> T:
    """Await *work*, which uses *conns*; close them if the server does not end it in time.

    If the caller is cancelled, the server is asked to cancel and gets the same grace.

    Raises:
        StatementRefusedError: it did not end in time; if the connections were closed, the backend
            ends when it next checks for interrupts.
    """
    task = asyncio.create_task(work, name="guarded statement")
    try:
        await asyncio.wait({task}, timeout=seconds + GRACE)
    finally:
        ended = task.done()
        if not ended:
            await asyncio.shield(_abandon(conns, task))
    if ended:
        return task.result()
    raise StatementRefusedError(
        f"statement timeout: it did not end within {seconds:g} s, nor when it was canceled",
        sqlstate=_CANCELED,
    )


async def _abandon(conns: Collection[AsyncConnection[Any]], task: "asyncio.Task[Any]") -> None:
    """End *task*: by cancel requests, or else by closing its connections."""
    for conn in conns:
        with suppress(Error, OSError):
            await conn.cancel_safe(timeout=GRACE)
    await asyncio.wait({task}, timeout=GRACE)
    if not task.done():
        for conn in conns:
            hang_up(conn)
        await asyncio.wait({task})
        for conn in conns:
            await conn.close()
    if not task.cancelled():
        task.exception()  # superseded
