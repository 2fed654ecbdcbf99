"""Shapes of queries: named on the server, read as a principal, and run again when a table changes.

What a query shows depends on more than the rows of one table: on joins, on row-level security, on
who is a member of what.  So PostgreSQL decides: after a change of a table that the query reads, it
runs again, and the difference by key is what clients receive.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, cast

from psycopg import AsyncClientCursor, AsyncConnection
from psycopg.sql import SQL, Identifier

from walagent.domain.tenant import Actor
from walagent.errors import WalagentError
from walagent.guard.literals import split_literals
from walagent.message import Json
from walagent.replication.sinks import Table
from walagent.store.queries import query
from walagent.sync.limits import EngineLimits
from walagent.sync.messages import row_message, snapshot_end
from walagent.sync.shape import LiveShape
from walagent.sync.snapshot import Visible, copy_rows, read_snapshot, reading
from walagent.sync.table import key_part, query_schema

_DEBOUNCE: Final = 0.01  # seconds in which changes share one run of the query
_AGAIN: Final = 30.0  # seconds after which it runs without a change: roles expire
# What row-level security reads in functions, which no plan shows.
_ALWAYS: Final[frozenset[Table]] = frozenset(
    ("agent", name) for name in ("tenant", "principal", "role_grant", "member")
)

Texts = Mapping[str, str | None]
Connecting = AbstractAsyncContextManager[AsyncConnection[Any]]


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query that the server offers.

    Args:
        text: with a placeholder `%(name)s` for each parameter.
        key: the columns that tell its rows apart.
        run_as: the role that reads tables of others; None: it reads walagent's alone.
    """

    name: str
    text: str
    key: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    run_as: str | None = None


