"""Waiting for a row, with a deadline: what tests do instead of sleeping."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection

DEADLINE = 120.0  # seconds for what takes a few; a busy machine may need many more
_LOOK = 0.02  # seconds between two looks


async def until(
    conn: AsyncConnection[Any],
    query: str,
    *parameters: object,
    seconds: float = DEADLINE,
    alive: Callable[[], None] = lambda: None,
) -> float:
    """Wait until *query* gives true; return the seconds that it took.

    Args:
        alive: called at every look, to raise when waiting makes no sense any more.
    """
    started = time.monotonic()
    while True:
        row = await (await conn.execute(query.encode(), parameters)).fetchone()
        elapsed = time.monotonic() - started
        if row is not None and row[0]:
            return elapsed
        alive()
        assert elapsed < seconds, f"still not true after {seconds:g} s: {query}"
        await asyncio.sleep(_LOOK)


async def until_true(
    look: Callable[[], Awaitable[bool]], what: str, *, seconds: float = DEADLINE
) -> float:
    """Wait until *look* gives true; return the seconds that it took."""
    started = time.monotonic()
    while not await look():
        assert time.monotonic() - started < seconds, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(_LOOK)
    return time.monotonic() - started


async def connect_again(dsn: str, *, seconds: float = DEADLINE) -> AsyncConnection[Any]:
    """Connect, however long the server still needs to come up."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await AsyncConnection.connect(dsn, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_LOOK)


async def fetch(conn: AsyncConnection[Any], query: str, *parameters: object) -> list[Any]:
    """All rows of a query."""
    return await (await conn.execute(query.encode(), parameters)).fetchall()
