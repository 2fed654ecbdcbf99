"""Connections on which each transaction acts as a principal, by its token or signed identity.

The identity is set as the first statement of each transaction and ends with it, so a pooler that
shares sessions between transactions, and a role or pool that is used again, have nothing left of
it.  The token is a bind parameter: it is part of no statement, log line or command line.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString, Self

from psycopg import AsyncConnection, AsyncCursor, AsyncTransaction
from psycopg.abc import Params, Query
from psycopg.pq import TransactionStatus

from walagent.domain.tenant import Actor
from walagent.store.sessions.watched_connection import WatchedConnection

_AS_LOGIN: Final = "select current_setting('role'), set_config('role', 'none', true)"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom transactions act as: a statement, and its parameters, which are secret."""

    statement: LiteralString
    parameters: tuple[object, ...] = field(repr=False)
    of: Actor | None = field(default=None, repr=False)  # None: only the database knows


def identity_of_token(token: str) -> Identity:
    """Return the identity of the principal of a token."""
    return Identity("select agent.act_as(%s)", (token,))


class ActingCursor(AsyncCursor[Any]):
    """A cursor whose statements act as the principal of their connection."""

    async def execute(
        self,
        query: Query,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool | None = None,
    ) -> Self:
        """Execute a statement; outside of a transaction, in one of its own."""
        conn = self.connection
        if isinstance(conn, ActingConnection) and conn.must_act:
            if _begins(query):
                await super().execute(query, params, prepare=prepare, binary=binary)  # pyright: ignore[reportArgumentType]
                await conn.act()
                return self
            async with conn.transaction():
                return await super().execute(query, params, prepare=prepare, binary=binary)  # pyright: ignore[reportArgumentType]
        return await super().execute(query, params, prepare=prepare, binary=binary)  # pyright: ignore[reportArgumentType]

    async def executemany(
        self, query: Query, params_seq: Iterable[Params], *, returning: bool = False
    ) -> None:
        """Execute a statement many times, in one transaction."""
        conn = self.connection
        if isinstance(conn, ActingConnection) and conn.must_act:
            async with conn.transaction():
                await super().executemany(query, params_seq, returning=returning)
        else:
            await super().executemany(query, params_seq, returning=returning)


class ActingConnection(WatchedConnection):
    """A connection whose transactions act as a principal, once it has an identity."""

    identity: Identity | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - psycopg's
        super().__init__(*args, **kwargs)
        self.cursor_factory = ActingCursor

    @property
    def must_act(self) -> bool:
        """Whether a statement would be executed outside of a transaction of the principal."""
        return (
            self.identity is not None and self.pgconn.transaction_status == TransactionStatus.IDLE
        )

    @asynccontextmanager
    async def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's
    ) -> AsyncGenerator[AsyncTransaction]:
        """Begin a transaction, or a savepoint in one."""
        begins = self.must_act
        async with super().transaction(savepoint_name, force_rollback) as transaction:
            if begins:
                await self.act()
            yield transaction

    async def act(self) -> None:
        """Act as the principal until the end of the transaction, as the login or its role.

        Raises psycopg's error if the token is not valid.
        """
        if self.identity is None:
            return
        # A role that was set for the session need not be allowed to act for principals.
        row = await (await self.execute(_AS_LOGIN)).fetchone()
        await self.execute(self.identity.statement, self.identity.parameters)
        if row is not None and row[0] != "none":
            await self.execute("select set_config('role', %s, true)", [row[0]])


def give_identity(conn: AsyncConnection[Any], identity: Identity | None) -> None:
    """Let all later transactions of a connection act as a principal."""
    if identity is not None:
        if not isinstance(conn, ActingConnection):
            raise TypeError("connection cannot act as a principal")
        conn.identity = identity


def _begins(query: Query) -> bool:
    return (
        query.lstrip()[:5].lower() in ("begin", b"begin")
        if isinstance(query, str | bytes)
        else False
    )


__all__ = ["ActingConnection", "Identity", "give_identity", "identity_of_token"]
