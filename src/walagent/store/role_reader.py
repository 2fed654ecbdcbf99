"""Execute statements as the roles of agents, on a connection of its own that is opened when needed.

The statements run code of others: conditions, and the types, policies and indexes of the tables
that they read.  See `tool_connections` for why that code cannot become a stronger role.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from psycopg import AsyncConnection, AsyncRawCursor, Error, sql
from psycopg.pq import TransactionStatus

from walagent.domain.tenant import Actor
from walagent.errors import LoginRefusedError, PreconditionError
from walagent.message import Json
from walagent.postgres.connection import TEXT_FORMS
from walagent.store.codecs.exact import exact
from walagent.store.codecs.raw import RawJsonb, RawText, RawTexts, has_no_encoding
from walagent.store.sessions.connections import connect
from walagent.store.sessions.tool_connections import (
    DISCARD,
    ToolsLogin,
    acting,
    log_in,
    name_transaction,
    read_login,
)
from walagent.store.trampolines import make_trampoline, through_trampolines

Connection = AsyncConnection[Any]

_TIMEOUT: Final = "10s"  # for one statement
# For a locked table, which is read if the WAL lacks a value that a condition needs.  A lock says
# nothing about the row, so this timeout must expire before the statement's.
_LOCK_TIMEOUT: Final = "2s"
SETTINGS: Final = "; ".join([
    *(f"set local {name} = '{value}'" for name, value in TEXT_FORMS.items()),
    f"set local lock_timeout = '{_LOCK_TIMEOUT}'",
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Frame:
    """The statements before and after; each is one round trip.

    What code of others made is taken back: before PostgreSQL 16, a read-only transaction can make
    large objects.
    """

    begin: str
    end: str


_WHOLE: Final = _Frame(
    f"begin; {SETTINGS}",
    f"rollback; {DISCARD}",
)
# In the transaction of a trial.
_INNER: Final = _Frame(
    f"savepoint walagent; {SETTINGS}",
    f"rollback to walagent; release walagent; {DISCARD}",
)
_READ: Final = "select agent_signed.read_as($1, $2, $3::text[])"


@dataclass(frozen=True, slots=True)
class RoleStatement:
    """A statement that reads.

    Args:
        text: its $1 is *arguments* (jsonb), its $2 *texts* (text[]), and its result one text.
        texts: an array as PostgreSQL reads it, in the database's encoding.
        rows: whether the result is rows, as agent_internal.trampoline_body() gives them.
        path: the search path of *text*.
        settings: of its transaction.
    """

    run_as: str
    text: bytes
    arguments: Json = None
    texts: bytes = b"{}"
    timeout: str = _TIMEOUT
    actor: Actor | None = None  # None: nobody
    rows: bool = False
    path: str = ""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])


class RoleReader:
    """Reads on one connection of the tools' login."""

    def __init__(
        self, worker: Connection, tools_dsn: Callable[[], str] = lambda: "", idle: float = 60.0
    ) -> None:
        """Use *worker* for the trampolines: its login is a member of the roles."""
        self._worker = worker
        self._tools_dsn = tools_dsn
        self._idle = idle
        self._opened: tuple[Connection, ToolsLogin] | None = None

    @property
    def connections(self) -> Sequence[Connection]:
        """The connection on which statements are executed, if it is open."""
        return [] if self._opened is None else [self._opened[0]]

    async def open(self, role: str) -> None:
        """Open the connection, and make the trampoline of *role*.

        Raises:
            PreconditionError: there is no login for code of others.
            psycopg.Error: the worker is not a member of *role*.
        """
        if self._opened is None:
            await self._open()
        await make_trampoline(self._worker, role)

    async def read(self, statement: RoleStatement) -> str | None:
        """Execute a statement in a read-only transaction of its own.

        Raises:
            psycopg.Error: raised by the statement; or the role has no privilege.
            PreconditionError: there is no login for code of others.
        """
        conn, login = self._opened or await self._open()
        return await through_trampolines(
            lambda: _read(conn, login, statement),
            lambda: nullcontext(self._worker),
            role=statement.run_as,
        )

    async def stream(
        self, statement: RoleStatement, snapshot: str, size: int
    ) -> AsyncGenerator[Sequence[str]]:
        """Yield the rows of a statement in portions of *size*, each row as the text of a record.

        Without a time limit.  The transaction is rolled back: nothing is executed at its end.

        Args:
            snapshot: exported, in which they are read.

        Raises: as `read`.
        """
        conn, login = self._opened or await self._open()
        await make_trampoline(self._worker, statement.run_as)
        begin = sql.SQL(
            "begin isolation level repeatable read; set transaction snapshot {}; {}"
        ).format(snapshot, sql.SQL(SETTINGS))  # pyright: ignore[reportArgumentType] - constants
        try:
            sent = await _begin(conn, login, statement, begin.as_string(conn))
            await sent.call({"sql": statement.text.decode(), "declare": True, "rows": True})
            fetch: dict[str, Json] = {"fetch": size, "rows": True}
            while found := json.loads(await sent.call(fetch) or "{}").get("rows"):
                yield found
        finally:
            if not conn.closed:
                await _close_frame(conn, _WHOLE.end)

    async def _open(self) -> tuple[Connection, ToolsLogin]:
        try:
            login = await read_login(self._worker)
        except Error as error:
            if error.sqlstate != "42501":
                raise
            raise PreconditionError(
                f'role "{self._worker.info.user}" cannot sign calls as the roles of agents',
                hint="Run select agent.grant_runner('…') for a login that executes runs.",
            ) from error
        dsn = login.dsn(self._worker.info.dsn, self._tools_dsn())
        try:
            conn = await connect(dsn, application="walagent evaluate", idle=self._idle)
        except LoginRefusedError as error:
            await log_in(self._worker, login, lambda: dsn, error)
            conn = await connect(dsn, application="walagent evaluate", idle=self._idle)
        conn.prepare_threshold = None  # code of others can replace what is prepared
        self._opened = conn, login
        return self._opened

    async def aclose(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            await self._opened[0].close()
            self._opened = None


@dataclass(frozen=True, slots=True)
class _Sending:
    """Sends signed requests in a transaction, in bytes that need not be the database's encoding."""

    conn: Connection
    login: ToolsLogin
    run_as: str
    transaction: str
    actor: Actor | None

    async def call(self, request: Mapping[str, Json], texts: bytes = b"{}") -> str | None:
        signed = orjson.dumps(
            {
                "worker": self.login.worker,
                "transaction": self.transaction,
                "run_as": self.run_as,
                "path": "",
                **acting(self.actor),
                **request,
            },
            exact,
        )
        cursor = AsyncRawCursor(self.conn)
        await cursor.execute(_READ, [RawText(signed), self.login.signature(signed), RawText(texts)])
        return await _text(cursor)


async def _text(cursor: AsyncRawCursor[Any]) -> str | None:
    row = await cursor.fetchone()
    text = row[0] if row else None
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text


async def _begin(
    conn: Connection, login: ToolsLogin, statement: RoleStatement, statements: str
) -> _Sending:
    name = await name_transaction(conn, statements)
    sent = _Sending(conn, login, statement.run_as, name, statement.actor)
    if has_no_encoding(conn):
        await conn.execute("set local client_encoding = 'SQL_ASCII'")
    return sent


async def read_in(
    conn: Connection, text: bytes, texts: bytes = b"{}", arguments: Json = None
) -> str | None:
    """Execute a statement in the open transaction, as the role that it has; see `RoleStatement`."""
    if has_no_encoding(conn):
        await conn.execute("set local client_encoding = 'SQL_ASCII'")
    cursor = AsyncRawCursor(conn)
    await cursor.execute(text, [RawJsonb(orjson.dumps(arguments, exact)), RawTexts(texts)])
    return await _text(cursor)


class LoginReader(RoleReader):
    """Executes statements as the tools' login itself, whatever role they name.

    It has no privilege of its own, so code of others can become no one else.
    """

    async def read(self, statement: RoleStatement) -> str | None:
        """Implement `RoleReader.read`; the result must be one text."""
        conn, _ = self._opened or await self._open()
        own = f"set transaction read only; set local statement_timeout = '{statement.timeout}'"
        try:
            await conn.execute(f"{_WHOLE.begin}; {own}; set local search_path = ''".encode())
            return await read_in(conn, statement.text, statement.texts, statement.arguments)
        finally:
            if not conn.closed:
                await _close_frame(conn, _WHOLE.end)


async def _read(conn: Connection, login: ToolsLogin, statement: RoleStatement) -> str | None:
    request: dict[str, Json] = {
        "sql": statement.text.decode(),
        "arguments": statement.arguments,
        "rows": statement.rows,
        "path": statement.path,
        "settings": dict(statement.settings),
    }
    frame = _WHOLE if conn.info.transaction_status is TransactionStatus.IDLE else _INNER
    begin = f"{frame.begin}; set local statement_timeout = '{statement.timeout}'"
    try:
        sent = await _begin(conn, login, statement, begin)
        return await sent.call(request, statement.texts)
    finally:
        if not conn.closed:
            await _close_frame(conn, frame.end)


async def _close_frame(conn: Connection, end: str) -> None:
    """End the transaction; close a connection from which nothing was discarded."""
    try:
        await conn.execute(end.encode())
    except BaseException:
        await conn.close()
        raise


@asynccontextmanager
async def open_role_reader(
    worker: Connection, tools_dsn: Callable[[], str] = lambda: ""
) -> AsyncGenerator[RoleReader]:
    """Yield a reader, and close its connection."""
    reader = RoleReader(worker, tools_dsn)
    try:
        yield reader
    finally:
        await reader.aclose()
