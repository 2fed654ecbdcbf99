"""Print changes as they are committed, without ingesting them.

slot → stream → lines → write → confirm

With a named slot, a position is confirmed after its lines were written: a restart repeats what
was written after the last confirmed position, and loses nothing.
"""

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Literal, Never

from psycopg import AsyncConnection

from walagent.base.retries import DATABASE, seconds
from walagent.domain.change import (
    Begin,
    Change,
    Commit,
    Idle,
    Item,
    Op,
    OriginMarker,
    Piece,
    Relation,
)
from walagent.errors import (
    ConfigError,
    DatabaseLostError,
    GapError,
    PreconditionError,
    SlotBusyError,
    StreamLostError,
)
from walagent.postgres.lsn import Lsn
from walagent.store.checkpoint import has_checkpoint
from walagent.store.errors import translating
from walagent.store.relations.tables import oids_of, type_names
from walagent.store.sessions.connections import connect
from walagent.wal import json_lines, wal2json_text
from walagent.wal.options import StreamOptions
from walagent.wal.publications import missing_publications
from walagent.wal.slots import check_slot, create_slot, inspect_slot
from walagent.wal.stream import ReplicationStream, open_stream
from walagent.wal.temporary_slot import open_temporary_stream

_LOST = (StreamLostError, DatabaseLostError, SlotBusyError)
_FORMATS: Final = {"json": json_lines, "wal2json": wal2json_text}
_MOST_RELATIONS: Final = 1000  # whose types are kept
_DROP = "Drop the slot and use --create; the changes since its confirmed position are lost."


@dataclass(frozen=True, slots=True)
class TailOptions:
    """What to print.

    Args:
        own_slot: whether the slot is created for this stream and dropped with it.
        create: whether to create the named slot if it does not exist.
        peek: whether the named slot is read without advancing it.
        tables: of which changes are printed, as (schema, name); empty means all.
        ops: the operations that are printed; empty means all.
        format: `wal2json` is its format version 2.
        limit: lines after which to stop.
    """

    options: StreamOptions
    own_slot: bool = True
    create: bool = False
    peek: bool = False
    marks: bool = False  # also print begins, commits and messages
    ours: bool = False  # also print changes of walagent's tables
    tables: frozenset[tuple[str, str]] = frozenset()
    ops: frozenset[Op] = frozenset()
    format: Literal["json", "wal2json"] = "wal2json"
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """Lines to write.

    Args:
        confirm: the position that is complete once they are written.
        is_last: whether the limit is reached.
    """

    lines: bytes
    confirm: Lsn | None
    is_last: bool


class Printer:
    """Formats items; after a reconnect it skips what it has formatted before."""

    def __init__(self, tail: TailOptions) -> None:
        self._tail = tail
        self._form = _FORMATS[tail.format]
        self._left = tail.limit
        # By OID: the relation as pgoutput describes it, and with the names of all types.
        self._typed: dict[int, tuple[Relation, Relation]] = {}
        self._commit = Lsn(0)  # of the transaction that was formatted last
        self._ordinal = -1  # of its last change
        self._message = Lsn(0)  # the position of the last message

    def unnamed(self, items: Sequence[Item]) -> Collection[Relation]:
        """Return the relations in *items* whose type names pgoutput does not send."""
        if self._tail.format == "json":  # has no types
            return ()
        found = {
            id(change.relation): change.relation
            for item in items
            if isinstance(item, Piece)
            for change in item.changes
        }
        return [each for each in found.values() if each.oid and self._named(each) is None]

    def learn(self, relation: Relation, names: Mapping[str, str]) -> None:
        """Register the names of a relation's types."""
        if len(self._typed) >= _MOST_RELATIONS:
            del self._typed[next(iter(self._typed))]
        columns = [replace(c, type_name=names.get(c.name, "")) for c in relation.columns]
        self._typed[relation.oid] = relation, replace(relation, columns=tuple(columns))

    def _named(self, relation: Relation) -> Relation | None:
        known = self._typed.get(relation.oid)
        return known[1] if known is not None and known[0] is relation else None

    def format(self, items: Sequence[Item]) -> Text:
        """Format items of the stream."""
        lines, confirm = list[bytes](), None
        for item in items:
            for line in self._lines(item):
                if self._left == 0:  # of a transaction that is not complete
                    return _text(lines, confirm, is_last=True)
                lines.append(line)
                self._left = None if self._left is None else self._left - 1
            match item:
                case Commit():
                    confirm = item.end_lsn
                case Idle():
                    confirm = item.wal_end
                case _:
                    pass
            # The end of a transaction follows its last change: wait for it, to confirm it.
            if self._left == 0 and (isinstance(item, Commit) or self._tail.own_slot):
                return _text(lines, confirm, is_last=True)
        return _text(lines, confirm, is_last=False)

    def _lines(self, item: Item) -> Iterator[bytes]:
        marks = self._tail.marks
        match item:
            case Piece(changes):
                for change in changes:
                    if self._is_new(change) and self._is_wanted(change):
                        relation = self._named(change.relation) or change.relation
                        yield self._form.format_change(replace(change, relation=relation))
            case Begin() if item.commit_lsn > self._commit:
                self._commit, self._ordinal = item.commit_lsn, -1
                if marks:
                    yield self._form.format_begin(item)
            case Commit() if marks:
                yield self._form.format_commit(item)
            case OriginMarker() if marks and item.lsn > self._message:
                self._message = item.lsn
                yield self._form.format_marker(item)
            case _:
                pass

    def _is_new(self, change: Change) -> bool:
        if change.ordinal <= self._ordinal:
            return False
        self._ordinal = change.ordinal
        return True

    def _is_wanted(self, change: Change) -> bool:
        tail, relation = self._tail, change.relation
        return (
            (tail.ours or relation.schema not in {"agent", "agent_internal"})
            and (not tail.tables or (relation.schema, relation.name) in tail.tables)
            and (not tail.ops or change.op in tail.ops)
        )


