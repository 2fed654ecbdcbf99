"""The shapes of queries of one process: made on request, and run again when a table changes."""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol, overload

from psycopg import AsyncConnection, Error

from walagent.domain.tenant import Actor
from walagent.errors import WalagentError
from walagent.replication.sinks import Table
from walagent.sync.checks import ShapeRefusedError, refusal_of
from walagent.sync.definition import Definition
from walagent.sync.limits import EngineLimits
from walagent.sync.query import (
    Connecting,
    Found,
    NamedQuery,
    QueryDefinition,
    QueryShape,
    Texts,
    code_of_others,
    run_query,
    tables_of_query,
)
from walagent.sync.reading_role import reading_role
from walagent.sync.role_sessions import RoleSessions
from walagent.sync.select_shapes import FoundLines, OpenSelects, SelectShape
from walagent.sync.snapshot import Visible
from walagent.telemetry.log import log

_SHARE = 0.2  # of the time in which a shape with sub-selects may be read
_LOOK = 10.0  # seconds between two looks at whether a shape is used
_OF_POSTGRESQL = frozenset({"pg_catalog", "information_schema", "pg_toast"})


class Host(Protocol):
    """What shapes of queries need of the engine."""

    position: int
    roles: RoleSessions
    selects: OpenSelects

    def connection(self) -> Connecting:
        """Use a connection for a while."""
        ...

    def make_room(self) -> None:
        """End shapes that no client requests."""
        ...

    def unseen(self, visible: Visible) -> dict[int, int]:
        """Return the transactions that were received and that a snapshot lacks."""
        ...

    async def publish(self, conn: AsyncConnection[Any], *tables: Table) -> None:
        """Request tables, and wait until the stream carries them."""
        ...


AnyDefinition = QueryDefinition | Definition
AnyShape = QueryShape | SelectShape


