"""Run a checked statement: read-only, with limits of cost, time, rows and bytes."""

import json
import re
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

from psycopg import AsyncConnection, Error, sql

from walagent.errors import StatementRefusedError
from walagent.guard.analysis import Allowlist, HiddenRows, analyze
from walagent.guard.deadline import within
from walagent.guard.literals import split_literals
from walagent.guard.outlet import Outlet
from walagent.guard.parsing import describe, refused_by_server
from walagent.guard.read_limits import ReadLimits
from walagent.guard.statement import Statement, read_statement
from walagent.message import Json
from walagent.postgres.connection import OWN_PATH
from walagent.rows.rows import ResultColumn, Rows, Texts
from walagent.store.errors import is_passing

Connection = AsyncConnection[Any]
T = TypeVar("T")

_COST: Final = re.compile(r"\(cost=[\d.]+\.\.([\d.]+) rows=\d+ width=\d+\)$")
_OWN_PATH: Final = OWN_PATH["search_path"]
_BATCH: Final = 50  # rows per fetch
_TEXT: Final = 25  # OID of type text
_IDLE: Final = 5000  # ms that the client may add to a statement's: it has other work


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A statement that may run, and why rows might be hidden from it."""

    statement: Statement
    columns: Sequence[ResultColumn]
    scope: HiddenRows

    def within_scope(self, rows: Rows) -> Rows:
        """Add to rows the reasons why others might be hidden.

        Views are listed only for an empty result; otherwise the view's rows are what was asked
        for.
        """
        said = list(self.scope.policies)
        if not rows.texts:
            said += [f"{view}: only rows that this view selects" for view in self.scope.views]
        return replace(rows, scope=tuple(said))


@dataclass(frozen=True, slots=True)
class Guard:
    """Checks and runs statements as the connection's role.

    Args:
        conn: in autocommit, for this object alone, of a role that passed `check_role`.
        analyst: if *conn* is connected to a standby, a connection to the primary with the same
            role and database: a standby cannot create the view.
        search_path: of the statements.
        outlet: executes checked statements; None: *conn* does, whose login can only read.
    """

    conn: Connection
    analyst: Connection | None = None
    allowed: Allowlist = field(default_factory=Allowlist)
    limits: ReadLimits = field(default_factory=ReadLimits)
    search_path: str = '"$user", public'
    outlet: Outlet | None = None

    @property
    def connections(self) -> Sequence[Connection]:
        """The connections that it uses."""
        analyst = [] if self.analyst is None else [self.analyst]
        executing: Sequence[Connection] = self.outlet.connections if self.outlet else ()
        return [self.conn, *analyst, *executing]

    async def evaluate(self, text: str) -> "CheckedStatement":
        """Check a statement.

        Raises:
            StatementRefusedError: it must not run.
        """
        return await self.within(self.limits.seconds, self._evaluate(read_statement(text)))

    async def read(self, text: str) -> Rows:
        """Check and run a statement.

        Raises:
            StatementRefusedError: it must not run, or it took too long; if PostgreSQL could not
                cancel it, the connection is closed.
        """
        return await self.within(self.limits.seconds, self._read(read_statement(text)))

    async def within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """Await what uses this guard's connections; see `deadline.within`."""
        return await within(self.connections, seconds, work)

    async def _evaluate(self, statement: Statement) -> "CheckedStatement":
        given, template = statement.text, split_literals(statement.text)
        # What is executed is what was analyzed, token by token.
        statement = replace(statement, text=template.whole)
        try:
            path = self.search_path
            async with _RolledBack(self, self.conn, "read only", _OWN_PATH):
                columns = await describe(self.conn, template, path)
            analyst = self.analyst or self.conn
            async with _RolledBack(self, analyst, "read write", _OWN_PATH):
                scope = await analyze(analyst, template, self.allowed, path)
            async with _RolledBack(self, self.conn, "read only", path):
                await self._check_cost(statement)
        except StatementRefusedError as error:
            if not given.startswith(template.empty[: error.position]):
                error.position = None  # of another text
            raise
        except Error as error:
            if is_passing(error):
                raise
            raise refused_by_server(error) from error
        if statement.analyzes and scope.policies:
            raise StatementRefusedError(
                "EXPLAIN ANALYZE counts rows that a policy hides: " + "; ".join(scope.policies)
            )
        return CheckedStatement(statement, columns, scope)

    async def _read(self, statement: Statement) -> Rows:
        evaluated = await self._evaluate(statement)
        statement = evaluated.statement
        try:
            async with _RolledBack(self, self.conn, "read only", self.search_path):
                if statement.explain is not None:
                    return await self._explain(statement)
                return evaluated.within_scope(await self._rows(statement, evaluated.columns))
        except Error as error:
            if is_passing(error) and error.sqlstate != "57014":  # its own timeout
                raise
            raise refused_by_server(error, executed=True) from error
        finally:
            if evaluated.scope.listed:  # they can leave things in the session
                await self.conn.close()

    async def _check_cost(self, statement: Statement) -> None:
        """Check the planner's cost estimate; planning also checks the role's privileges."""
        # Not as JSON, whose nesting is that of the statement.
        async with aclosing(self.stream(f"explain (format text)\n{statement.text}")) as lines:
            async for (line,) in lines:
                found = _COST.search(line or "")
                cost = float(found[1]) if found else 0.0
                if cost > self.limits.cost:
                    raise StatementRefusedError(
                        f"estimated cost {cost:,.0f} exceeds the limit of {self.limits.cost:,.0f}"
                        f"{self.limits.cost_setting}"
                    )
                break

    async def _explain(self, statement: Statement) -> Rows:
        options = f" ({', '.join(statement.explain)})" if statement.explain else ""
        stream = self.stream(f"explain{options}\n{statement.text}")
        rows = [(line if isinstance(line, str) else json.dumps(line),) async for (line,) in stream]
        return Rows([ResultColumn("QUERY PLAN", _TEXT)], rows)

    async def _rows(self, statement: Statement, columns: Sequence[ResultColumn]) -> Rows:
        """Run the statement as a subquery, so that the server truncates long values.

        format() calls the output function of a type; a cast could be defined by a user.
        """
        names = [f"c{n}" for n in range(len(columns))]
        wanted = ", ".join(
            f"case when {name} is distinct from null then"
            f" pg_catalog.left(pg_catalog.format('%s', {name}), {self.limits.cell + 1}) end"
            for name in names
        )
        alias = f"q ({', '.join(names)})" if names else "q"
        text = f"{statement.wrapped(f'select {wanted}', alias)} limit {self.limits.rows + 1}"
        reading = RowBuffer(columns, self.limits)
        async with aclosing(self.stream(text, _BATCH)) as found:
            async for row in found:
                if not reading.take(row):
                    break
        return reading.rows()

    def stream(self, text: str, size: int = 1) -> AsyncGenerator[Texts]:
        """Yield the rows of a statement that was checked; call it in a transaction of `conn`."""
        if self.outlet is not None:
            return self.outlet.stream(text, self.limits, self.search_path)
        stream = self.conn.cursor().stream(text, size=size)  # pyright: ignore[reportArgumentType]
        return cast("AsyncGenerator[Texts]", stream)