def _text(lines: Sequence[bytes], confirm: Lsn | None, *, is_last: bool) -> Text:
    return Text(b"".join(line + b"\n" for line in lines), confirm, is_last)


class Tail:
    """Prints what a slot sends.

    Args:
        dsn: of a login with REPLICATION.
        write: returns when the lines are written.
        say: shows a message for a person.
        keep: returns the items to print; the ends of transactions are among them.
    """

    def __init__(
        self,
        dsn: str,
        tail: TailOptions,
        write: Callable[[bytes], Awaitable[None]],
        say: Callable[[str], None],
        keep: Callable[[Sequence[Item]], Awaitable[Sequence[Item]]] | None = None,
    ) -> None:
        self._dsn = dsn
        self._tail = tail
        self._write = write
        self._say = say
        self._keep = keep
        self._printer = Printer(tail)
        self._confirmed = Lsn(0)
        self._has_streamed = False
        self._failures = 0  # in a row

    async def run(self) -> None:
        """Print until the limit.

        A named slot is opened again after a lost connection, and awaited while another reader has
        it.  A temporary slot ends with its connection.

        Raises:
            StreamLostError: the connection is lost.
            SlotBusyError: the slot is in use.
            ConfigError: a table or publication does not exist, or the slot is walagent's.
            GapError, PreconditionError: the slot or the server does not meet the requirements.
        """
        await self._check()
        while True:
            try:
                return await self._print()
            except _LOST as error:
                if not self._resumes(error):
                    raise
                self._failures += 1
                self._say(f"waiting: {error}")
                await asyncio.sleep(seconds(DATABASE, self._failures))

    def _resumes(self, error: Exception) -> bool:
        if self._tail.own_slot or self._tail.peek:
            return False
        return self._has_streamed or isinstance(error, SlotBusyError)

    async def _check(self) -> None:
        options, tail = self._tail.options, self._tail
        with translating():
            async with await connect(self._dsn, application="walagent tail") as conn:
                if not (tail.own_slot or tail.peek) and await has_checkpoint(conn, options.slot):
                    refuse_ours(options.slot)
                if absent := tail.tables - (await oids_of(conn, tail.tables)).keys():
                    words = ", ".join(f"{schema}.{name}" for schema, name in sorted(absent))
                    raise ConfigError(f"table does not exist: {words}")
                names = options.publications if options.plugin == "pgoutput" else ()
                if absent := await missing_publications(conn, names):
                    raise ConfigError(
                        f"publication does not exist: {', '.join(absent)}",
                        hint="Use --publication NAME; walagent init creates walagent's own.",
                    )
                if tail.create and await inspect_slot(conn, options.slot) is None:
                    await create_slot(self._dsn, options.slot, options.plugin)

    async def _print(self) -> None:
        async with self._stream() as stream:
            self._say(
                "streaming; press Ctrl-C to stop" if not self._has_streamed else "streaming again"
            )
            self._has_streamed = True
            while True:
                items: Sequence[Item] = await stream.next_batch()
                if self._keep is not None:
                    items = await self._keep(items)
                await self._learn(self._printer.unnamed(items))
                text = self._printer.format(items)
                if text.lines:
                    await self._write(text.lines)
                    self._failures = 0
                if text.confirm is not None and not self._tail.peek:
                    stream.confirm(text.confirm)
                    self._confirmed = max(self._confirmed, stream.confirmed)
                if text.is_last:
                    return

    async def _learn(self, relations: Collection[Relation]) -> None:
        if not relations:
            return
        with translating():
            async with await connect(self._dsn, application="walagent tail") as conn:
                for relation in relations:
                    types = {column.name: column.type_oid for column in relation.columns}
                    self._printer.learn(relation, await type_names(conn, relation.oid, types))

    @asynccontextmanager
    async def _stream(self) -> AsyncGenerator[ReplicationStream]:
        options = replace(self._tail.options, start=self._confirmed)
        if self._tail.own_slot:
            async with open_temporary_stream(self._dsn, options) as stream:
                yield stream
            return
        with translating():
            async with await connect(self._dsn, application="walagent tail") as conn:
                await self._check_slot(conn)
        async with open_stream(self._dsn, options) as stream:
            yield stream

    async def _check_slot(self, conn: AsyncConnection) -> None:
        options, at = self._tail.options, self._confirmed
        if await inspect_slot(conn, options.slot) is None:
            raise PreconditionError(
                f'slot "{options.slot}" does not exist', hint="Use --create to create it."
            )
        try:
            await check_slot(conn, options.slot, plugin=options.plugin, checkpoint=at or None)
        except GapError as error:
            raise GapError(str(error), hint=_DROP) from error


def refuse_ours(slot: str) -> Never:
    """Protect the changes that walagent has not ingested yet."""
    raise ConfigError(
        f'slot "{slot}" is read by walagent run, which would lose the changes that tail confirms',
        hint="Use another name with --create, or --peek to read it without advancing it.",
    )
