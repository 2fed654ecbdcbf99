"""Check tokens in the database, and remember the answer for a minute."""

import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Final

from psycopg import AsyncConnection, Error

from walagent.store.errors import translating
from walagent.sync.engine import ShapeRefusedError

_KEPT: Final = 60.0  # seconds: a revoked token serves no longer
_MOST: Final = 10_000


class TokenCheck:
    """Asks the database who a token belongs to.

    Args:
        connect: opens a connection of a login that may call agent.act_as().
    """

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection[Any]]]) -> None:
        self._connect = connect
        self._known: dict[bytes, tuple[float, tuple[str, str]]] = {}

    async def of_token(self, token: str) -> tuple[str, str]:
        """Return tenant and principal of a token.

        Raises:
            ShapeRefusedError: it is missing, unknown, expired or revoked.
        """
        if not token:
            raise ShapeRefusedError(401, "a token is required: Authorization: Bearer TOKEN")
        digest, now = sha256(token.encode()).digest(), time.monotonic()
        known = self._known.get(digest)
        if known is not None and now - known[0] < _KEPT:
            return known[1]
        self._known.pop(digest, None)
        found = await self._ask(token)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[digest] = (now, found)
        return found

    async def _ask(self, token: str) -> tuple[str, str]:
        with translating():
            async with await self._connect() as conn, conn.transaction():
                try:
                    await conn.execute("select agent.act_as(%s)", (token,))
                except Error as error:
                    if error.sqlstate == "WA018":
                        text = "the token is unknown, expired or revoked"
                        raise ShapeRefusedError(401, text) from error
                    raise
                cursor = await conn.execute(
                    "select agent.current_tenant(), agent.current_principal()"
                )
                row = await cursor.fetchone()
        if row is None or row[0] is None:
            raise ShapeRefusedError(401, "the token is unknown, expired or revoked")
        return str(row[0]), str(row[1])
