"""Read and write tables of others for principals, as roles that the file names.

Their types, policies, triggers and functions are code of others.  So each statement goes through
the trampoline of its role, on a connection whose login has no rights (`store/tool_connections`);
policies see tenant and principal in agent.current_tenant() and agent.current_principal().
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson
from psycopg import AsyncClientCursor

from walagent.domain.tenant import Actor
from walagent.errors import WalagentError
from walagent.http.shares import Shares
from walagent.message import Json
from walagent.postgres import pgtypes
from walagent.postgres.connection import TEXT_FORMS
from walagent.replication.sinks import Table
from walagent.store.errors import translating
from walagent.store.sessions.connections import open_pool
from walagent.store.sessions.step_session import split_record
from walagent.store.sessions.tool_connections import (
    SignedFunction,
    ToolConnections,
    ToolTransaction,
    name_transaction,
    open_tool_connections,
)
from walagent.store.trampolines import TRAMPOLINE_LOST, through_trampolines
from walagent.sync.query import Found, QueryDefinition, Texts, bound, key_of, tables_of_plan
from walagent.sync.snapshot import read_snapshot
from walagent.telemetry.log import log

_CONNECTIONS: Final = 4
_WAITING: Final = 2_000
_CHECKED: Final = 10.0  # seconds until a role is looked at again
_PATH: Final = "pg_catalog, public, pg_temp"
_WRITE: Final = "; ".join([
    "set local search_path = pg_catalog",
    "set local statement_timeout = '20s'",
    *(f"set local {name} = '{value}'" for name, value in TEXT_FORMS.items()),
])  # fmt: skip
_READ: Final = f"set transaction isolation level repeatable read; {_WRITE}"
_TRUSTED: Final = (
    "select rolsuper or rolbypassrls from pg_catalog.pg_roles where rolname = %s and rolname <> ''"
)
# One row at least: so names and types are known of a query that finds none.
_ROWS: Final = (
    "select q.* from (values (1)) as one"
    " left join (select true as walagent_row, q.* from ({}) as q) as q on true"
)

T = TypeVar("T")


class RoleUnusableError(WalagentError):
    """The role of the file cannot be used; the log says why."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a statement has written.

    Args:
        row: its first one, if it returns rows.
    """

    txid: str
    count: int
    types: Mapping[str, int]
    row: Texts | None


class RoleSessions:
    """Connections for the roles of named queries and mutations, opened at their first use.

    Args:
        dsn: the login that signs.
        tools_dsn: of the login for code of others, if it is set.
    """

    def __init__(self, dsn: Callable[[], str], tools_dsn: Callable[[], str]) -> None:
        self._dsn = dsn
        self._tools_dsn = tools_dsn
        self._wanted = asyncio.Event()
        self._opened: asyncio.Future[ToolConnections] | None = None
        self._checked: dict[str, float] = {}  # when a role was found to be restricted
        # What waits is a request or a shape, which are counted, too.
        self._places = Shares(
            "statements", _CONNECTIONS, of_tenant=3, of_principal=2, waiting=_WAITING
        )

    async def run(self) -> None:
        """Open connections when they are wanted; does not end."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            opened = self._opened
            if opened is None:
                continue
            try:
                async with (
                    open_pool(self._dsn, size=_CONNECTIONS, application="walagent sync") as pool,
                    open_tool_connections(pool, self._dsn, tools_dsn=self._tools_dsn) as tools,
                ):
                    opened.set_result(tools)
                    await asyncio.Event().wait()
            except WalagentError as error:
                self._opened = None
                if not opened.done():
                    opened.set_exception(error)

    async def tables(self, definition: QueryDefinition, role: str) -> frozenset[Table]:
        """Return the tables that a query reads.

        Raises:
            WalagentError: the role may not read them, or cannot be used.
        """

        async def explain(transaction: ToolTransaction) -> frozenset[Table]:
            text = f"explain (verbose, format json) {bound(transaction.conn, definition)}"
            found = await _call(transaction, "read_as", role, text)
            plan = split_record(found["rows"][0])[0]
            return tables_of_plan(orjson.loads(plan or "[]"))

        return await self._use(role, definition.actor, _READ, explain)

    async def read(self, definition: QueryDefinition, role: str) -> Found[str, Texts]:
        """Return the rows of a query.

        Raises:
            WalagentError: as `tables`.
        """

        async def read(transaction: ToolTransaction) -> Found[str, Texts]:
            visible = await read_snapshot(transaction.conn)
            text = _ROWS.format(bound(transaction.conn, definition))
            found = await _call(transaction, "read_as", role, text)
            types = _types(found)
            rows: dict[str, Texts] = {}
            for record in found["rows"]:
                row = dict(zip(types, split_record(record), strict=True))
                if row.pop("walagent_row") is not None:
                    rows[key_of(definition.query, row)] = row
            del types["walagent_row"]
            return Found(visible, types, rows)

        return await self._use(role, definition.actor, _READ, read)

    async def write(
        self,
        role: str,
        actor: Actor,
        statement: str,
        values: Mapping[str, str | None],
    ) -> Written:
        """Execute a statement for a principal, in one transaction; nothing is written if it fails.

        Raises:
            WalagentError: the statement failed, or the role cannot be used.
        """

        async def write(transaction: ToolTransaction) -> Written:
            cursor = await transaction.conn.execute("select pg_current_xact_id()::text")
            row = await cursor.fetchone()
            text = AsyncClientCursor(transaction.conn).mogrify(statement.encode(), values)
            found = await _call(transaction, "write_as", role, text)
            types, records = _types(found), found["rows"] or ()
            first = dict(zip(types, split_record(records[0]), strict=True)) if records else None
            return Written(row[0] if row else "", found["count"], types, first)

        return await self._use(role, actor, _WRITE, write)

    async def _use(
        self, role: str, actor: Actor, begin: str, use: Callable[[ToolTransaction], Awaitable[T]]
    ) -> T:
        """Execute something as a role, which has a trampoline afterwards."""

        async def used() -> T:
            async with self._transaction(actor, begin) as transaction:
                return await use(transaction)

        try:
            await self._check(role)
            async with self._places.in_turn(actor):
                return await through_trampolines(used, self._worker, role=role)
        except WalagentError as error:
            if error.sqlstate in _OF_ROLE or isinstance(error, RoleUnusableError):
                log.error("sync.role_unusable", role=role, error=error)
                raise RoleUnusableError(f'role "{role}" cannot be used') from error
            raise

    async def _check(self, role: str) -> None:
        """Refuse a role that no policy restricts."""
        if time.monotonic() - self._checked.get(role, -_CHECKED) < _CHECKED:
            return
        async with self._worker() as conn:
            row = await (await conn.execute(_TRUSTED, (role,))).fetchone()
        if row is None:
            raise RoleUnusableError(f'role "{role}" does not exist')
        if row[0]:
            raise RoleUnusableError(
                f'role "{role}" is subject to no row-level security',
                hint="Name a role without SUPERUSER and BYPASSRLS in run_as.",
            )
        self._checked[role] = time.monotonic()

    async def _tools(self) -> ToolConnections:
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._wanted.set()
        return await asyncio.shield(self._opened)

    @asynccontextmanager
    async def _worker(self) -> AsyncGenerator[Any]:
        tools = await self._tools()
        with translating():
            async with tools.worker.connection() as conn:
                yield conn

    @asynccontextmanager
    async def _transaction(self, actor: Actor, begin: str) -> AsyncGenerator[ToolTransaction]:
        tools = await self._tools()
        with translating():
            async with (
                tools.connection(actor) as tool,
                tool.conn.transaction(force_rollback=begin == _READ),
            ):
                name = await name_transaction(tool.conn, begin)
                yield ToolTransaction(tool.conn, tool.login, name, actor)


_OF_ROLE: Final = frozenset({"WA008", TRAMPOLINE_LOST})


async def _call(
    transaction: ToolTransaction,
    function: SignedFunction,
    role: str,
    text: str,
) -> dict[str, Any]:
    request: dict[str, Json] = {"run_as": role, "sql": text, "path": _PATH, "rows": True}
    return orjson.loads(await transaction.call(function, request))


def _types(found: Mapping[str, Any]) -> dict[str, int]:
    """Return the types of columns; of a type without a binary form, text."""
    names = found["names"] or ()
    return dict(zip(names, found["types"] or [pgtypes.TEXT] * len(names), strict=True))