class RowBuffer:
    """Collects rows up to the limits."""

    def __init__(self, columns: Sequence[ResultColumn], limits: ReadLimits) -> None:
        self._columns = columns
        self._limits = limits
        self._rows: list[Texts] = []
        self._bytes = 0
        self._long: set[str] = set()
        self._cut: list[str] = []

    def take(self, row: Texts) -> bool:
        """Add a row; False if it exceeds a limit."""
        if len(self._rows) == self._limits.rows:
            self._cut.append(f"only the first {self._limits.rows:,} rows")
            return False
        self._bytes += sum(len(text) for text in row if text is not None)
        if self._bytes > self._limits.total:
            self._cut.append(f"only the first {len(self._rows):,} rows; they are large")
            return False
        self._rows.append(tuple(self._shortened(n, text) for n, text in enumerate(row)))
        return True

    def _shortened(self, n: int, text: str | None) -> str | None:
        if text is None or len(text) <= self._limits.cell:
            return text
        self._long.add(self._columns[n].name)
        return text[: self._limits.cell] + "…"

    def rows(self) -> Rows:
        """Return the collected rows."""
        long = [f"long values of {name}" for name in sorted(self._long)]
        return Rows(self._columns, self._rows, (*self._cut, *long))


class _RolledBack:
    """A transaction with the guard's settings that is always rolled back."""

    def __init__(self, guard: Guard, conn: Connection, mode: str, path: str) -> None:
        self._conn = conn
        self._mode = mode
        limits = guard.limits
        self._settings: Mapping[str, Json] = {
            "search_path": path,
            "statement_timeout": str(round(limits.seconds * 1000)),
            "lock_timeout": str(round(limits.lock_seconds * 1000)),
            "idle_in_transaction_session_timeout": str(round(limits.seconds * 1000 + _IDLE)),
            "standard_conforming_strings": "on",
            "transform_null_equals": "off",
            "row_security": "on",
            "client_min_messages": "error",
            # Values are parsed from their text, so the text must be exact and in one format.
            "datestyle": "ISO",
            "intervalstyle": "postgres",
            "bytea_output": "hex",
            "extra_float_digits": "1",
        }

    async def __aenter__(self) -> None:
        await self._conn.execute(f"begin transaction {self._mode}".encode())
        await self._conn.execute(
            sql.SQL("select {}").format(
                sql.SQL(", ").join(
                    sql.SQL("pg_catalog.set_config({}, {}, true)").format(name, value)
                    for name, value in self._settings.items()
                )
            )
        )

    async def __aexit__(self, *_: object) -> None:
        if not self._conn.closed:
            await self._conn.rollback()
