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
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.domain.change import Begin, Commit, Idle, Item, Piece
from walagent.errors import WalagentError
from walagent.replication.fan_out import FanOut, Interrupted, Missed
from walagent.replication.sinks import Table
from walagent.sync.applying import Applier
from walagent.sync.checks import ShapeRefusedError, check_definition, refusal_of
from walagent.sync.definition import Definition
from walagent.sync.limits import EngineLimits
from walagent.sync.lines import write_snapshot
from walagent.sync.messages import snapshot_end
from walagent.sync.pool import OpenRows, RowPool
from walagent.sync.predicate import compile_where
from walagent.sync.publishing import Publishing
from walagent.sync.query import Connecting
from walagent.sync.query_shapes import QueryShapes
from walagent.sync.role_sessions import RoleSessions
from walagent.sync.select_shapes import OpenSelects, SelectShape, has_selects
from walagent.sync.shape import Shape
from walagent.sync.shape_index import ShapeIndex, ShapeRoom
from walagent.sync.snapshot import Visible, lock, read_position, read_snapshot, reading
from walagent.sync.table import read_marks
from walagent.sync.table_watch import TableWatch
from walagent.sync.transactions import Changes, RecentTransactions, Transaction, WaitingTransactions
from walagent.telemetry.log import log

_SNAPSHOTS: Final = 5  # that are read at once; the other connections are for changes and checks
_ATTEMPTS: Final = 5  # to make a shape that ends while it is made
_UNSEEN: Final = 0.1  # seconds between two snapshots of a shape
_LARGE: Final = 1 << 20  # bytes of a transaction before which those of shapes are added up


@dataclass(frozen=True, slots=True)
class _Joint:
    """Where a snapshot and the stream are joined."""

    visible: Visible
    position: int  # of the WAL; no transaction that commits after it is visible


class _UnseenError(Exception):
    """The snapshot lacks a transaction that was received before the shape was registered."""


class _StaleError(Exception):
    """The shape has ended, or its table is not the one that it was made for."""


