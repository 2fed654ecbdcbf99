"""Transactions of principals: how long a request waits for a connection."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import AsyncConnection

from walagent.console.acting import Acting
from walagent.errors import DatabaseLostError


class _Away:
    """A pool of a database that is away: it waits for a connection that does not come."""

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[Any]]:
        await asyncio.Event().wait()
        raise AssertionError
        yield


async def test_a_page_hears_soon_that_the_database_is_away() -> None:
    """It waits for a connection for seconds, not as long as the pool does."""
    acting = Acting(_Away(), patience=0.01)
    with pytest.raises(DatabaseLostError, match="no database connection"):
        async with acting.connection():
            pass
