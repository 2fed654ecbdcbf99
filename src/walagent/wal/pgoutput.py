"""Decode one pgoutput message; other bytes raise DecodeError.

This decoder checks every bound and tracks every offset.  Rows also have a fast decoder (`rowcode`),
which leaves anything unusual to this one.

Messages inside a streamed block of protocol 2 have an extra transaction ID after the first byte;
`split_streamed` removes it, and the rest is a message of protocol 1.

Source: PostgreSQL docs, 55.9 Logical Replication Message Formats.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from walagent.domain.change import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Op,
    Relation,
    Row,
    Unsent,
    Value,
)
from walagent.errors import DecodeError
from walagent.postgres.lsn import Lsn
from walagent.postgres.pgtypes import type_name
from walagent.postgres.text_values import PARSERS, kind_of
from walagent.wal.cursor import Cursor, time_of

_BEGIN: Final = Struct(">QqI")
_COMMIT: Final = Struct(">BQQq")
_MOST_COLUMNS: Final = 1664  # MaxTupleAttributeNumber: the most columns of a relation

# The offset of a column in the payload, and its text; None means NULL.
Cell = tuple[int, bytes | Unsent | None]


@dataclass(frozen=True, slots=True)
class TypeName:
    """The name of a type that is not built in; for a domain, that of its base type."""

    oid: int
    name: str


@dataclass(frozen=True, slots=True)
class OriginMessage:
    """The transaction was replicated from another server."""

    name: str


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """A message of pg_logical_emit_message()."""

    transactional: bool
    lsn: Lsn
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row change with values in text format."""

    op: Op
    relation_oid: int
    old: tuple[Cell, ...] | None
    new: tuple[Cell, ...] | None
    old_is_key: bool  # whether only the key columns of `old` are set


