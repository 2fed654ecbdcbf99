"""The shapes of one process: made on request, kept up to date from the stream.

A shape is registered before its snapshot is read, and what arrives meanwhile is kept: a transaction
that the snapshot does not have is applied to it, one that it has is not.  A commit can reach the
stream before snapshots show it, so transactions of the last minute are kept, too.

The engine never waits for a client and never holds the stream back: it is a lossy sink.  When it
missed something, all shapes end, and clients fetch again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from psycopg import AsyncConnection, Error

from walagent import pgtypes
from walagent.change import Begin, Change, Commit, Idle, Item, Op, Piece
from walagent.connection import TEXT_FORMS
from walagent.errors import WalagentError
from walagent.log import log
from walagent.replication.fan_out import FanOut, Missed, Subscription
from walagent.replication.sinks import Table, Want
from walagent.store.connections import connect
from walagent.store.errors import translating
from walagent.sync.definition import Definition
from walagent.sync.evaluate import evaluate
from walagent.sync.expression import columns_of, quote_name, quote_text
from walagent.sync.log import CHUNK_BYTES
from walagent.sync.messages import snapshot_end
from walagent.sync.predicate import compile_where
from walagent.sync.query import QueryDefinition, QueryShape, run_query, tables_of_query
from walagent.sync.reading_role import reading_role
from walagent.sync.shape import Shape, ShapeChange, lacks
from walagent.sync.snapshot import Visible, copy_rows, read_snapshot, select
from walagent.sync.table import ShapeTable, read_table

_RING_SECONDS: Final = 60.0
_PUBLISHED: Final = """
select exists (select from pg_catalog.pg_publication_tables
                where pubname = 'walagent' and schemaname = %s and tablename = %s)
"""


class ShapeRefusedError(Exception):
    """A shape cannot be served.

    Args:
        status: of the HTTP answer.
        errors: what is wrong, by parameter.
    """

    def __init__(self, status: int, text: str, errors: dict[str, list[str]] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.errors = errors or {}


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What the shapes of a process may use.

    Args:
        shapes: how many there are at once.
        log_bytes: of one shape's log; beyond, it ends and clients fetch again.
        transaction_bytes: of one transaction that is held until its commit.
        idle: seconds after which a shape that nobody asks for ends.
    """

    shapes: int = 10_000
    log_bytes: int = 64 << 20
    transaction_bytes: int = 64 << 20
    ring_bytes: int = 16 << 20
    snapshot_bytes: int = 512 << 20
    idle: float = 3600.0
    publish: float = 30.0  # seconds until the table is published


@dataclass(slots=True)
class _Transaction:
    begin: Begin
    changes: list[Change] = field(default_factory=list[Change])
    tables: set[Table] = field(default_factory=set[Table])
    weight: int = 0
    at: float = 0.0
    end: int = 0