class QueryShapes:
    """Makes shapes of queries and lets them run again, and those with sub-selects.

    Args:
        limits: of each, and of all.
    """

    def __init__(self, host: Host, limits: EngineLimits) -> None:
        self._host = host
        self._limits = limits
        self._of_principal: Counter[tuple[str, str]] = Counter()  # with those that are being made
        self._shapes: dict[AnyDefinition, AnyShape] = {}
        self._by_table: dict[Table, set[AnyShape]] = {}
        self._reading: dict[Table, list[dict[int, int]]] = {}  # of shapes that are being made
        self._tasks: set[asyncio.Task[None]] = set()
        self._epoch = 0  # of the stream: what was read in another one misses changes
        self._role: list[str | None] = []  # once it is known
        self._role_lock = asyncio.Lock()

    def __len__(self) -> int:
        """Count the shapes."""
        return len(self._shapes)

    def __iter__(self) -> Iterator[AnyShape]:
        """Return the shapes."""
        return iter(self._shapes.values())

    @property
    def is_following(self) -> bool:
        """Return whether a change of some table matters."""
        return bool(self._by_table or self._reading)

    @overload
    def find(self, definition: QueryDefinition) -> QueryShape | None: ...
    @overload
    def find(self, definition: Definition) -> SelectShape | None: ...
    def find(self, definition: AnyDefinition) -> AnyShape | None:
        """Return the shape of a query, if there is one."""
        shape = self._shapes.get(definition)
        if shape is None:
            return None
        if shape.ended:  # what follows it has not noticed yet
            self.drop(shape)
            return None
        shape.used_at = time.monotonic()
        return shape

    @overload
    async def get(self, definition: QueryDefinition) -> QueryShape: ...
    @overload
    async def get(self, definition: Definition) -> SelectShape: ...
    async def get(self, definition: AnyDefinition) -> AnyShape:
        """Return the shape of a query, with its snapshot.

        Raises:
            ShapeRefusedError: it reads a table that is not walagent's, or does not fit its
                parameters, or shapes are too many.
        """
        return self.find(definition) or await self._make(definition)

    @property
    def tables(self) -> set[Table]:
        """Return the tables that they read."""
        return {table for table, shapes in self._by_table.items() if shapes}

    def touch(self, tables: Iterable[Table], xid: int, lsn: int) -> None:
        """Note that a transaction changed tables."""
        for table in tables:
            for shape in self._by_table.get(table, ()):
                shape.touch(xid, lsn)
            for touched in self._reading.get(table, ()):
                touched[xid] = lsn

    def drop_all(self) -> None:
        """End all shapes."""
        self._epoch += 1
        for shape in list(self._shapes.values()):
            self.drop(shape)

    def drop_tables(self, tables: Iterable[Table]) -> None:
        """End the shapes that read one of *tables*."""
        for table in tables:
            self._epoch += 1
            for shape in list(self._by_table.get(table, ())):
                self.drop(shape)

    async def aclose(self) -> None:
        """Stop running queries."""
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _make(self, definition: AnyDefinition) -> AnyShape:
        self._host.make_room()
        self._make_room_of(definition)
        if len(self._shapes) >= self._limits.shapes:
            oldest = min(self._shapes.values(), key=lambda each: each.used_at)
            if oldest.is_asked_for:
                text = f"there are {self._limits.shapes} shapes of queries already; try again"
                raise ShapeRefusedError(503, text)
            self.drop(oldest)
        principal = _principal(definition)
        self._of_principal[principal] += 1
        try:
            return await self._read_shape(definition)
        finally:
            self._leave(principal)

    def _make_room_of(self, definition: AnyDefinition) -> None:
        """End one that its principal has not asked for lately, if it has too many.

        Raises:
            ShapeRefusedError: it asks for all of them.
        """
        if isinstance(definition, Definition):
            return
        principal = _principal(definition)
        its = [
            shape for shape in self._shapes.values() if _principal(shape.definition) == principal
        ]
        most, name = self._limits.of_principal, definition.actor.principal
        if self._of_principal[principal] >= most:
            refusal = f"{name} has {most} shapes already (sync.max_shapes)"
        elif sum(shape.size for shape in its) >= self._limits.total_bytes / 2:
            refusal = f"{name} uses half of what all shapes may (sync.max_memory)"
        else:
            return
        oldest = min(its, key=lambda each: each.used_at, default=None)
        if oldest is None or oldest.is_asked_for:
            raise ShapeRefusedError(429, refusal)
        self.drop(oldest)

    def _leave(self, principal: tuple[str, str]) -> None:
        self._of_principal[principal] -= 1
        if not self._of_principal[principal]:
            del self._of_principal[principal]

    async def _read_shape(self, definition: AnyDefinition) -> AnyShape:
        epoch = self._epoch
        try:
            tables = await self._tables(definition)
            async with self._host.connection() as conn:
                await self._host.publish(conn, *sorted(tables))
            shape, touched = await self._first(definition, tables)
        except Exception as error:
            raise _refusal(definition, error) from error
        # From here to its registration, nothing is awaited: no change is missed.
        if (other := self.find(definition)) is not None:  # made meanwhile
            return other
        if epoch != self._epoch:
            raise ShapeRefusedError(503, "changes were not read for a time; try again")
        self._shapes[definition] = shape
        self._of_principal[_principal(definition)] += 1
        for table in tables:
            self._by_table.setdefault(table, set()).add(shape)
        for xid, lsn in touched.items():
            shape.touch(xid, lsn)
        task = asyncio.create_task(self._follow(shape), name=f"shape {_name(definition)}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return shape

    async def _shape_of(self, definition: AnyDefinition, found: Found[Any, Any]) -> AnyShape:
        if isinstance(definition, QueryDefinition):
            return QueryShape(definition, found, self._limits)
        assert isinstance(found, FoundLines)  # noqa: S101 - see _run
        shape = SelectShape(definition, found, self._limits)
        await shape.write_snapshot(found.visible)
        return shape

    async def read(self, definition: QueryDefinition) -> Found[str, Texts]:
        """Return the rows of a query once.

        Raises:
            ShapeRefusedError: as `get`.
        """
        try:
            if definition.query.run_as is None:
                await self._tables(definition)
            return await self._run(definition)
        except Exception as error:
            raise _refusal(definition, error) from error

    async def judge(self, queries: Iterable[NamedQuery]) -> None:
        """Log the queries that will be refused because they use what is not walagent's.

        They are compiled and not planned, which could execute code of others.
        """
        for named in queries:
            if named.run_as is not None:
                continue
            definition = QueryDefinition(named, (None,) * len(named.parameters), Actor("", ""))
            try:
                async with self._host.connection() as conn:
                    found = await code_of_others(conn, definition)
            except (Error, WalagentError) as error:
                log.error("sync.shape_refused", shape=named.name, error=error)
            else:
                if found is not None:
                    refusal = _not_ours(definition, found)
                    log.error("sync.shape_refused", shape=named.name, error=refusal)

    async def _tables(self, definition: AnyDefinition) -> Collection[Table]:
        """Return the tables that a query reads.

        Raises:
            ShapeRefusedError: it may not read one of them.
        """
        if isinstance(definition, Definition):
            return await self._host.selects.tables(definition)
        if definition.query.run_as is not None:
            tables = await self._host.roles.tables(definition, definition.query.run_as)
        else:
            async with self._host.connection() as conn:
                if (found := await code_of_others(conn, definition)) is not None:
                    raise _not_ours(definition, found)
                tables = await tables_of_query(conn, definition, await self._read_as(conn))
        _check(definition, tables)
        return tables

    async def _run(self, definition: AnyDefinition) -> Found[Any, Any]:
        if isinstance(definition, Definition):
            return await self._host.selects.read(definition)
        if definition.query.run_as is not None:
            return await self._host.roles.read(definition, definition.query.run_as)
        async with self._host.connection() as conn:
            return await run_query(conn, definition, await self._read_as(conn))

    async def _first(
        self, definition: AnyDefinition, tables: Collection[Table]
    ) -> tuple[AnyShape, dict[int, int]]:
        """Read the rows; what changes meanwhile is a reason to read them again."""
        touched: dict[int, int] = {}
        for table in tables:
            self._reading.setdefault(table, []).append(touched)
        try:
            found = await self._run(definition)
            shape = await self._shape_of(definition, found)
            return shape, self._host.unseen(found.visible) | touched
        finally:
            for table in tables:
                # By identity: those of others can be equal.
                kept = [each for each in self._reading.pop(table) if each is not touched]
                if kept:
                    self._reading[table] = kept

    async def _read_as(self, conn: AsyncConnection[Any]) -> str | None:
        """Return the role that reads for principals, which is looked up once."""
        async with self._role_lock:
            if not self._role:
                self._role.append(await reading_role(conn))
        return self._role[0]

    async def _follow(self, shape: AnyShape) -> None:
        """Follow until no client requests the shape, or it fails."""
        following = asyncio.create_task(
            shape.follow(
                lambda: self._run(shape.definition),
                lambda: self._host.position,
                _SHARE if isinstance(shape, SelectShape) else 1.0,
            )
        )
        try:
            while not following.done() and not shape.ended:
                if time.monotonic() - shape.used_at > self._limits.idle:
                    return
                await asyncio.wait([following], timeout=_LOOK)
            if following.done():
                following.result()
        except Exception as error:  # noqa: BLE001 - its clients fetch again
            log.error("sync.shape_failed", table=_name(shape.definition), error=error)
        finally:
            following.cancel()
            self.drop(shape)

    def drop(self, shape: AnyShape) -> None:
        """End a shape."""
        if self._shapes.get(shape.definition) is shape:
            del self._shapes[shape.definition]
            self._leave(_principal(shape.definition))
        for table in [t for t, shapes in self._by_table.items() if shape in shapes]:
            self._by_table[table].discard(shape)
            if not self._by_table[table]:
                del self._by_table[table]
        shape.finish()


def _check(definition: QueryDefinition, tables: Collection[Table]) -> None:
    """Refuse tables that are not walagent's, unless a role reads them, and those of PostgreSQL.

    Reading them can execute code of others.
    """
    refused = [each for each in tables if each[0] != "agent"]
    if definition.query.run_as is not None:
        refused = [each for each in refused if each[0] in _OF_POSTGRESQL]
    if refused:
        table = ".".join(min(refused))
        if definition.query.run_as is None:
            raise _not_ours(definition, table)
        text = f"shape {definition.query.name} reads {table}, whose changes are not in the WAL"
        raise ShapeRefusedError(400, text)


def _name(definition: AnyDefinition) -> str:
    return definition.table if isinstance(definition, Definition) else definition.query.name


def _principal(definition: AnyDefinition) -> tuple[str, str]:
    """Return tenant and principal, whatever the token; none of open tables."""
    if isinstance(definition, Definition):
        return "", ""
    return definition.actor.tenant, definition.actor.principal


def _not_ours(definition: QueryDefinition, what: str) -> ShapeRefusedError:
    return ShapeRefusedError(
        400, f"shape {definition.query.name} uses {what}, which is not walagent's: set run_as"
    )


def _refusal(definition: AnyDefinition, error: Exception) -> ShapeRefusedError:
    refusal = refusal_of(error, "where" if isinstance(definition, Definition) else "params")
    if refusal is not error and not refusal.errors:  # no fault of the request
        log.warning("sync.snapshot_failed", table=_name(definition), error=error)
    return refusal
