"""Reading with a statement that was judged: read-only, bounded in cost, time, rows and bytes."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, cast

from psycopg import AsyncConnection, Error, sql
from psycopg.abc import Loader
from psycopg.adapt import Transformer
from psycopg.pq import Format

from walagent.errors import StatementRefusedError
from walagent.message import Json
from walagent.store.guard.analysis import Allowed, Column, analyse, describe, refused_by_server
from walagent.store.guard.statement import Statement, read_statement
from walagent.store.translate import is_passing

Connection = AsyncConnection[Any]

_BATCH: Final = 50  # rows that are fetched at once


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one statement may take.

    Args:
        rows: that are given back at most.
        cell: characters of one value; a longer one is cut.
        total: bytes of all values together; reading stops beyond.
        seconds: that the statement may run.
        lock_seconds: that it may wait for a lock.
        cost: of the plan, in the planner's own units; a dearer one is refused.
    """

    rows: int = 1000
    cell: int = 10_000
    total: int = 4 << 20
    seconds: float = 30.0
    lock_seconds: float = 2.0
    cost: float = 5e6


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gave.

    Args:
        cut: what was left out, in words; empty when everything is here.
    """

    columns: Sequence[Column]
    rows: Sequence[tuple[object, ...]]
    cut: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    """Judges and runs statements with the rights of the connection's role.

    Args:
        conn: in autocommit, of a role that `check_role` found harmless, and used by nobody else.
        analyst: a connection to the primary, where *conn* leads to a standby: a standby cannot
            make the view.  The same role, on the same database.
        search_path: of the statements.
    """

    conn: Connection
    analyst: Connection | None = None
    allowed: Allowed = field(default_factory=Allowed)
    limits: Limits = field(default_factory=Limits)
    search_path: str = '"$user", public'

    async def judge(self, text: str) -> tuple[Statement, Sequence[Column]]:
        """Say what a statement is, if it may run.

        Raises:
            StatementRefusedError: it may not.
        """
        statement = read_statement(text)
        try:
            async with _Undone(self, self.conn, "read only"):
                columns = await describe(self.conn, statement)
            analyst = self.analyst or self.conn
            async with _Undone(self, analyst, "read write"):
                await analyse(analyst, statement, self.allowed)
            async with _Undone(self, self.conn, "read only"):
                await self._check_cost(statement)
        except Error as error:
            if is_passing(error):
                raise
            raise refused_by_server(error) from error
        return statement, columns

    async def read(self, text: str) -> Answer:
        """Run a statement, if it may run.

        Raises:
            StatementRefusedError: it may not, or PostgreSQL stopped it.
        """
        statement, columns = await self.judge(text)
        try:
            async with _Undone(self, self.conn, "read only"):
                if statement.explain is not None:
                    return await self._explain(statement)
                return await self._read(statement, columns)
        except Error as error:
            if is_passing(error) and error.sqlstate != "57014":  # its own time-out
                raise
            raise refused_by_server(error) from error

    async def _check_cost(self, statement: Statement) -> None:
        """Ask the planner; it also checks the role's privileges."""
        text = f"explain (format json)\n{statement.text}"
        cursor = self.conn.cursor()
        async for (plan,) in cursor.stream(text):  # pyright: ignore[reportArgumentType]
            cost: float = plan[0]["Plan"]["Total Cost"]
            if cost > self.limits.cost:
                raise StatementRefusedError(
                    f"the planner puts the cost at {cost:,.0f}; {self.limits.cost:,.0f} are allowed"
                )

    async def _explain(self, statement: Statement) -> Answer:
        options = f" ({', '.join(statement.explain)})" if statement.explain else ""
        cursor = self.conn.cursor()
        text = f"explain{options}\n{statement.text}"
        rows = [row async for row in cursor.stream(text)]  # pyright: ignore[reportArgumentType]
        return Answer([Column("QUERY PLAN", 25)], rows)

    async def _read(self, statement: Statement, columns: Sequence[Column]) -> Answer:
        """Read the statement as a subquery, so that the server itself cuts what is too long."""
        names = [f"c{n}" for n in range(len(columns))]
        wanted = ", ".join(f"left({name}::text, {self.limits.cell + 1})" for name in names)
        alias = f"q ({', '.join(names)})" if names else "q"
        text = f"{statement.wrapped(f'select {wanted}', alias)} limit {self.limits.rows + 1}"
        types = Transformer(self.conn)
        loaders = [types.get_loader(column.type_oid, Format.TEXT) for column in columns]
        reading = _Reading(columns, self.limits, loaders)
        stream = self.conn.cursor().stream(text, size=_BATCH)  # pyright: ignore[reportArgumentType]
        async with aclosing(cast("AsyncGenerator[tuple[str | None, ...]]", stream)) as rows:
            async for row in rows:
                if not reading.take(row):
                    break
        return reading.answer()


class _Reading:
    """Rows as they come in as text, until there are enough."""

    def __init__(
        self, columns: Sequence[Column], limits: Limits, loaders: Sequence[Loader]
    ) -> None:
        self._columns = columns
        self._limits = limits
        self._loaders = loaders
        self._rows: list[tuple[object, ...]] = []
        self._bytes = 0
        self._long: set[str] = set()
        self._cut: list[str] = []

    def take(self, row: Sequence[str | None]) -> bool:
        """Take a row in; False when it was one too many."""
        if len(self._rows) == self._limits.rows:
            self._cut.append(f"only the first {self._limits.rows:,} rows")
            return False
        self._bytes += sum(len(text) for text in row if text is not None)
        if self._bytes > self._limits.total:
            self._cut.append(f"only the first {len(self._rows):,} rows; they are large")
            return False
        self._rows.append(tuple(self._value(n, text) for n, text in enumerate(row)))
        return True

    def _value(self, n: int, text: str | None) -> object:
        if text is None:
            return None
        if len(text) > self._limits.cell:
            self._long.add(self._columns[n].name)
            return text[: self._limits.cell] + "…"
        try:
            return self._loaders[n].load(text.encode())
        except Exception:  # noqa: BLE001 - infinity, BC and such, which Python's types lack
            return text

    def answer(self) -> Answer:
        """Give what came."""
        long = [f"long values of {name}" for name in sorted(self._long)]
        return Answer(self._columns, self._rows, (*self._cut, *long))


class _Undone:
    """A transaction that is always rolled back, with the guard's settings in it."""

    def __init__(self, guard: Guard, conn: Connection, mode: str) -> None:
        self._conn = conn
        self._mode = mode
        limits = guard.limits
        self._settings: Mapping[str, Json] = {
            "search_path": guard.search_path,
            "statement_timeout": str(round(limits.seconds * 1000)),
            "lock_timeout": str(round(limits.lock_seconds * 1000)),
            "idle_in_transaction_session_timeout": str(round(limits.seconds * 2000)),
            "standard_conforming_strings": "on",
            "row_security": "on",
            "jit": "off",
            "client_min_messages": "error",
        }

    async def __aenter__(self) -> None:
        await self._conn.execute(f"begin transaction {self._mode}".encode())
        await self._conn.execute(
            sql.SQL("select {}").format(
                sql.SQL(", ").join(
                    sql.SQL("set_config({}, {}, true)").format(name, value)
                    for name, value in self._settings.items()
                )
            )
        )

    async def __aexit__(self, *_: object) -> None:
        async with asyncio.timeout(10):
            await self._conn.rollback()
