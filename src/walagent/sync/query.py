"""Shapes of queries: named on the server, read as a principal, and run again when a table changes.

What a query shows depends on more than the rows of one table: on joins, on row-level security, on
who is a member of what.  So PostgreSQL decides: after a change of a table that the query reads, it
runs again, and the difference by key is what clients receive.
"""

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from psycopg import AsyncClientCursor, AsyncConnection
from psycopg.sql import SQL, Identifier

from walagent.base.concurrency import Breath
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
_STEPS: Final = 500  # rows between two looks at the clock
_AGAIN: Final = 30.0  # seconds after which it runs without a change: roles expire
# What row-level security reads in functions, which no plan shows.
_ALWAYS: Final[frozenset[Table]] = frozenset(
    ("agent", name) for name in ("tenant", "principal", "role_grant", "member")
)

K = TypeVar("K")
R = TypeVar("R")
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


@dataclass(frozen=True)
class Found(Generic[K, R]):
    """The rows of a query in one snapshot."""

    visible: Visible
    types: Mapping[str, int]
    rows: Mapping[K, R]  # by key


@dataclass(frozen=True, slots=True)
class Rows:
    """What the rows of a shape are, and how they are shown.

    Args:
        schema: the header electric-schema.
        relation: what messages name.
        key: the columns that tell them apart.
        is_full: whether updates and deletes have the whole row.
    """

    schema: str
    relation: tuple[str, str]
    key: Sequence[str]
    is_full: bool = False


class ComparedShape(LiveShape, Generic[K, R]):
    """Rows that are read again after changes; clients receive the difference.

    Args:
        rows: by key.
        write: returns a key as clients have it, and so the values of a row.
    """

    def __init__(
        self,
        shown: Rows,
        rows: Mapping[K, R],
        write: tuple[Callable[[K], str], Callable[[R], Texts]],
        limits: EngineLimits,
    ) -> None:
        super().__init__(shown.schema, limits)
        self._shown = shown
        self._rows = rows
        self._key_of, self._texts = write
        self._touched: dict[int, int] = {}  # transaction by its 32-bit ID: commit LSN
        self._wanted = asyncio.Event()
        self.ready.set_result(None)

    def touch(self, xid: int, lsn: int) -> None:
        """Note that a transaction changed a table that is read."""
        self._touched[xid] = lsn
        self._wanted.set()

    async def follow(
        self,
        read: Callable[[], Awaitable["Found[K, R]"]],
        position: Callable[[], int],
        share: float = 1.0,
    ) -> None:
        """Read the rows again whenever it is wanted, until it has ended.

        Args:
            read: reads them.
            position: up to where the stream was followed.
            share: of the time that reading may take.
        """
        due = 0.0  # when it may be read again
        while not self.ended:
            try:
                async with asyncio.timeout(_AGAIN):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            started = time.monotonic()
            await asyncio.sleep(max(_DEBOUNCE, due - started))
            self._wanted.clear()
            started = time.monotonic()
            await self.compare(await read(), position())
            due = started + (time.monotonic() - started) / share

    async def compare(self, found: "Found[K, R]", position: int) -> None:
        """Append the difference, as one transaction."""
        # A commit can reach the stream before snapshots show it: then the rows are read once more.
        seen = {xid: lsn for xid, lsn in self._touched.items() if found.visible.has(xid)}
        for xid in seen:
            del self._touched[xid]
        if self._touched:
            self._wanted.set()
        changes = [each async for each in self._changes(found.rows)]
        self._rows = found.rows
        if not changes and not seen:
            return
        last = self.log.last
        lsn = max([*seen.values(), position, 0 if last is None else last.lsn + 1])
        txids = [number for xid in seen for number in {xid, found.visible.widen(xid)}]
        entry, breath = self.log.entry(), Breath()
        for n, (operation, key, value, old) in enumerate(changes):
            headers: dict[str, Json] = {"txids": txids, "lsn": str(lsn), "op_position": 2 * n}
            if n == len(changes) - 1:
                headers["last"] = True
            if not entry.add(2 * n, self._message(operation, key, value, headers, old)):
                self.finish()
                return
            await breath.if_due()
        if entry.add(2 * len(changes), snapshot_end_of(found.visible)):
            self.append(lsn, entry)
        else:
            self.finish()

    async def _changes(
        self, rows: Mapping[K, R]
    ) -> AsyncGenerator[tuple[str, str, Texts, Texts | None]]:
        """Yield operation, key, value and old value of what differs from the rows of before."""
        shown, before, texts, breath = self._shown, self._rows, self._texts, Breath()
        written = self._key_of
        for number, (key, row) in enumerate(rows.items()):
            if not number % _STEPS:
                await breath.if_due()
            if (old := before.get(key)) is None:
                yield "insert", written(key), texts(row), None
            elif old != row:
                new, was = texts(row), texts(old)
                changed = {n for n, v in new.items() if was.get(n) != v}
                if shown.is_full:
                    yield "update", written(key), new, {n: was.get(n) for n in changed}
                elif changed:
                    keep = changed.union(shown.key)
                    value = {n: v for n, v in new.items() if n in keep}
                    yield "update", written(key), value, None
        for number, (key, row) in enumerate(before.items()):
            if not number % _STEPS:
                await breath.if_due()
            if key not in rows:
                was = texts(row)
                value = was if shown.is_full else {n: was[n] for n in shown.key}
                yield "delete", written(key), value, None

    def _message(
        self,
        operation: str,
        key: str,
        value: Texts,
        headers: Mapping[str, Json] | None = None,
        old: Texts | None = None,
    ) -> bytes:
        return row_message(operation, self._shown.relation, key, value, headers or {}, old)


def snapshot_end_of(visible: Visible) -> bytes:
    """Return the control message after what a snapshot has."""
    return snapshot_end(visible.xmin, visible.xmax, sorted(visible.running))


class QueryShape(ComparedShape[str, Texts]):
    """The rows of a query, as one principal sees them."""

    def __init__(
        self, definition: QueryDefinition, found: Found[str, Texts], limits: EngineLimits
    ) -> None:
        named = definition.query
        shown = Rows(query_schema(found.types, named.key), ("shape", named.name), named.key)
        super().__init__(shown, found.rows, (str, lambda row: row), limits)
        messages = [self._message("insert", key, row) for key, row in found.rows.items()]
        self.snapshot = [b",".join([*messages, snapshot_end_of(found.visible)])]
        self.definition = definition

    @property
    def size(self) -> int:
        """Return the bytes of its snapshot, its log, and the rows to compare with."""
        return super().size + sum(map(len, self.snapshot))


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
) -> Found[str, Texts]:
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
