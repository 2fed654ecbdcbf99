"""Transactions of the principals who ask: as which role, with which limits, how many at once."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import Any, Final, cast

from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier

from walagent.console.offer import Engine
from walagent.console.owners import Owners
from walagent.console.sessions import ENDED, UNKNOWN, act_as, acting_role
from walagent.console.statements import read_rows
from walagent.domain.tenant import Actor
from walagent.errors import DatabaseLostError
from walagent.http.exchange import RefusedError
from walagent.http.shares import NOBODY, Shares
from walagent.http.signed_tokens import FindIdentity, SignedTokenError
from walagent.message import Json
from walagent.store.sessions.acting import identity_of_token

# A lock is somebody else's: who waits for it has a place that others need.
_LOCAL: Final = b"set local statement_timeout = '20s'; set local lock_timeout = '2s'"
# A page that waits for longer says nothing: it asks again by itself.
_PATIENCE: Final = 5.0  # seconds
_KNOWN: Final = 60.0  # seconds for which a token counts as a principal's, for its shares alone
_MOST_KNOWN: Final = 10_000


class Acting:
    """Opens transactions of principals.

    Args:
        find: finds the identity of a token.
        patience: seconds in which there must be a connection.
    """

    def __init__(
        self,
        engine: Engine,
        find: FindIdentity = identity_of_token,
        patience: float = _PATIENCE,
    ) -> None:
        self.find = find
        self._engine = engine
        self._patience = patience
        # Shapes need connections, too.
        self._places = Shares("statements", 6, of_tenant=4, of_principal=2, waiting=20)
        self._owners = Owners(self.connection)
        self._known: dict[bytes, tuple[float, Actor]] = {}  # by digest of the token
        self._role: list[str | None] = []  # once it is known
        self._role_lock = asyncio.Lock()

    @asynccontextmanager
    async def connection(self, who: Actor = NOBODY) -> AsyncGenerator[AsyncConnection[Any]]:
        """Use a connection of the daemon's login, of a few at once."""
        async with self._places.in_turn(who), AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._patience):
                    conn = await stack.enter_async_context(self._engine.connection())
            except TimeoutError as error:
                raise DatabaseLostError(
                    f"no database connection in {self._patience:g} s"
                ) from error
            yield conn

    async def share_of(self, token: str, message: str = ENDED) -> Actor:
        """Return in whose share a token is checked: whose it is, or was.

        Raises:
            RefusedError: there is none, or it is unknown, expired or revoked.
        """
        if not token:
            raise RefusedError(401, "nobody is signed in")
        digest = sha256(token.encode()).digest()
        if digest in self._known:
            return self._known[digest][1]
        try:
            identity = self.find(token)
        except SignedTokenError as error:
            raise RefusedError(401, str(error), UNKNOWN) from error
        if identity.of is not None:
            return identity.of
        owner = await self._owners.of(digest)
        if owner is None:
            raise RefusedError(401, message, UNKNOWN)
        return owner

    async def who(self, token: str) -> Actor:
        """Return whose share a request takes; what a token may do is checked in its transaction.

        A token that was somebody's is checked again in the share of that one: who has none keeps
        nobody out.

        Raises:
            WalagentError, RefusedError: the token is unknown, expired or revoked.
        """
        digest, now = sha256(token.encode()).digest(), time.monotonic()
        at, actor = self._known.get(digest, (-_KNOWN, NOBODY))
        if now - at < _KNOWN:
            return actor
        actor = await self.share_of(token)
        async with self.connection(actor) as conn, conn.transaction():
            await conn.execute(_LOCAL)
            try:
                await act_as(conn, token, find=self.find)
            except Exception:
                self._known.pop(digest, None)  # it was revoked, or has expired
                raise
            cursor = await conn.execute("select agent.current_tenant(), agent.current_principal()")
            row = await cursor.fetchone()
        actor = Actor(str(row[0]), str(row[1])) if row and row[0] is not None else NOBODY
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[digest] = now, actor
        return actor

    async def caller(self, token: str, scope: str) -> tuple[Actor, Json]:
        """Return whose token it is, and the time.

        Raises:
            RefusedError: the token lacks the scope.
        """
        async with self.transaction(token) as conn:
            found = await read_rows(
                conn,
                "select i.tenant, i.principal::text, to_jsonb(i.scopes) as scopes, now() as now,"
                " agent.has_scope(%(scope)s) as has from agent_internal.identity() as i",
                {"scope": scope},
            )
        row = found[0]
        if row["tenant"] is None or row["principal"] is None:
            raise RefusedError(401, "nobody is signed in")
        if not row["has"]:
            raise RefusedError(403, f"the token lacks the scope {scope}", "42501")
        scopes = cast("list[str]", row["scopes"])
        return Actor(str(row["tenant"]), str(row["principal"]), tuple(scopes)), row["now"]

    @asynccontextmanager
    async def transaction(
        self, token: str, *, writes: bool = False
    ) -> AsyncGenerator[AsyncConnection[Any]]:
        """Open a transaction of the principal of a token."""
        async with self.connection(await self.who(token)) as conn:
            role = await self.role_of(conn)
            async with conn.transaction():
                if not writes:
                    await conn.execute("set transaction isolation level repeatable read read only")
                await conn.execute(_LOCAL)
                await act_as(conn, token, find=self.find)
                if role is not None:
                    await conn.execute(SQL("set local role {}").format(Identifier(role)))
                yield conn

    async def role_of(self, conn: AsyncConnection[Any]) -> str | None:
        """Return the role as which principals act; None: the login itself."""
        async with self._role_lock:
            if not self._role:
                self._role.append(await acting_role(conn))
        return self._role[0]
