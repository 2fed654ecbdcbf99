"""One shape: a snapshot, then what changes in it, for any number of clients."""

import asyncio
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from sys import getsizeof
from typing import Final, NamedTuple, Self

from walagent.domain.change import UNCHANGED, Change, Op
from walagent.message import Json
from walagent.sync.definition import Definition
from walagent.sync.expression import columns_of
from walagent.sync.limits import EngineLimits
from walagent.sync.messages import row_message, up_to_date
from walagent.sync.predicate import Predicate, needed_values
from walagent.sync.shape_log import INFINITE, Entry, Offset, ShapeLog
from walagent.sync.table import ShapeTable, schema_header

_ASKED: Final = 120.0  # seconds since the last request: twice as long as an event stream
Texts = Mapping[str, str | None]
Write = Callable[[bytes], bool]


class Event(NamedTuple):
    """What streams send after an offset."""

    after: Offset
    end: Offset | None  # of the log
    position: int
    messages: Sequence[bytes]
    body: bytes | None  # None: it is sent in pieces, so that no copy is in memory
    upto: Offset


_NO_EVENT: Final = Event(Offset(0, 0), None, 0, (), b"", Offset(0, 0))
_AT_ONCE: Final = 1 << 16  # bytes
_KEY: Final = 80  # of a row's key, about


@dataclass(eq=False, slots=True)
class Follower:
    """Who follows a shape by an event stream.

    Args:
        at: what it has.
        is_waiting: whether nothing is being sent to it.
    """

    at: Offset
    write: Write | None
    is_waiting: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


