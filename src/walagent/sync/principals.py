"""Check tokens in the database, and remember the answer for some seconds."""

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from psycopg import Error

from walagent.domain.tenant import Actor
from walagent.http.signed_tokens import FindIdentity, SignedTokenError
from walagent.store.sessions.acting import identity_of_token
from walagent.sync.checks import ShapeRefusedError
from walagent.sync.query import Connecting

_KEPT: Final = 5.0  # seconds; with the minute of an event stream, how long a revoked token serves
_MOST: Final = 10_000
_REFUSED: Final = "the token is unknown, expired or revoked"


class TokenCheck:
    """Asks the database who a token belongs to.

    Args:
        connection: gives a connection of a login that may call agent.act_as().
        find: finds the identity of a token.
    """

    def __init__(
        self, connection: Callable[[], Connecting], find: FindIdentity = identity_of_token
    ) -> None:
        self._connection = connection
        self._find = find
        self._known: dict[bytes, tuple[float, Actor]] = {}

    async def of_token(self, token: str) -> Actor:
        """Return whose token it is, and what for.

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

    async def _ask(self, token: str) -> Actor:
        try:
            identity = self._find(token)
        except SignedTokenError as error:
            raise ShapeRefusedError(401, str(error)) from error
        async with self._connection() as conn, conn.transaction():
            try:
                await conn.execute(identity.statement, identity.parameters)
            except Error as error:
                if error.sqlstate == "WA018":
                    raise ShapeRefusedError(401, _REFUSED) from error
                raise
            cursor = await conn.execute(
                "select i.tenant, i.principal::text, i.scopes, agent.has_scope('read')"
                " from agent_internal.identity() as i"
            )
            row = await cursor.fetchone()
        if row is None or row[0] is None:
            raise ShapeRefusedError(401, _REFUSED)
        if not row[3]:
            raise ShapeRefusedError(403, "the token lacks the scope read")
        return Actor(row[0], row[1], tuple(row[2]))