@dataclass(frozen=True, slots=True)
class Truncate:
    """The tables that one statement truncated, in the server's order."""

    relation_oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Start of a block of an open transaction."""

    xid: int


@dataclass(frozen=True, slots=True)
class StreamStop:
    """End of a block of an open transaction."""


@dataclass(frozen=True, slots=True)
class StreamCommit:
    """Commit of a transaction that was sent in blocks."""

    begin: Begin
    commit: Commit


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """Rollback of a transaction that was sent in blocks, or of one of its savepoints."""

    xid: int
    subxid: int


Message = (
    Begin
    | Commit
    | Relation
    | TypeName
    | OriginMessage
    | LogicalMessage
    | RowChange
    | Truncate
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
)


def decode(data: bytes, offset: int = 0, types: Mapping[int, str] | None = None) -> Message:
    """Decode the message from *offset* to the end of *data*.

    *types* has the names of types that are not built in, from earlier `TypeName` messages.

    Raises:
        DecodeError: this is not a message of protocol 1 or 2.
    """
    cursor = Cursor(data, offset)
    tag = cursor.take(1)
    if (read := _READERS.get(tag)) is None:
        raise DecodeError(f"unknown pgoutput message {tag!r}", offset=offset)
    message = _relation(cursor, types or {}) if tag == b"R" else read(cursor)
    cursor.finish()
    return message


def split_streamed(data: bytes, offset: int) -> tuple[int, bytes]:
    """Split the transaction ID from a message inside a streamed block.

    Returns:
        The ID of the (sub)transaction, and the message in the format of protocol 1.

    Raises:
        DecodeError: the message is too short.
    """
    cursor = Cursor(data, offset)
    tag = cursor.take(1)
    return cursor.uint32(), tag + data[cursor.offset :]


def type_row(relation: Relation, cells: tuple[Cell, ...], *, only_key: bool = False) -> Row:
    """Map the cells of a row to column names and parsed values.

    Raises:
        DecodeError: the number of cells differs from that of the columns, or a value is not valid
            for its type.
    """
    if len(cells) != len(relation.columns):
        raise DecodeError(
            f"{relation.schema}.{relation.name} has {len(relation.columns)} columns, but the row "
            f"has {len(cells)} values",
            offset=cells[0][0] if cells else 0,
        )
    return {
        column.name: _value(column, cell)
        for column, cell in zip(relation.columns, cells, strict=True)
        if column.in_key or not only_key
    }


def _value(column: Column, cell: Cell) -> Value:
    offset, raw = cell
    if not isinstance(raw, bytes):
        return raw
    text = raw.decode("utf-8", "surrogateescape")
    try:
        return PARSERS[kind_of(column.type_oid)](text)
    except (ValueError, ArithmeticError) as error:
        raise DecodeError(f'invalid value for column "{column.name}"', offset=offset) from error


def _begin(cursor: Cursor) -> Begin:
    commit_lsn, micros, xid = cursor.fields(_BEGIN)
    return Begin(xid, Lsn(commit_lsn), time_of(micros, cursor.offset - _BEGIN.size + 8))


def _commit(cursor: Cursor) -> Commit:
    commit, _micros = _commit_and_time(cursor)
    return commit


def _commit_and_time(cursor: Cursor) -> tuple[Commit, int]:
    """Read a commit and its time in microseconds since 2000-01-01, which Begin also has."""
    start = cursor.offset
    flags, commit_lsn, end_lsn, micros = cursor.fields(_COMMIT)
    if flags:
        raise DecodeError(f"unknown commit flags {flags}", offset=start)
    return Commit(Lsn(commit_lsn), Lsn(end_lsn)), micros


def _relation(cursor: Cursor, types: Mapping[int, str]) -> Relation:
    oid, schema, name = cursor.uint32(), cursor.text(), cursor.text()
    identity = chr(cursor.uint8())
    start = cursor.offset
    if (count := cursor.uint16()) > _MOST_COLUMNS:
        raise DecodeError(f"relation has too many columns: {count}", offset=start)
    columns = tuple(_column(cursor, types) for _ in range(count))
    # The server sends pg_catalog as an empty schema.
    return Relation(oid, schema or "pg_catalog", name, columns, identity)


def _column(cursor: Cursor, types: Mapping[int, str]) -> Column:
    flags, name = cursor.uint8(), cursor.text()
    oid, typmod = cursor.uint32(), cursor.int32()
    return Column(name, oid, types.get(oid) or type_name(oid, typmod), in_key=bool(flags & 1))


def _type(cursor: Cursor) -> TypeName:
    oid, schema, name = cursor.uint32(), cursor.text(), cursor.text()
    return TypeName(oid, name if schema in {"", "public"} else f"{schema}.{name}")


def _origin(cursor: Cursor) -> OriginMessage:
    cursor.lsn()
    return OriginMessage(cursor.text())


def _message(cursor: Cursor) -> LogicalMessage:
    transactional = bool(cursor.uint8() & 1)
    lsn, prefix = cursor.lsn(), cursor.text()
    return LogicalMessage(transactional, lsn, prefix, cursor.take(cursor.uint32()))


def _insert(cursor: Cursor) -> RowChange:
    oid = cursor.uint32()
    _expect(cursor, b"N")
    return RowChange(Op.INSERT, oid, None, _cells(cursor), old_is_key=False)


def _update(cursor: Cursor) -> RowChange:
    oid, old = cursor.uint32(), None
    if (part := _expect(cursor, b"KON")) != b"N":
        old = _cells(cursor)
        _expect(cursor, b"N")
    return RowChange(Op.UPDATE, oid, old, _cells(cursor), old_is_key=part == b"K")


def _delete(cursor: Cursor) -> RowChange:
    oid = cursor.uint32()
    part = _expect(cursor, b"KO")
    return RowChange(Op.DELETE, oid, _cells(cursor), None, old_is_key=part == b"K")


def _expect(cursor: Cursor, known: bytes) -> bytes:
    start = cursor.offset
    if (part := cursor.take(1)) not in known:
        raise DecodeError(f"unknown tuple type {part!r}", offset=start)
    return part


def _cells(cursor: Cursor) -> tuple[Cell, ...]:
    return tuple(_cell(cursor) for _ in range(cursor.uint16()))


def _cell(cursor: Cursor) -> Cell:
    start = cursor.offset
    match kind := cursor.take(1):
        case b"t":
            return start, cursor.take(cursor.uint32())
        case b"n":
            return start, None
        case b"u":
            return start, UNCHANGED
        case _:
            raise DecodeError(f"unknown kind of value {kind!r}", offset=start)


def _truncate(cursor: Cursor) -> Truncate:
    count = cursor.uint32()
    cursor.uint8()  # CASCADE and RESTART IDENTITY are options of the statement
    return Truncate(tuple(cursor.uint32() for _ in range(count)))


def _stream_start(cursor: Cursor) -> StreamStart:
    xid = cursor.uint32()
    cursor.uint8()  # 1 for the first block of the transaction
    return StreamStart(xid)


def _stream_stop(_cursor: Cursor) -> StreamStop:
    return StreamStop()


def _stream_commit(cursor: Cursor) -> StreamCommit:
    xid = cursor.uint32()
    commit, micros = _commit_and_time(cursor)
    time = time_of(micros, cursor.offset - 8)
    return StreamCommit(Begin(xid, commit.commit_lsn, time), commit)


def _stream_abort(cursor: Cursor) -> StreamAbort:
    return StreamAbort(cursor.uint32(), cursor.uint32())


_READERS: Final[Mapping[bytes, Callable[[Cursor], Message]]] = {
    b"B": _begin,
    b"C": _commit,
    b"R": lambda cursor: _relation(cursor, {}),
    b"Y": _type,
    b"O": _origin,
    b"M": _message,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
    b"S": _stream_start,
    b"E": _stream_stop,
    b"c": _stream_commit,
    b"A": _stream_abort,
}