class LiveShape:
    """What every shape has: a snapshot, a log, and clients that wait.

    Args:
        schema: the header electric-schema.
        limits: of its log and its chunks.
    """

    def __init__(self, schema: str, limits: EngineLimits) -> None:
        self.schema = schema
        self.handle = f"{secrets.randbits(64)}-{time.time_ns() // 1000}"
        self.snapshot: list[bytes] = []  # chunks: messages, joined by commas
        self._new_log = partial(ShapeLog, limits.log_bytes, limits.chunk_bytes)
        self.log = self._new_log()
        self.ended = False
        self.error: Exception | None = None  # why there is no snapshot
        self.used_at = time.monotonic()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed = asyncio.Event()
        self._followers = set[Follower]()
        self._event = _NO_EVENT
        self.ready.add_done_callback(lambda _: self.wake())

    @property
    def end(self) -> Offset:
        """Return the offset of all that it has."""
        return self.log.last or Offset(0, INFINITE)

    @property
    def is_asked_for(self) -> bool:
        """Return whether a client asked for it lately."""
        return time.monotonic() - self.used_at < _ASKED

    @property
    def size(self) -> int:
        """Return the bytes of its snapshot and its log."""
        return sum(map(len, self.snapshot)) + self.log.size

    async def has_chunk(self, number: int) -> None:
        """Wait until a chunk of the snapshot is complete, or all of it, or the shape has ended."""
        while not (self.ready.done() or len(self.snapshot) > number + 1):
            await self._changed.wait()

    async def wait(self, seconds: float) -> bool:
        """Wait until something was added, or it has ended; False after *seconds*."""
        changed = self._changed
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    @contextmanager
    def following(self, at: Offset, write: Write | None) -> Generator["Follower"]:
        """Yield a follower, who is woken whenever something was added, and at the end.

        Args:
            at: after what it follows.
            write: sends to it at once; returns False if it cannot.
        """
        follower = Follower(at, write)
        self._followers.add(follower)
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    def wake(self) -> None:
        """Let those that wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()
        for each in self._followers:
            if self.ended or not self._push(each):
                each.news.set()

    def _push(self, follower: "Follower") -> bool:
        """Send what was added at once; return whether all of it was sent."""
        if follower.write is None or not follower.is_waiting:
            return False
        while self.log.has_after(follower.at):
            event = self.event_after(follower.at, 0)
            if event.body is None or not follower.write(event.body):
                return False
            follower.at = event.upto
        return True

    def event_after(self, at: Offset, position: int) -> Event:
        """Return what an event stream sends after an offset, which streams at one place share.

        Args:
            position: of the stream of changes.
        """
        last = self._event
        if (last.after, last.end, last.position) != (at, self.log.last, position):
            messages, end, is_end = self.log.after(at)
            if is_end:
                # The position moves past a commit when all shapes have it: others might wait.
                seen = max(position, end.lsn + 1) if messages else position
                messages.append(up_to_date(seen))
            body = None
            if sum(map(len, messages)) <= _AT_ONCE:
                body = b"".join(b"data: " + message + b"\n\n" for message in messages)
            last = self._event = Event(at, self.log.last, position, messages, body, end)
        return last

    def finish(self) -> None:
        """End it: who waits is answered with must-refetch."""
        self.ended = True
        # A request that waits for its client can hold the shape for long.
        self.snapshot, self.log = [], self._new_log()
        self._event = _NO_EVENT
        if not self.ready.done():
            self.ready.set_result(None)
        self.wake()

    def extend(self, lsn: int, messages: Iterable[tuple[int, bytes]]) -> bool:
        """Append messages of one transaction; return whether they fitted.

        Args:
            messages: each with its position, which is even.
        """
        entry = self.log.entry()
        # The offset after one is odd: no position in a transaction equals `<end of the one
        # before>_0`, where SSE resumes.
        fits = all(entry.add(op, message) for op, message in messages)
        if fits:
            self.append(lsn, entry)
        return fits

    def append(self, lsn: int, entry: Entry) -> None:
        """Append a transaction for which the log has room."""
        if entry.size:
            self.log.append(lsn, entry)
            self.wake()


class Shape(LiveShape):
    """The rows of a table that a condition selects.

    Args:
        predicate: whether a row belongs to it; None: every row does, or PostgreSQL says which.
        limits: of its log and its chunks.
    """

    def __init__(
        self,
        definition: Definition,
        table: ShapeTable,
        predicate: Predicate | None,
        limits: EngineLimits,
    ) -> None:
        self.definition = definition
        self.table = table
        self.mark = ""  # of the table as its rows were read; see table_watch
        self.columns = definition.columns or tuple(column.name for column in table.columns)
        super().__init__(schema_header(table, self.columns), limits)
        self.chunk = limits.chunk_bytes
        self.predicate = predicate
        where = definition.where
        # The key alone says whether a row belongs to it, so it says so of the row before, too.
        self._by_key = (
            where is not None and predicate is not None and {*columns_of(where)} <= {*table.key}
        )
        # Else, without the old row, only this shows whether a row was in it before its update.
        self.members: set[str] | None = None if where is None or self._by_key else set()
        # A column and its values in all rows that can match; None: any row can.
        self.needs = None if where is None or predicate is None else needed_values(where, table)
        self._only = frozenset(self.columns)
        self._form = (self.columns, definition.replica)  # shapes of one form have equal messages

    @property
    def size(self) -> int:
        """Return the bytes of its snapshot, its log and the keys of its rows."""
        keys = self.members
        return super().size + (getsizeof(keys) + _KEY * len(keys) if keys else 0)

    def finish(self) -> None:
        """End it; see `LiveShape.finish`."""
        if self.members:
            self.members = set()
        super().finish()

    @property
    def is_evaluated_by_postgresql(self) -> bool:
        """Return whether its condition is not compiled."""
        return self.definition.where is not None and self.predicate is None

    def changes_of(
        self, row: "RowChange", *, matches: bool | None = None
    ) -> "Sequence[ShapeChange]":
        """Return what a change of the table is in this shape.

        Most changes are none of most shapes, so what they have in common is in *row*: also the
        messages, which shapes with the same columns share.

        Args:
            matches: whether the new row belongs to it; None: its predicate says so.
        """
        new, members = row.new, self.members
        if matches is None and new is not None:
            matches = self.predicate is None or self.predicate(new) is True
        was = row.op is not Op.INSERT and self._had(row)
        if not was and not matches:
            return ()
        if members is not None:
            if was:
                members.discard(row.before)
            if matches:
                members.add(row.key)
        how = (self._form, was, matches)
        found = row.shared.get(how)
        if found is None:
            found = row.shared[how] = self._changes(row, was=was, matches=bool(matches))
        return found

    def _had(self, row: "RowChange") -> bool:
        if self._by_key and self.predicate is not None:
            return self.predicate(row.with_key_before) is True
        return self.members is None or row.before in self.members

    def _changes(self, row: "RowChange", *, was: bool, matches: bool) -> "list[ShapeChange]":
        new, at = row.new, row.position
        if new is None:
            return [ShapeChange(at, "delete", row.key, self._left(row.old or {}))]
        if not was:
            return [ShapeChange(at, "insert", row.key, self._shown(new))]
        if matches and row.before == row.key:
            return self._changed_row(row, new)
        old = row.old or {}
        key = {name: old.get(name, new.get(name)) for name in self.table.key}
        left = self._left({**key, **old})
        if not matches:
            return [ShapeChange(at, "delete", row.before, left)]
        goes, comes = {"key_change_to": row.key}, {"key_change_from": row.before}
        return [
            ShapeChange(at, "delete", row.before, left, goes),
            ShapeChange(at + 2, "insert", row.key, self._shown(new), comes),
        ]

    def _changed_row(self, row: "RowChange", new: Texts) -> "list[ShapeChange]":
        value, at, key, old = self._shown(new), row.position, row.key, row.old
        if old is None or not row.has_whole_old:
            return [ShapeChange(at, "update", key, value)]
        # The whole old row is known: only what differs was changed.
        changed = {n for n, text in value.items() if n in old and old[n] != text}
        if not changed:
            return []
        old_values = {name: old[name] for name in changed}
        if self.definition.replica == "full":
            return [ShapeChange(at, "update", key, value, {}, old_values)]
        keep = changed | set(self.table.key)  # planted: update-without-key
        return [ShapeChange(at, "update", key, {n: v for n, v in value.items() if n in keep})]

    def _shown(self, row: Texts) -> dict[str, str | None]:
        only = self._only
        return {name: text for name, text in row.items() if name in only}

    def _left(self, row: Texts) -> dict[str, str | None]:
        """Return the value of a delete."""
        if self.definition.replica == "full":
            return self._shown(row)
        return {name: row.get(name) for name in self.table.key}


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of a row, as all shapes of its table see it.

    Args:
        new: texts of the new row, complete if it can move into a shape; None: it is deleted.
        old: texts of the old row, or of its key, where the server sent them.
        before, key: its keys before and after.
        has_whole_old: whether *old* has all columns.
        position: in the transaction: even, and the next one is free for a second message.
        shared: what it is in shapes of a form, by whether it was in the shape and is.
    """

    op: Op
    new: Texts | None
    old: Texts | None
    before: str
    key: str
    has_whole_old: bool
    position: int
    shared: "dict[object, list[ShapeChange]]" = field(
        default_factory=dict[object, "list[ShapeChange]"]
    )

    @property
    def with_key_before(self) -> Texts:
        """Return texts that have the key before the change; other columns can be of any row."""
        if self.new is None or self.old is None:
            return self.new or self.old or {}
        return {**self.new, **self.old}  # planted: key-before-ignored

    @classmethod
    def of(cls, table: ShapeTable, change: Change, new: Texts | None) -> Self:
        """Build from a change and the texts of its new row."""
        old = None if change.old is None else table.texts(change.old)
        key = table.key_of((old or {}) if new is None else new)
        before = key if old is None or new is None else table.key_of({**new, **old})
        whole = change.relation.identity == "f"
        return cls(change.op, new, old, before, key, whole, 4 * change.ordinal)


@dataclass(slots=True)
class ShapeChange:
    """One message of the logs of shapes."""

    position: int
    operation: str
    key: str
    value: Texts
    headers: Mapping[str, Json] = field(default_factory=dict[str, Json])
    old_value: Texts | None = None
    _message: bytes | None = None

    def message(
        self, relation: tuple[str, str], lsn: int, txids: Sequence[int], *, is_last: bool = False
    ) -> bytes:
        """Return its bytes, which all shapes have in common unless it is the last of one.

        Args:
            lsn, txids: of its transaction.
        """
        if self._message is not None and not is_last:
            return self._message
        headers: dict[str, Json] = {
            "txids": list(txids),
            "lsn": str(lsn),
            "op_position": self.position,
        }
        if is_last:
            headers["last"] = True
        headers |= self.headers
        found = row_message(self.operation, relation, self.key, self.value, headers, self.old_value)
        if not is_last:
            self._message = found
        return found


def lacks_values(change: Change) -> bool:
    """Return whether values were not sent, because the update did not change them."""
    return change.new is not None and any(v is UNCHANGED for v in change.new.values())
