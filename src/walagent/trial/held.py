"""An evaluation that this process holds: extended while the process lives, and ended."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from psycopg import AsyncConnection

from walagent.errors import WalagentError
from walagent.store import evaluations
from walagent.store.errors import translating
from walagent.store.evaluations import HELD
from walagent.store.sessions.connections import connect
from walagent.trial.charging import Account

Connection = AsyncConnection[Any]


@asynccontextmanager
async def open_keeper(dsn: str) -> AsyncGenerator[Connection]:
    """Open the connection of what is committed."""
    with translating():
        async with await connect(dsn, application="walagent replay") as conn:
            yield conn


@asynccontextmanager
async def held(account: Account) -> AsyncGenerator[None]:
    """Hold an evaluation, and record its end: also that of an error, or of a cancelled process."""
    holding = asyncio.create_task(_hold(account), name="hold the evaluation")
    try:
        yield
    except BaseException as error:
        holding.cancel()
        with suppress(WalagentError):
            await asyncio.shield(_end(account, _reason(error)))
        raise
    holding.cancel()
    await _end(account, None)


async def _hold(account: Account) -> None:
    while True:
        await asyncio.sleep(HELD.total_seconds() / 4)
        with suppress(WalagentError), translating():
            async with account.lock:
                await evaluations.hold(account.conn, account.evaluation)


async def _end(account: Account, error: str | None) -> None:
    with translating():
        async with account.lock:
            await evaluations.end(account.conn, account.evaluation, error)


def _reason(error: BaseException) -> str:
    """Say why an evaluation was broken off."""
    match error:
        case BaseExceptionGroup(exceptions=[first, *_]):
            return _reason(first)
        case WalagentError():
            return str(error)
        case asyncio.CancelledError() | KeyboardInterrupt():
            return "interrupted"
        case _:
            return type(error).__name__
