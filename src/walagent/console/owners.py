"""Whose a token is that this process has not seen: many are looked up in one statement.

Who sends tokens that nobody has takes a place from nobody who has one.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.domain.tenant import Actor
from walagent.http.exchange import RefusedError

_MOST: Final = 2_000  # that wait to be looked up
_OWNERS: Final = (
    "select digest, tenant, principal::text from agent.token where digest = any(%s)"
    " and revoked_at is null and (expires_at is null or expires_at > agent_internal.now())"
)


class Owners:
    """Finds the principals of tokens, by digest.

    Args:
        connection: opens one of the daemon's login, of the share of those who are not known.
    """

    def __init__(
        self, connection: Callable[[], AbstractAsyncContextManager[AsyncConnection[Any]]]
    ) -> None:
        self._connection = connection
        self._sought: dict[bytes, asyncio.Future[Actor | None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def of(self, digest: bytes) -> Actor | None:
        """Return whose it is; None: it is unknown, has expired or was revoked.

        Raises:
            RefusedError: too many are sought already.
        """
        sought = self._sought.get(digest)
        if sought is None:
            if len(self._sought) >= _MOST:
                raise RefusedError(429, "too many tokens are checked at once")
            sought = self._sought[digest] = asyncio.get_running_loop().create_future()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(sought)

    async def _look(self) -> None:
        while self._sought:
            batch, self._sought = self._sought, {}
            try:
                async with self._connection() as conn, conn.transaction():
                    cursor = await conn.execute(_OWNERS, (list(batch),))
                    found = {bytes(d): Actor(t, p) for d, t, p in await cursor.fetchall()}
            except BaseException as error:
                for each in batch.values():
                    if not each.done():
                        each.set_exception(error)
                        each.exception()  # who asked may be gone
                if not isinstance(error, Exception):
                    raise
                continue
            for digest, each in batch.items():
                if not each.done():
                    each.set_result(found.get(digest))