@dataclass(frozen=True, slots=True)
class QueryDefinition:
    """A query with its parameters, for one principal and the scopes of its token."""

    query: NamedQuery
    values: tuple[str | None, ...]
    actor: Actor


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of a query in one snapshot."""

    visible: Visible
    types: Mapping[str, int]
    rows: Mapping[str, Texts]  # by key


class QueryShape(LiveShape):
    """The rows of a query, as one principal sees them."""

    def __init__(self, definition: QueryDefinition, found: Found, limits: EngineLimits) -> None:
        super().__init__(query_schema(found.types, definition.query.key), limits)
        self.definition = definition
        self.snapshot = [
            b",".join(
                [
                    *(self._message("insert", key, row) for key, row in found.rows.items()),
                    snapshot_end(
                        found.visible.xmin, found.visible.xmax, sorted(found.visible.running)
                    ),
                ]
            )
        ]
        self._found = found
        self._touched: dict[int, int] = {}  # transaction by its 32-bit ID: commit LSN
        self._wanted = asyncio.Event()
        self.ready.set_result(None)

    @property
    def size(self) -> int:
        """Return the bytes of its snapshot, its log, and the rows to compare with."""
        return super().size + sum(map(len, self.snapshot))

    def touch(self, xid: int, lsn: int) -> None:
        """Note that a transaction changed a table that the query reads."""
        self._touched[xid] = lsn
        self._wanted.set()

    async def follow(
        self, read: Callable[[], Awaitable[Found]], position: Callable[[], int]
    ) -> None:
        """Run the query again whenever it is wanted; does not end.

        Args:
            read: runs it.
            position: up to where the stream was followed.
        """
        while True:
            try:
                async with asyncio.timeout(_AGAIN):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(_DEBOUNCE)
            self._wanted.clear()
            self._compare(await read(), position())

    def _compare(self, found: Found, position: int) -> None:
        """Append the difference, as one transaction."""
        # A commit can reach the stream before snapshots show it: then the query runs once more.
        seen = {xid: lsn for xid, lsn in self._touched.items() if found.visible.has(xid)}
        for xid in seen:
            del self._touched[xid]
        if self._touched:
            self._wanted.set()
        before, self._found = self._found.rows, found
        changes: list[tuple[str, str, Texts]] = []
        for key, row in found.rows.items():
            old = before.get(key)
            if old is None:
                changes.append(("insert", key, row))
            elif old != row:
                names = self.definition.query.key
                value = {n: v for n, v in row.items() if n in names or old.get(n) != v}
                changes.append(("update", key, value))
        for key, row in before.items():
            if key not in found.rows:
                changes.append(("delete", key, {n: row[n] for n in self.definition.query.key}))
        if not changes and not seen:
            return
        last = self.log.last
        lsn = max([*seen.values(), position, 0 if last is None else last.lsn + 1])
        txids = [number for xid in seen for number in {xid, found.visible.widen(xid)}]
        messages = [
            self._message(
                operation,
                key,
                value,
                {"txids": txids, "lsn": str(lsn), "op_position": 2 * n}
                | ({"last": True} if n == len(changes) - 1 else {}),
            )
            for n, (operation, key, value) in enumerate(changes)
        ]
        visible = found.visible
        messages.append(snapshot_end(visible.xmin, visible.xmax, sorted(visible.running)))
        if not self.extend(lsn, zip(count(0, 2), messages)):
            self.finish()

    def _message(
        self, operation: str, key: str, value: Texts, headers: Mapping[str, Json] | None = None
    ) -> bytes:
        return row_message(
            operation, ("shape", self.definition.query.name), key, value, headers or {}
        )


@asynccontextmanager
async def acting(
    conn: AsyncConnection[Any], definition: QueryDefinition, role: str | None
) -> AsyncGenerator[None]:
    """Read as the principal, in one snapshot."""
    async with reading(conn):
        actor = definition.actor
        await conn.execute(
            "select agent_internal.assume(%s, %s, %s)",
            (actor.tenant, actor.principal, [*actor.scopes]),
        )
        if role is not None:
            await conn.execute(SQL("set local role {}").format(Identifier(role)))
        yield


async def run_query(
    conn: AsyncConnection[Any], definition: QueryDefinition, role: str | None
) -> Found:
    """Run a query as its principal.

    Args:
        role: see `reading_role`.

    Raises:
        WalagentError: it is invalid for these parameters, or the database is unavailable.
    """
    text = bound(conn, definition)
    rows: dict[str, Texts] = {}
    async with acting(conn, definition, role):
        visible = await read_snapshot(conn)
        columns = f"select * from ({text}) as q limit 0"  # noqa: S608 - of the server
        cursor = await conn.execute(columns.encode())
        types = {each.name: each.type_code for each in cursor.description or ()}
        async for part in copy_rows(conn, text):
            for cells in part:
                row = dict(zip(types, cells, strict=True))
                rows[key_of(definition.query, row)] = row
    return Found(visible, types, rows)


def key_of(query: NamedQuery, row: Texts) -> str:
    """Return the key of a row.

    Raises:
        WalagentError: the row lacks a column of the key.
    """
    try:
        return f'"shape"."{query.name}"' + "".join(key_part(row[n]) for n in query.key)
    except KeyError as error:
        raise WalagentError(f"shape {query.name} has no column {error}") from error


def bound(conn: AsyncConnection[Any], definition: QueryDefinition) -> str:
    """Return the query with its values as literals: COPY takes no parameters."""
    given = dict(zip(definition.query.parameters, definition.values, strict=True))
    return AsyncClientCursor(conn).mogrify(definition.query.text.encode(), given)


async def code_of_others(conn: AsyncConnection[Any], definition: QueryDefinition) -> str | None:
    """Name something in a query that is not walagent's or PostgreSQL's, without planning it.

    Planning could execute code of its owner, and so could the conversion of a literal.
    """
    async with conn.transaction(force_rollback=True):
        await conn.execute("set local search_path = pg_catalog")
        text = split_literals(bound(conn, definition)).empty
        await conn.execute(f"create temp view walagent_shape as select * from ({text}) q".encode())  # noqa: S608 - of the server
        row = await (await conn.execute(query("code_of_others"))).fetchone()
    return row[0] if row else None


async def tables_of_query(
    conn: AsyncConnection[Any], definition: QueryDefinition, role: str | None
) -> frozenset[Table]:
    """Return the tables that a query reads, with those of row-level security, as its plan says."""
    async with acting(conn, definition, role):
        explain = f"explain (verbose, format json) {bound(conn, definition)}"
        row = await (await conn.execute(explain.encode())).fetchone()
    return tables_of_plan(row[0] if row else [])


def tables_of_plan(plan: object) -> frozenset[Table]:
    """Return the tables that a plan reads, and those that decide about rows in functions."""
    # What policies read in agent_internal follows from the tables that are named in any case.
    return _ALWAYS | {table for table in _relations(plan) if table[0] != "agent_internal"}


def _relations(node: Any) -> Sequence[Table]:  # noqa: ANN401 - JSON of a plan
    match node:
        case dict():
            plan = cast("dict[str, Any]", node)
            found = [each for value in plan.values() for each in _relations(value)]
            if "Relation Name" in plan:
                found.append((str(plan.get("Schema", "")), str(plan["Relation Name"])))
            return found
        case list():
            return [each for value in cast("list[Any]", node) for each in _relations(value)]
        case _:
            return []