class ShapeEngine:
    """Makes shapes and keeps them up to date.

    Args:
        dsn: the login that reads snapshots.
    """

    def __init__(
        self, dsn: Callable[[], str], fan_out: FanOut, limits: EngineLimits | None = None
    ) -> None:
        self._dsn = dsn
        self._fan_out = fan_out
        self._limits = limits or EngineLimits()
        self._shapes: dict[Definition, Shape] = {}
        self._by_table: dict[Table, list[Shape]] = {}
        self._starting: dict[Shape, list[_Transaction]] = {}
        self._ring: deque[_Transaction] = deque()
        self._ring_weight = 0
        self._tables: dict[Table, Want] = {}
        self._subscription: Subscription | None = None
        self._open: _Transaction | None = None
        self._seen = 0  # commit LSN of the last transaction
        self._tasks: set[asyncio.Task[None]] = set()
        self._wide: Visible | None = None
        self._evaluator: AsyncConnection[Any] | None = None
        self._role: list[str | None] = []  # once it is known
        self._role_lock = asyncio.Lock()
        self._queries: dict[QueryDefinition, QueryShape] = {}
        self._by_query_table: dict[Table, set[QueryShape]] = {}
        self._reading: dict[Table, list[dict[int, int]]] = {}  # of shapes that are being made
        self.position = 0  # up to where the stream was followed: the end of a commit, or idle WAL

    async def run(self) -> None:
        """Follow the stream; does not end."""
        with self._fan_out.subscribe(self._tables) as subscription:
            subscription.tables = self._tables
            self._subscription = subscription
            async for item in subscription:
                await self._take(item)

    async def get(self, definition: Definition) -> Shape:
        """Return the shape of a definition, with its snapshot.

        Raises:
            ShapeRefusedError: there is no such table or column, or there are too many shapes.
        """
        shape = self._shapes.get(definition)
        if shape is None:
            shape = await self._make(definition)
        shape.used_at = time.monotonic()
        await asyncio.shield(shape.ready)
        if shape.ended:
            raise ShapeRefusedError(503, "the snapshot could not be read; try again")
        return shape

    def find(self, definition: Definition) -> Shape | None:
        """Return the shape of a definition, if there is one."""
        shape = self._shapes.get(definition)
        if shape is not None:
            shape.used_at = time.monotonic()
        return shape

    def drop(self, shape: Shape) -> None:
        """End a shape; the next request makes a new one, with another handle."""
        if self._shapes.get(shape.definition) is shape:
            del self._shapes[shape.definition]
        table = (shape.table.schema, shape.table.name)
        if shape in self._by_table.get(table, []):
            self._by_table[table].remove(shape)
        self._starting.pop(shape, None)
        shape.finish()

    def drop_all(self, reason: str) -> None:
        """End all shapes."""
        if count := len(self._shapes) + len(self._queries):
            log.warning("sync.shapes_ended", shapes=count, reason=reason)
        for shape in list(self._shapes.values()):
            self.drop(shape)
        for query in list(self._queries.values()):
            self._drop_query(query)

    async def connect(self) -> AsyncConnection[Any]:
        """Open a connection that reads rows."""
        return await connect(self._dsn(), application="walagent sync", settings=TEXT_FORMS)

    async def get_query(self, definition: QueryDefinition) -> QueryShape:
        """Return the shape of a query, with its snapshot.

        Raises:
            ShapeRefusedError: it reads a table that is not walagent's, or shapes are too many.
            WalagentError: the query fails.
        """
        shape = self._queries.get(definition)
        if shape is None or shape.ended:
            shape = await self._make_query(definition)
        shape.used_at = time.monotonic()
        return shape

    def find_query(self, definition: QueryDefinition) -> QueryShape | None:
        """Return the shape of a query, if there is one."""
        shape = self._queries.get(definition)
        if shape is not None:
            shape.used_at = time.monotonic()
        return shape

    async def _make_query(self, definition: QueryDefinition) -> QueryShape:
        self._evict()
        async with await self.connect() as conn:
            role = await self._read_as(conn)
            tables = await tables_of_query(conn, definition, role)
            others = [f"{schema}.{name}" for schema, name in tables if schema != "agent"]
            if others:
                text = f"shape {definition.query.name} reads {min(others)}, which is not walagent's"
                raise ShapeRefusedError(400, text)
            self._tables |= dict.fromkeys(tables, Want())  # all at once
            for schema, name in sorted(tables):
                await self._publish(conn, schema, name)
            # Registered before its rows are read: what changes meanwhile is a reason to read again.
            touched: dict[int, int] = {}
            for table in tables:
                self._reading.setdefault(table, []).append(touched)
            try:
                found = await run_query(conn, definition, role)
            finally:
                for table in tables:
                    self._reading[table].remove(touched)
        if (shape := self._queries.get(definition)) is not None and not shape.ended:
            return shape
        shape = QueryShape(definition, found, role, self._limits.log_bytes)
        self._queries[definition] = shape
        for table in tables:
            self._by_query_table.setdefault(table, set()).add(shape)
        for xid, lsn in touched.items():
            shape.touch(xid, lsn)
        task = asyncio.create_task(self._follow(shape), name=f"shape {definition.query.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return shape

    async def _read_as(self, conn: AsyncConnection[Any]) -> str | None:
        """Return the role that reads for principals, which is looked up once."""
        async with self._role_lock:
            if not self._role:
                self._role.append(await reading_role(conn))
        return self._role[0]

    async def _follow(self, shape: QueryShape) -> None:
        """Follow until nobody asks for the shape any more, or it fails."""
        following = asyncio.create_task(shape.follow(self))
        try:
            while not following.done() and not shape.ended:
                if time.monotonic() - shape.used_at > self._limits.idle:
                    return
                await asyncio.wait([following], timeout=10)
            if following.done():
                following.result()
        except Exception as error:  # noqa: BLE001 - its clients fetch again
            log.error("sync.shape_failed", table=shape.definition.query.name, error=error)
        finally:
            following.cancel()
            self._drop_query(shape)

    def _drop_query(self, shape: QueryShape) -> None:
        if self._queries.get(shape.definition) is shape:
            del self._queries[shape.definition]
        for shapes in self._by_query_table.values():
            shapes.discard(shape)
        shape.finish()

    # Making a shape

    async def _make(self, definition: Definition) -> Shape:
        self._evict()
        async with await self.connect() as conn:
            table = await check_definition(conn, definition)
        if (shape := self._shapes.get(definition)) is not None:  # made meanwhile
            return shape
        where = definition.where
        predicate = None if where is None else compile_where(where, table)
        shape = Shape(definition, table, predicate, self._limits.log_bytes)
        self._shapes[definition] = shape
        name = (table.schema, table.name)
        self._starting[shape] = [each for each in self._ring if _touches(each, name)]
        self._by_table.setdefault(name, []).append(shape)
        task = asyncio.create_task(self._start(shape), name=f"snapshot of {table.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return shape

    def _evict(self) -> None:
        now = time.monotonic()
        for shape in [s for s in self._shapes.values() if now - s.used_at > self._limits.idle]:
            self.drop(shape)
        if len(self._shapes) + len(self._queries) >= self._limits.shapes:
            raise ShapeRefusedError(503, f"there are {self._limits.shapes} shapes already")

    async def _start(self, shape: Shape) -> None:
        """Read the snapshot, then apply what it does not have."""
        try:
            await self._read(shape)
        except Exception as error:  # noqa: BLE001 - clients ask again
            log.warning("sync.snapshot_failed", table=shape.table.name, error=error)
            self.drop(shape)

    async def _read(self, shape: Shape) -> None:
        table = shape.table
        with translating():
            async with await self.connect() as conn:
                await self._publish(conn, table.schema, table.name)
                await conn.execute("begin isolation level repeatable read, read only")
                await conn.execute("set local search_path = pg_catalog")
                visible = await read_snapshot(conn)
                await self._copy(conn, shape)
                await conn.execute("commit")
        ending = snapshot_end(visible.xmin, visible.xmax, sorted(visible.running))
        shape.snapshot[-1:] = [b",".join([*shape.snapshot[-1:], ending])]
        self._wide = visible
        missed = self._starting.pop(shape, None)
        if missed is None:  # it was dropped meanwhile
            return
        for transaction in missed:
            if not visible.has(transaction.begin.xid):
                await self._apply([shape], transaction)
        if not shape.ended:
            shape.ready.set_result(None)

    async def _publish(self, conn: AsyncConnection[Any], schema: str, name: str) -> None:
        """Request the table, and wait until the stream carries it.

        Raises:
            ShapeRefusedError: the reader cannot publish it; it logs why.
        """
        self._tables[schema, name] = Want()
        try:
            async with asyncio.timeout(self._limits.publish):
                while True:
                    cursor = await conn.execute(_PUBLISHED, (schema, name))
                    row = await cursor.fetchone()
                    if row is not None and row[0]:
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError as error:
            text = f"table {schema}.{name} is not published yet; see publication.refused in the log"
            raise ShapeRefusedError(503, text) from error

    async def _copy(self, conn: AsyncConnection[Any], shape: Shape) -> None:
        if shape.definition.changes_only and shape.members is None:
            return
        names = list(dict.fromkeys([*shape.columns, *shape.table.key]))
        chunk, size, total = list[bytes](), 0, 0
        async for rows in copy_rows(conn, select(shape.table, names, shape.definition.where)):
            for row in rows:
                message = shape.snapshot_message(row, names)
                if shape.definition.changes_only:
                    continue
                chunk.append(message)
                size += len(message)
                if size >= CHUNK_BYTES:
                    shape.snapshot.append(b",".join(chunk))
                    total += size
                    chunk, size = [], 0
            if total + size > self._limits.snapshot_bytes:
                raise WalagentError(f"snapshot exceeds {self._limits.snapshot_bytes} bytes")
            await asyncio.sleep(0)
        if chunk:
            shape.snapshot.append(b",".join(chunk))

    # Following the stream

    async def _take(self, item: Item | Missed) -> None:
        match item:
            case Missed():
                self._open = None
                self._ring.clear()
                self._ring_weight = 0
                self.drop_all("the stream was faster than the shapes")
            case Begin():
                self._open = None if item.commit_lsn <= self._seen else _Transaction(item)
            case Piece() if self._open is not None:
                self._keep(self._open, item)
            case Commit() if self._open is not None:
                await self._commit(self._open, item)
                self._open = None
            case Idle():
                self.position = max(self.position, int(item.wal_end))
            case _:
                pass

    def _keep(self, transaction: _Transaction, piece: Piece) -> None:
        if self._by_query_table or self._reading:
            transaction.tables |= {(c.relation.schema, c.relation.name) for c in piece.changes}
        wanted = [
            change
            for change in piece.changes
            if (change.relation.schema, change.relation.name) in self._by_table
        ]
        if not wanted:
            return
        transaction.changes.extend(wanted)
        transaction.weight += piece.weight
        if transaction.weight > self._limits.transaction_bytes:
            for name in {(c.relation.schema, c.relation.name) for c in transaction.changes}:
                for shape in list(self._by_table.get(name, ())):
                    self.drop(shape)
            transaction.changes.clear()
            transaction.weight = 0

    async def _commit(self, transaction: _Transaction, commit: Commit) -> None:
        self._seen = commit.commit_lsn
        for table in transaction.tables:
            xid, lsn = transaction.begin.xid, int(commit.commit_lsn)
            for shape in self._by_query_table.get(table, ()):
                shape.touch(xid, lsn)
            for touched in self._reading.get(table, ()):
                touched[xid] = lsn
        transaction.end = commit.end_lsn
        if transaction.changes:
            transaction.at = time.monotonic()
            self._remember(transaction)
            for name in dict.fromkeys(
                (c.relation.schema, c.relation.name) for c in transaction.changes
            ):
                await self._deliver(name, transaction)
        self.position = max(self.position, int(commit.end_lsn))

    def _remember(self, transaction: _Transaction) -> None:
        self._ring.append(transaction)
        self._ring_weight += transaction.weight
        while self._ring and (
            self._ring_weight > self._limits.ring_bytes
            or transaction.at - self._ring[0].at > _RING_SECONDS
        ):
            self._ring_weight -= self._ring.popleft().weight

    async def _deliver(self, name: Table, transaction: _Transaction) -> None:
        """Give a transaction to the shapes of a table; to those last that PostgreSQL evaluates."""
        asked = list[Shape]()
        for shape in list(self._by_table.get(name, ())):
            if (waiting := self._starting.get(shape)) is not None:
                waiting.append(transaction)
            elif shape.is_evaluated_by_postgresql:
                asked.append(shape)
            else:
                await self._apply([shape], transaction)
        if asked:
            await self._apply(asked, transaction)

    async def _apply(self, shapes: Sequence[Shape], transaction: _Transaction) -> None:
        """Add what a transaction changed to the logs of shapes of one table.

        An error ends these shapes, whose clients fetch again, and not the stream of the others.
        """
        try:
            await self._append(shapes, transaction)
        except Exception as error:  # noqa: BLE001 - see above
            log.error("sync.shape_failed", table=shapes[0].table.name, error=error)
            for shape in shapes:
                self.drop(shape)

    async def _append(self, shapes: Sequence[Shape], transaction: _Transaction) -> None:
        table, where = shapes[0].table, shapes[0].definition.where
        changes = [
            change
            for change in transaction.changes
            if (change.relation.schema, change.relation.name) == (table.schema, table.name)
        ]
        if any(change.op is Op.TRUNCATE or _has_changed(table, change) for change in changes):
            for shape in shapes:
                self.drop(shape)
            return
        needed = frozenset[str]() if where is None else frozenset(c.name for c in table.columns)
        images = [await self._image(table, change, needed) for change in changes]
        verdicts: Sequence[Sequence[bool | None]] = [[None] * len(changes)] * len(shapes)
        if shapes[0].is_evaluated_by_postgresql:
            verdicts = await self._evaluate(table, shapes, images)
        for shape, matches in zip(shapes, verdicts, strict=True):
            found: list[ShapeChange] = []
            for change, new, match in zip(changes, images, matches, strict=True):
                if new is not None or change.new is None:
                    found += shape.changes_of(change, new, matches=match)
            lsn = int(transaction.begin.commit_lsn)
            if not shape.append(lsn, self._txids(transaction), found):
                self.drop(shape)

    async def _image(
        self, table: ShapeTable, change: Change, needed: frozenset[str]
    ) -> dict[str, str | None] | None:
        """Return the texts of a new row, with all of *needed*; None: there is none, or no more."""
        if change.new is None:
            return None
        new = table.texts(change.new)
        return await self._complete(table, new) if lacks(change, needed) else new

    async def _complete(
        self, table: ShapeTable, new: dict[str, str | None]
    ) -> dict[str, str | None] | None:
        """Read the row as it is now; what changed since, a later transaction changes again."""
        names = [column.name for column in table.columns]
        condition = " and ".join(
            f"{quote_name(name)} = {quote_text(new[name] or '')}" for name in table.key
        )
        query = f"{select(table, names, None)} where {condition}"
        found: list[list[str | None]] = []
        with translating():
            async with await self.connect() as conn:
                async for rows in copy_rows(conn, query):
                    found += rows
        # Deleted since: a later transaction says so.
        return {**dict(zip(names, found[0], strict=True)), **new} if found else None

    async def _evaluate(
        self,
        table: ShapeTable,
        shapes: Sequence[Shape],
        images: Sequence[dict[str, str | None] | None],
    ) -> Sequence[Sequence[bool | None]]:
        """Let PostgreSQL evaluate the conditions of shapes on new rows."""
        conditions = [shape.definition.where for shape in shapes]
        rows = [image or {} for image in images]
        with translating():
            if self._evaluator is None or self._evaluator.closed:
                self._evaluator = await self.connect()
                await self._evaluator.execute("set search_path = pg_catalog")
            return await evaluate(
                self._evaluator, table, [where for where in conditions if where is not None], rows
            )

    def _txids(self, transaction: _Transaction) -> Sequence[int]:
        """Return the transaction's ID in 32 and, if it differs, in 64 bits."""
        xid = transaction.begin.xid
        wide = xid if self._wide is None else self._wide.widen(xid)
        return [xid] if wide == xid else [xid, wide]

    async def aclose(self) -> None:
        """Stop reading snapshots; end all shapes."""
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._evaluator is not None:
            await self._evaluator.close()
        self.drop_all("the process stops")


def _touches(transaction: _Transaction, name: Table) -> bool:
    return any((c.relation.schema, c.relation.name) == name for c in transaction.changes)


def _has_changed(table: ShapeTable, change: Change) -> bool:
    """Return whether the table has other columns than the shape knows."""
    sent = [(column.name, column.type_oid) for column in change.relation.columns]
    return sent != [(c.name, c.type_oid) for c in table.columns]


async def check_definition(conn: AsyncConnection[Any], definition: Definition) -> ShapeTable:
    """Check a definition against the database.

    Raises:
        ShapeRefusedError: what is wrong with it.
    """
    try:
        table = await read_table(conn, definition.schema, definition.table)
    except LookupError as error:
        text = f'table "{definition.schema}"."{definition.table}" does not exist or cannot be read'
        raise ShapeRefusedError(400, "Invalid request", {"table": [text]}) from error
    if table.has_policies:
        text = "has row-level security: its rows differ by role"
        raise ShapeRefusedError(403, "Invalid request", {"table": [text]})
    if not table.has_key and table.identity != "f":
        raise ShapeRefusedError(400, "Invalid request", {"table": ["has no primary key"]})
    names = {column.name for column in table.columns}
    unknown = [name for name in definition.columns or () if name not in names]
    if unknown:
        text = f"The following columns are not found on the table: {', '.join(unknown)}"
        raise ShapeRefusedError(400, "Invalid request", {"columns": [text]})
    if definition.columns is not None and not set(table.key) <= set(definition.columns):
        text = "must include all primary key columns"
        raise ShapeRefusedError(400, "Invalid request", {"columns": [text]})
    if definition.where is not None:
        await _check_where(conn, table, definition)
    return table


async def _check_where(
    conn: AsyncConnection[Any], table: ShapeTable, definition: Definition
) -> None:
    where = definition.where
    assert where is not None  # noqa: S101 - checked by the caller
    known = {column.name: column for column in table.columns}
    for name in columns_of(where):
        column = known.get(name)
        if column is None:
            raise ShapeRefusedError(
                400, "Invalid request", {"where": [f'column "{name}" does not exist']}
            )
        if column.type_oid >= pgtypes.FIRST_OF_USERS and not column.is_enum:
            raise ShapeRefusedError(
                400, "Invalid request", {"where": [f'column "{name}" has a type of an extension']}
            )
    try:
        await conn.execute("begin read only")
        await conn.execute("set local search_path = pg_catalog")
        await conn.execute(select(table, [table.key[0]], where).encode() + b" limit 0")
    except Error as error:
        text = error.diag.message_primary or "is invalid"
        raise ShapeRefusedError(400, "Invalid request", {"where": [text]}) from error
    finally:
        await conn.execute("rollback")


def with_columns(definition: Definition, table: ShapeTable) -> Definition:
    """Return a definition whose columns have the order of the table."""
    if definition.columns is None:
        return definition
    order = [column.name for column in table.columns]
    return replace(definition, columns=tuple(n for n in order if n in definition.columns))