class ShapeEngine:
    """Makes shapes and keeps them up to date.

    Args:
        dsn: the login of this process.
        tools_dsn: of the login for code of others, if it is set.
        rows_dsn: of the login that reads open tables, if it is set.
        is_followed: whether the stream is open; while it is not, no shape is made.
    """

    def __init__(  # noqa: PLR0913 - three logins, and where changes come from
        self,
        dsn: Callable[[], str],
        fan_out: FanOut,
        limits: EngineLimits | None = None,
        tools_dsn: Callable[[], str] = lambda: "",
        *,
        rows_dsn: Callable[[], str] = lambda: "",
        is_followed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._fan_out = fan_out
        self._is_followed = is_followed
        self._limits = limits or EngineLimits()
        self._shapes = ShapeIndex()
        self._starting: dict[Shape, WaitingTransactions] = {}
        self._recent = RecentTransactions(self._limits.ring_bytes)
        self._publishing = Publishing(fan_out, self._limits.publish, self._drop_tables)
        self._pool = RowPool(dsn)
        self.rows = OpenRows(self._pool, rows_dsn)
        self._open: Transaction | None = None
        self._seen = 0  # commit LSN of the last transaction
        self._tasks: set[asyncio.Task[None]] = set()
        self._joints: dict[Shape, _Joint] = {}  # of shapes whose snapshot the stream has not passed
        self._snapshots = asyncio.Semaphore(_SNAPSHOTS)
        self.roles = RoleSessions(dsn, tools_dsn)
        self.selects = OpenSelects(self.rows, self._limits)
        self.queries = QueryShapes(self, self._limits)
        self.room = ShapeRoom(self._shapes, self.queries, self._limits, self.drop)
        self._applier = Applier(self.rows.connection, self.drop, self.room.has)
        self._watch = TableWatch(
            self._shapes, self.queries, self._publishing, self.rows, self._pool, self.drop
        )
        self.position = 0  # up to where the stream was followed: the end of a commit, or idle WAL

    async def run(self) -> None:
        """Follow the stream; does not end."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pool.run())
            group.create_task(self.rows.run())
            group.create_task(self.roles.run())
            group.create_task(self._watch.run())
            with self._fan_out.subscribe() as subscription:
                subscription.tables = self._publishing.tables  # grows with the shapes
                async for item in subscription:
                    await self._take(item)

    async def get(self, definition: Definition, *, is_whole: bool = True) -> Shape | SelectShape:
        """Return the shape of a definition, with its snapshot.

        Args:
            is_whole: whether to wait for all of the snapshot; False: for its first chunk.

        Raises:
            ShapeRefusedError: there is no such table or column, or there are too many shapes, or
                each ended before it had its rows.
        """
        if has_selects(definition):
            return await self.queries.get(definition)
        for _ in range(_ATTEMPTS):
            shape = self._shapes.find(definition) or await self._make(definition)
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

    def find(self, what: Definition | str) -> Shape | SelectShape | None:
        """Return the shape of a definition, or with a handle, if there is one."""
        shape = self._shapes.find(what)
        if shape is not None:
            shape.used_at = time.monotonic()
            return shape
        if isinstance(what, Definition):
            return self.queries.find(what)
        selects = (each for each in self.queries if isinstance(each, SelectShape))
        return next((each for each in selects if each.handle == what), None)

    def drop(self, shape: Shape | SelectShape) -> None:
        """End a shape; the next request makes a new one, with another handle."""
        if isinstance(shape, SelectShape):
            self.queries.drop(shape)
            return
        self._shapes.remove(shape)
        self._starting.pop(shape, None)
        shape.finish()

    def drop_all(self, reason: str) -> None:
        """End all shapes."""
        if count := len(self._shapes) + len(self.queries):
            log.warning("sync.shapes_ended", shapes=count, reason=reason)
        for shape in self._shapes:
            self.drop(shape)
        self.queries.drop_all()

    def _begin_again(self) -> None:
        """Expect another stream, whose positions can be lower."""
        self._open = None
        self._recent.forget_all()
        self._seen = self.position = 0
        self.drop_all("changes were not read for a time")

    def _drop_tables(self, tables: Collection[Table]) -> None:
        """End the shapes of tables."""
        for table in tables:
            for shape in self._shapes.of(table):
                self.drop(shape)
            self._publishing.forget(table)
        self.queries.drop_tables(tables)

    def connection(self) -> Connecting:
        """Use a connection of the pool, in autocommit mode."""
        return self._pool.connection()

    # Making a shape

    async def _make(self, definition: Definition) -> Shape:
        self.make_room()
        self.room.make_for_table()
        await self.rows.let_read(definition.schema, definition.table)
        async with self.rows.connection() as conn, reading(conn):
            table = await check_definition(conn, definition)
        if (shape := self._shapes.find(definition)) is not None:  # made meanwhile
            return shape
        table = self._shapes.known(table)
        where = definition.where
        predicate = None if where is None else compile_where(where, table)
        shape = Shape(definition, table, predicate, self._limits)
        self._shapes.add(shape)
        self._starting[shape] = self._recent.of(table.relation, self._limits.transaction_bytes)
        task = asyncio.create_task(self._start(shape), name=f"snapshot of {table.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return shape

    def make_room(self) -> None:
        """Make room for another shape.

        Raises:
            ShapeRefusedError: there is none, or the stream is not open.
        """
        if not self._is_followed():
            raise ShapeRefusedError(503, "changes are not read at the moment; try again")
        self.room.make()

    async def _start(self, shape: Shape) -> None:
        """Read the snapshot, then apply what it does not have."""
        try:
            await self._catch_up(shape, await self._read(shape))
        except _StaleError:
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
            await asyncio.sleep(_UNSEEN)

    async def _read_once(self, shape: Shape) -> "_Joint":
        table = shape.table
        async with self.connection() as own:
            await self.publish(own, table.relation)
        async with self._snapshots, self.rows.connection() as conn, reading(conn):
            # The lock first: a snapshot that is older than a change of the table misses rows.
            await conn.execute(lock(table).encode())
            # Then what no code of the table may reach: the check plans, and so executes some.
            visible = await read_snapshot(conn)
            joint = _Joint(visible, await read_position(conn))
            shape.mark = (await read_marks(conn, [table.relation])).get(table.relation, "")
            if shape.ended or await check_definition(conn, shape.definition) != table:
                raise _StaleError
            waiting = self._starting.get(shape)
            if self.unseen(visible).keys() - (waiting.xids if waiting else set[int]()):
                raise _UnseenError
            await write_snapshot(conn, shape, partial(self._check_snapshot, shape))
            self.room.is_measured = False
        ending = snapshot_end(visible.xmin, visible.xmax, sorted(visible.running))
        shape.snapshot[-1:] = [b",".join([*shape.snapshot[-1:], ending])]
        self._applier.wide = visible
        return joint

    async def _catch_up(self, shape: Shape, joint: "_Joint") -> None:
        """Apply in order what has arrived since the shape was registered, until nothing waits."""
        self._joints[shape] = joint
        while missed := self._starting.get(shape):
            await self._apply([shape], missed.take())
        # From here on, the stream is applied at once: nothing was awaited since the last look.
        if self._starting.pop(shape, None) is not None:
            self._shapes.follows(shape)
            shape.ready.set_result(None)

    async def publish(self, conn: AsyncConnection[Any], *tables: Table) -> None:
        """Request tables, and wait until the stream carries them; see `Publishing`."""
        await self._publishing.publish(conn, *tables)

    def unseen(self, visible: Visible) -> dict[int, int]:
        """Return the transactions that were received and that a snapshot lacks."""
        return self._recent.unseen(visible)

    def _check_snapshot(self, shape: Shape, size: int) -> None:
        """Check a snapshot that is read.

        Raises:
            WalagentError: its bytes are too many, alone or with those of all shapes.
        """
        if shape.ended:
            raise _StaleError
        if size > self._limits.snapshot_bytes:
            raise WalagentError(f"snapshot exceeds {self._limits.snapshot_bytes} bytes")
        if not self.room.has(size):
            raise WalagentError("snapshot does not fit into sync.max_memory")

    # Following the stream

    async def _take(self, item: Item | Missed | Interrupted) -> None:
        match item:
            case Interrupted(None):
                self._begin_again()
            case Interrupted(tables) if tables is not None:
                self._drop_tables(tables)
            case Missed():
                self._open = None
                self._recent.forget_changes()
                self.drop_all("the stream was faster than the shapes")
            case Begin():
                self._open = None if item.commit_lsn <= self._seen else Transaction(item)
            case Piece() if self._open is not None:
                self._keep(self._open, item)
            case Commit() if self._open is not None:
                await self._commit(self._open, item)
                self._open = None
            case Idle():
                self.position = max(self.position, int(item.wal_end))
            case _:
                pass

    def _keep(self, transaction: Transaction, piece: Piece) -> None:
        if self.queries.is_following:
            transaction.tables |= {(c.relation.schema, c.relation.name) for c in piece.changes}
        has = self._shapes.has
        wanted = [c for c in piece.changes if has((c.relation.schema, c.relation.name))]
        if not wanted:
            return
        transaction.changes.add(wanted, piece.weight)
        transaction.shaped |= {(c.relation.schema, c.relation.name): None for c in wanted}
        if transaction.weight > self._limits.transaction_bytes:
            for shape in [each for name in transaction.shaped for each in self._shapes.of(name)]:
                self.drop(shape)
            transaction.changes = Changes()
            transaction.shaped.clear()

    async def _commit(self, transaction: Transaction, commit: Commit) -> None:
        self._seen = commit.commit_lsn
        self._recent.receive(transaction.begin.xid, int(commit.commit_lsn))
        self.queries.touch(transaction.tables, transaction.begin.xid, int(commit.commit_lsn))
        if transaction.changes:
            transaction.at = time.monotonic()
            self._recent.keep(transaction)
            for name in transaction.shaped:
                await self._deliver(name, transaction)
        self.position = max(self.position, int(commit.end_lsn))
        self._joints = {
            shape: joint
            for shape, joint in self._joints.items()
            if not shape.ended and (joint.position > self.position or shape in self._starting)
        }

    async def _deliver(self, name: Table, transaction: Transaction) -> None:
        """Give a transaction to the shapes of a table."""
        for shape, waiting in list(self._starting.items()):
            if shape.table.relation == name and not waiting.add(transaction):
                self.drop(shape)
        for shapes in self._shapes.groups(name, self._starting):
            await self._apply(shapes, transaction)

    async def _apply(self, shapes: Sequence[Shape], transaction: Transaction) -> None:
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
        if transaction.weight > _LARGE:
            self.room.measure()
        try:
            await self._applier.apply(shapes, transaction)
        except Exception as error:  # noqa: BLE001 - see above
            log.error("sync.shape_failed", table=shapes[0].table.name, error=error)
            for shape in shapes:
                self.drop(shape)

    async def aclose(self) -> None:
        """Stop reading snapshots; end all shapes."""
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.queries.aclose()
        self.drop_all("the process stops")
