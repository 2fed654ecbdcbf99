"""The shapes of one process: made on request, kept up to date from the stream.

A shape is registered before its snapshot is read, and what arrives meanwhile is kept: a transaction
that the snapshot does not have is applied to it, one that it has is not.  A commit can reach the
stream before snapshots show it, so transactions of the last minute are kept, too; and long after,
if the stream is behind, so a shape keeps its snapshot until the stream has passed it.

The engine never waits for a client and never holds the stream back: it is a lossy sink.  When it
missed something, all shapes end, and clients fetch again.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.base.backoff import pause_after
from walagent.base.concurrency import Periodic
from walagent.domain.change import Begin, Change, Commit, Idle, Item, Op, Piece
from walagent.errors import DatabaseLostError, LoginRefusedError, WalagentError
from walagent.replication.fan_out import FanOut, Interrupted, Missed
from walagent.replication.sinks import Table, Want
from walagent.store.errors import translating
from walagent.store.sessions.connections import Pool, open_pool
from walagent.sync.checks import ShapeRefusedError, check_definition, refusal_of
from walagent.sync.definition import Definition
from walagent.sync.evaluate import evaluate
from walagent.sync.expression import quote_name, quote_text
from walagent.sync.lines import SnapshotLines
from walagent.sync.messages import snapshot_end
from walagent.sync.predicate import compile_where
from walagent.sync.query_shapes import QueryShapes
from walagent.sync.role_sessions import RoleSessions
from walagent.sync.shape import RowChange, Shape, ShapeChange, lacks_values
from walagent.sync.shape_log import CHUNK_BYTES
from walagent.sync.snapshot import (
    Visible,
    copy_lines,
    copy_rows,
    lock,
    read_position,
    read_snapshot,
    reading,
    select,
)
from walagent.sync.table import ShapeTable
from walagent.telemetry.log import log
from walagent.wal.publications import published_as

_NAME: Final = "walagent sync"
_CONNECTIONS: Final = 8
_SNAPSHOTS: Final = 5  # that are read at once; the other connections are for changes and checks
_RING_SECONDS: Final = 60.0
_MOST_RECEIVED: Final = 1 << 14
_ATTEMPTS: Final = 5  # to make a shape that ends while it is made
_PUBLISHING: Final = 0.1  # seconds between two looks
_MEASURED: Final = 1.0  # seconds for which the size of all shapes is not added up again
_PUBLICATION: Final = "walagent"


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What the shapes of a process may use.

    Args:
        shapes: how many of open tables there are at once, and how many named ones.
        of_principal: how many named ones a principal has at once.
        total_bytes: of the snapshots and logs of all, about.
        log_bytes: of one shape's log; beyond, it ends and clients fetch again.
        transaction_bytes: of one transaction that is held until its commit.
        idle: seconds after which a shape without requests ends.
    """

    shapes: int = 10_000
    of_principal: int = 500
    log_bytes: int = 64 << 20
    transaction_bytes: int = 64 << 20
    ring_bytes: int = 16 << 20
    snapshot_bytes: int = 512 << 20
    total_bytes: int = 2 << 30
    idle: float = 3600.0
    publish: float = 30.0  # seconds until the table is published


@dataclass(frozen=True, slots=True)
class _Joint:
    """Where a snapshot and the stream are joined.

    Args:
        position: of the WAL; no transaction that commits after it is visible.
    """

    visible: Visible
    position: int


class _UnseenError(Exception):
    """The snapshot lacks a transaction that was received before the shape was registered."""


class _TableChangedError(Exception):
    """The table is not the one that the shape was made for."""


@dataclass(slots=True)
class _Transaction:
    begin: Begin
    changes: list[Change] = field(default_factory=list[Change])
    tables: set[Table] = field(default_factory=set[Table])
    weight: int = 0
    at: float = 0.0


class ShapeEngine:
    """Makes shapes and keeps them up to date.

    Args:
        dsn: the login that reads snapshots.
        tools_dsn: of the login for code of others, if it is set.
        is_followed: whether the stream is open; while it is not, no shape is made.
    """

    def __init__(
        self,
        dsn: Callable[[], str],
        fan_out: FanOut,
        limits: EngineLimits | None = None,
        tools_dsn: Callable[[], str] = lambda: "",
        *,
        is_followed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._dsn = dsn
        self._fan_out = fan_out
        self._is_followed = is_followed
        self._limits = limits or EngineLimits()
        self._shapes: dict[Definition, Shape] = {}
        self._by_table: dict[Table, dict[Shape, None]] = {}
        self._alike: dict[Table, list[list[Shape]]] = {}  # those that follow the stream; a cache
        self._starting: dict[Shape, list[_Transaction]] = {}
        self._ring: deque[_Transaction] = deque()
        self._ring_weight = 0
        self._tables: dict[Table, Want] = {}
        self._open: _Transaction | None = None
        self._seen = 0  # commit LSN of the last transaction
        self._received: dict[int, int] = {}  # commit LSNs of the last transactions by their IDs
        self._tasks: set[asyncio.Task[None]] = set()
        self._wide: Visible | None = None
        self._joints: dict[Shape, _Joint] = {}  # of shapes whose snapshot the stream has not passed
        self._snapshots = asyncio.Semaphore(_SNAPSHOTS)
        self._bytes = 0  # of all shapes, as of the last measurement
        self._measured_at = 0.0
        self._pool: asyncio.Future[Pool] = asyncio.get_running_loop().create_future()
        self.roles = RoleSessions(dsn, tools_dsn)
        self.queries = QueryShapes(self, self._limits)
        self.position = 0  # up to where the stream was followed: the end of a commit, or idle WAL

    async def run(self) -> None:
        """Follow the stream; does not end."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_pool())
            group.create_task(self.roles.run())
            with self._fan_out.subscribe() as subscription:
                subscription.tables = self._tables  # grows with the shapes
                async for item in subscription:
                    await self._take(item)

    async def _keep_pool(self) -> None:
        """Keep connections for rows; while the database is unavailable, requests wait."""
        failures = 0
        while True:
            try:
                async with open_pool(self._dsn, size=_CONNECTIONS, application=_NAME) as pool:
                    self._pool.set_result(pool)
                    await asyncio.Event().wait()
            except (DatabaseLostError, LoginRefusedError) as error:
                failures += 1
                log.warning("sync.waiting", error=error)
                await asyncio.sleep(pause_after(failures))

    async def get(self, definition: Definition, *, is_whole: bool = True) -> Shape:
        """Return the shape of a definition, with its snapshot.

        Args:
            is_whole: whether to wait for all of the snapshot; False: for its first chunk.

        Raises:
            ShapeRefusedError: there is no such table or column, or there are too many shapes, or
                each ended before it had its rows.
        """
        for _ in range(_ATTEMPTS):
            shape = self._shapes.get(definition) or await self._make(definition)
            shape.used_at = time.monotonic()
            if is_whole:
                await asyncio.shield(shape.ready)
            else:
                await shape.has_chunk(0)
            if shape.error is not None:
                raise refusal_of(shape.error, "where") from shape.error
            if not shape.ended:
                return shape
        table = f"{definition.schema}.{definition.table}"
        raise ShapeRefusedError(503, f"{table} changes faster than its rows are read; try again")

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
        self._alike.pop(table, None)
        if shape in self._by_table.get(table, ()):
            del self._by_table[table][shape]
            if not self._by_table[table]:
                del self._by_table[table]
        self._starting.pop(shape, None)
        shape.finish()

    def drop_all(self, reason: str) -> None:
        """End all shapes."""
        if count := len(self._shapes) + len(self.queries):
            log.warning("sync.shapes_ended", shapes=count, reason=reason)
        for shape in list(self._shapes.values()):
            self.drop(shape)
        self.queries.drop_all()

    def _begin_again(self) -> None:
        """Expect another stream, whose positions can be lower."""
        self._open = None
        self._ring.clear()
        self._received.clear()
        self._ring_weight = self._seen = self.position = 0
        self.drop_all("changes were not read for a time")

    def _drop_tables(self, tables: Collection[Table]) -> None:
        """End the shapes of tables."""
        for table in tables:
            for shape in list(self._by_table.get(table, ())):
                self.drop(shape)
            if table in self._tables:
                self._tables[table] = Want()
        self.queries.drop_tables(tables)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Use a connection of the pool, in autocommit mode."""
        with translating():
            pool = await asyncio.shield(self._pool)
            async with pool.connection() as conn:
                yield conn

    # Making a shape

    async def _make(self, definition: Definition) -> Shape:
        self._make_room_for_table()
        async with self.connection() as conn, reading(conn):
            table = await check_definition(conn, definition)
        if (shape := self._shapes.get(definition)) is not None:  # made meanwhile
            return shape
        name = (table.schema, table.name)
        # One object for all: by it, those that are alike are found.
        table = next((s.table for s in self._by_table.get(name, ()) if s.table == table), table)
        where = definition.where
        predicate = None if where is None else compile_where(where, table)
        shape = Shape(definition, table, predicate, self._limits.log_bytes)
        self._shapes[definition] = shape
        self._starting[shape] = [each for each in self._ring if _touches(each, name)]
        self._by_table.setdefault(name, {})[shape] = None
        task = asyncio.create_task(self._start(shape), name=f"snapshot of {table.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return shape

    def make_room(self) -> None:
        """Make room for the bytes of another shape.

        Raises:
            ShapeRefusedError: there is none, or the stream is not open.
        """
        if not self._is_followed():
            raise ShapeRefusedError(503, "changes are not read at the moment; try again")
        now = time.monotonic()
        for shape in [s for s in self._shapes.values() if now - s.used_at > self._limits.idle]:
            self.drop(shape)
        if now - self._measured_at > _MEASURED:
            self.measure()
        if self._bytes < self._limits.total_bytes:
            return
        for shape in sorted([*self._shapes.values(), *self.queries], key=lambda s: s.used_at):
            if shape.is_asked_for or self._bytes < self._limits.total_bytes:
                break
            self._bytes -= shape.size
            if isinstance(shape, Shape):
                self.drop(shape)
            else:
                self.queries.drop(shape)
        if self._bytes >= self._limits.total_bytes:
            raise ShapeRefusedError(503, "the shapes use sync.max_memory already; try again")

    def _make_room_for_table(self) -> None:
        """Make room for a shape of an open table.

        Raises:
            ShapeRefusedError: as `make_room`, or there are too many.
        """
        self.make_room()
        if len(self._shapes) < self._limits.shapes:
            return
        oldest = min(self._shapes.values(), key=lambda shape: shape.used_at)
        if oldest.is_asked_for:
            text = f"there are {self._limits.shapes} shapes of tables already; try again"
            raise ShapeRefusedError(503, text)
        self.drop(oldest)

    def measure(self) -> None:
        """Add up what snapshots and logs use."""
        self._measured_at = time.monotonic()
        self._bytes = sum(shape.size for shape in (*self._shapes.values(), *self.queries))

    async def _start(self, shape: Shape) -> None:
        """Read the snapshot, then apply what it does not have."""
        try:
            await self._catch_up(shape, await self._read(shape))
        except _TableChangedError:
            self.drop(shape)
        except Exception as error:  # noqa: BLE001 - clients receive it
            log.warning("sync.snapshot_failed", table=shape.table.name, error=error)
            shape.error = error
            self.drop(shape)

    async def _read(self, shape: Shape) -> "_Joint":
        """Read the rows; if a commit was received that no snapshot shows yet, wait for it."""
        until = time.monotonic() + self._limits.publish
        while True:
            try:
                return await self._read_once(shape)
            except _UnseenError as error:
                if time.monotonic() >= until:
                    text = "a commit is not visible yet: it waits for a standby; try again"
                    raise ShapeRefusedError(503, text) from error
            await asyncio.sleep(_PUBLISHING)

    async def _read_once(self, shape: Shape) -> "_Joint":
        table = shape.table
        async with self._snapshots, self.connection() as conn:
            await self.publish(conn, (table.schema, table.name))
            async with reading(conn):
                # The lock first: a snapshot that is older than a change of the table misses rows.
                await conn.execute(lock(table).encode())
                if await check_definition(conn, shape.definition) != table:
                    raise _TableChangedError
                visible = await read_snapshot(conn)
                joint = _Joint(visible, await read_position(conn))
                waiting = self._starting.get(shape, [])
                if self.unseen(visible).keys() - {each.begin.xid for each in waiting}:
                    raise _UnseenError
                await self._copy(conn, shape)
        ending = snapshot_end(visible.xmin, visible.xmax, sorted(visible.running))
        shape.snapshot[-1:] = [b",".join([*shape.snapshot[-1:], ending])]
        self._wide = visible
        return joint

    async def _catch_up(self, shape: Shape, joint: "_Joint") -> None:
        """Apply in order what has arrived since the shape was registered, until nothing waits."""
        self._joints[shape] = joint
        while missed := self._starting.get(shape):
            await self._apply([shape], missed.pop(0))
        # From here on, the stream is applied at once: nothing was awaited since the last look.
        if self._starting.pop(shape, None) is not None:
            self._alike.pop((shape.table.schema, shape.table.name), None)
            shape.ready.set_result(None)

    async def publish(self, conn: AsyncConnection[Any], *tables: Table) -> None:
        """Request tables, and wait until the stream carries them.

        Raises:
            ShapeRefusedError: the reader cannot publish one; it logs why.
        """
        for table in tables:
            self._tables.setdefault(table, Want())
        answers, missing = self._fan_out.answers, set(tables)
        found: Mapping[Table, Sequence[str | None]] = {}
        try:
            async with asyncio.timeout(self._limits.publish):
                async for _ in Periodic(_PUBLISHING):
                    # Before it is answered, a request of this process can remove a table.
                    missing = set(tables) - answers.standing - answers.refused.keys()
                    if not missing:
                        found = await published_as(conn, _PUBLICATION)
                        missing = set(tables) - found.keys()
                    if not missing:
                        break
                    if refused := missing & answers.refused.keys():
                        raise _unpublished(refused)
        except TimeoutError as error:
            raise _unpublished(missing) from error
        for table in tables:
            self._rely(table, found[table])

    def _rely(self, table: Table, entry: Sequence[str | None]) -> None:
        """Expect the stream to carry a table from now on; if it had not, end what relied on it."""
        if self._tables[table].entry not in (None, entry):
            self._drop_tables([table])
        self._tables[table] = Want(entry=entry)

    async def _copy(self, conn: AsyncConnection[Any], shape: Shape) -> None:
        if shape.definition.changes_only and shape.members is None:
            return
        names = list(dict.fromkeys([*shape.columns, *shape.table.key]))
        writer = SnapshotLines(shape.table, shape.columns, names, shape.members)
        chunk, size, total = list[bytes](), 0, 0
        async for lines in copy_lines(conn, select(shape.table, names, shape.definition.where)):
            messages = writer.messages(lines)
            if not shape.definition.changes_only:
                chunk.append(messages)
                size += len(messages)
            if size >= CHUNK_BYTES:
                shape.snapshot.append(b",".join(chunk))
                shape.wake()
                total += size
                chunk, size = [], 0
            if total + size > self._limits.snapshot_bytes:
                raise WalagentError(f"snapshot exceeds {self._limits.snapshot_bytes} bytes")
            if self._bytes + total + size > self._limits.total_bytes:
                raise WalagentError("snapshot does not fit into sync.max_memory")
            await asyncio.sleep(0)
        if chunk:
            shape.snapshot.append(b",".join(chunk))
        self._measured_at = 0.0

    # Following the stream

    async def _take(self, item: Item | Missed | Interrupted) -> None:
        match item:
            case Interrupted(None):
                self._begin_again()
            case Interrupted(tables) if tables is not None:
                self._drop_tables(tables)
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
        if self.queries.is_following:
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
        self._received[transaction.begin.xid] = int(commit.commit_lsn)
        if len(self._received) > _MOST_RECEIVED:
            del self._received[next(iter(self._received))]
        self.queries.touch(transaction.tables, transaction.begin.xid, int(commit.commit_lsn))
        if transaction.changes:
            transaction.at = time.monotonic()
            self._remember(transaction)
            for name in dict.fromkeys(
                (c.relation.schema, c.relation.name) for c in transaction.changes
            ):
                await self._deliver(name, transaction)
        self.position = max(self.position, int(commit.end_lsn))
        self._joints = {
            shape: joint
            for shape, joint in self._joints.items()
            if not shape.ended and (joint.position > self.position or shape in self._starting)
        }

    def unseen(self, visible: Visible) -> dict[int, int]:
        """Return the transactions that were received and that a snapshot lacks.

        A commit reaches the stream before snapshots show it; long before, if it waits for a
        standby.
        """
        return {xid: self._received[xid] for xid in visible.lacking(self._received)}

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
        for shape, waiting in self._starting.items():
            if (shape.table.schema, shape.table.name) == name:
                waiting.append(transaction)
        if (groups := self._alike.get(name)) is None:
            groups = self._alike[name] = self._group(name)
        for shapes in groups:
            await self._apply(shapes, transaction)

    def _group(self, name: Table) -> list[list[Shape]]:
        """Return the shapes of a table that follow the stream, in groups that are alike."""
        alike: dict[tuple[bool, bool, int], list[Shape]] = {}
        for shape in self._by_table.get(name, ()):
            if shape not in self._starting:
                has_where = shape.members is not None
                kind = (shape.is_evaluated_by_postgresql, has_where, id(shape.table))
                alike.setdefault(kind, []).append(shape)
        return [alike[kind] for kind in sorted(alike)]

    async def _apply(self, shapes: Sequence[Shape], transaction: _Transaction) -> None:
        """Add what a transaction changed to the logs of shapes that are alike.

        An error ends these shapes, whose clients fetch again, and not the stream of the others.
        """
        if self._joints:
            shapes = [
                shape
                for shape in shapes
                if (joint := self._joints.get(shape)) is None
                or not joint.visible.has(transaction.begin.xid)
            ]
        if not shapes:
            return
        try:
            await self._append(shapes, transaction)
        except Exception as error:  # noqa: BLE001 - see above
            log.error("sync.shape_failed", table=shapes[0].table.name, error=error)
            for shape in shapes:
                self.drop(shape)

    async def _append(self, shapes: Sequence[Shape], transaction: _Transaction) -> None:
        table, has_where = shapes[0].table, shapes[0].definition.where is not None
        changes = [
            change
            for change in transaction.changes
            if (change.relation.schema, change.relation.name) == (table.schema, table.name)
        ]
        if any(change.op is Op.TRUNCATE or _has_changed(table, change) for change in changes):
            for shape in shapes:
                self.drop(shape)
            return
        images = [await self._image(table, change, is_whole=has_where) for change in changes]
        rows = [
            None if new is None and change.old is None else RowChange.of(table, change, new)
            for change, new in zip(changes, images, strict=True)
        ]
        verdicts: Sequence[Sequence[bool | None]] = [[None] * len(changes)] * len(shapes)
        if shapes[0].is_evaluated_by_postgresql:
            verdicts = await self._evaluate(table, shapes, images)
        elif has_where:
            shapes = _touched(shapes, rows)
            verdicts = verdicts[: len(shapes)]
        txids = self._txids(transaction)
        for shape, matches in zip(shapes, verdicts, strict=True):
            try:
                found: list[ShapeChange] = []
                for row, match in zip(rows, matches, strict=True):
                    if row is not None:
                        found += shape.changes_of(row, matches=match)
                fits = not found or shape.append(int(transaction.begin.commit_lsn), txids, found)
            except Exception as error:  # noqa: BLE001 - see _apply
                log.error("sync.shape_failed", table=table.name, error=error)
                fits = False
            if not fits:
                self.drop(shape)

    async def _image(
        self, table: ShapeTable, change: Change, *, is_whole: bool
    ) -> dict[str, str | None] | None:
        """Return the texts of a new row; None: there is none, or no more.

        Of a row that has left its key and is deleted since, a shape of all rows has what was sent,
        until it is deleted there, too; one with a condition has it no more.

        Args:
            is_whole: whether all columns are needed: the row can move into the shape.  They are,
                too, if its key has changed: the row under the new key is an insert.
        """
        if change.new is None:
            return None
        new = table.texts(change.new)
        if (is_whole or change.old is not None) and lacks_values(change):
            whole = await self._complete(table, new)
            return whole if is_whole else whole or new
        return new

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
        async with self.connection() as conn, reading(conn):
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
        conditions = [s.definition.where for s in shapes if s.definition.where is not None]
        async with self.connection() as conn, reading(conn):
            return await evaluate(conn, table, conditions, [image or {} for image in images])

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
        await self.queries.aclose()
        self.drop_all("the process stops")


def _touches(transaction: _Transaction, name: Table) -> bool:
    return any((c.relation.schema, c.relation.name) == name for c in transaction.changes)


def _touched(shapes: Sequence[Shape], rows: Sequence[RowChange | None]) -> list[Shape]:
    """Return the shapes with a where clause that changes can be in.

    A row enters a shape only with a value that the shape needs, and leaves it only if it is in it.
    """
    keys, values = set[str](), dict[str, set[str]]()
    for row in rows:
        if row is not None:
            keys |= {row.before, row.key}
            for name, text in (row.new or {}).items():
                if text is not None:
                    values.setdefault(name, set()).add(text)
    none = set[str]()
    return [
        shape
        for shape in shapes
        if shape.needs is None
        or not shape.needs[1].isdisjoint(values.get(shape.needs[0], none))
        or not (shape.members or none).isdisjoint(keys)
    ]


def _has_changed(table: ShapeTable, change: Change) -> bool:
    """Return whether the table has other columns than the shape knows."""
    sent = [(column.name, column.type_oid) for column in change.relation.columns]
    return sent != [(c.name, c.type_oid) for c in table.columns]


def _unpublished(tables: Collection[Table]) -> ShapeRefusedError:
    names = ", ".join(sorted(f"{schema}.{name}" for schema, name in tables))
    text = f"not published yet: {names}; see publication.refused in the log"
    return ShapeRefusedError(503, text)
