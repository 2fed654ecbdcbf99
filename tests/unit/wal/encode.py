"""Writes pgoutput messages as the server does, for tests of what reads them."""

import struct
from collections.abc import Sequence

from walagent.domain.change import UNCHANGED, Column, Unsent

HEAD = b"w" + bytes(24)  # of an XLogData frame, its positions 0

Cell = bytes | Unsent | None


def text(value: str) -> bytes:
    """A string with its zero byte."""
    return value.encode("utf-8", "surrogateescape") + b"\0"


def begin(commit_lsn: int = 100, xid: int = 7, micros: int = 0) -> bytes:
    """A transaction starts."""
    return b"B" + struct.pack(">QqI", commit_lsn, micros, xid)


def commit(commit_lsn: int = 100, end_lsn: int = 140, micros: int = 0) -> bytes:
    """A transaction ends."""
    return b"C\0" + struct.pack(">QQq", commit_lsn, end_lsn, micros)


def relation(oid: int, columns: Sequence[Column], name: str = "t", identity: str = "d") -> bytes:
    """A table is described."""
    parts = [b"R", struct.pack(">I", oid), text("public"), text(name), identity.encode()]
    parts.append(struct.pack(">H", len(columns)))
    for column in columns:
        kind = struct.pack(">Ii", column.type_oid, -1)
        parts += [bytes([column.in_key]), text(column.name), kind]
    return b"".join(parts)


def cells(row: Sequence[Cell]) -> bytes:
    """A row's values."""
    return struct.pack(">H", len(row)) + b"".join(map(_cell, row))


def _cell(cell: Cell) -> bytes:
    if cell is None:
        return b"n"
    if cell is UNCHANGED:
        return b"u"
    assert isinstance(cell, bytes)
    return b"t" + struct.pack(">I", len(cell)) + cell


def insert(oid: int, row: Sequence[Cell]) -> bytes:
    """A row comes."""
    return b"I" + struct.pack(">I", oid) + b"N" + cells(row)


def update(oid: int, new: Sequence[Cell], old: Sequence[Cell] | None = None) -> bytes:
    """A row changes; with *old*, its key did."""
    before = b"" if old is None else b"K" + cells(old)
    return b"U" + struct.pack(">I", oid) + before + b"N" + cells(new)


def delete(oid: int, old: Sequence[Cell], part: bytes = b"K") -> bytes:
    """A row goes."""
    return b"D" + struct.pack(">I", oid) + part + cells(old)


def truncate(*oids: int) -> bytes:
    """Tables are emptied."""
    return b"T" + struct.pack(">IB", len(oids), 0) + struct.pack(f">{len(oids)}I", *oids)


def message(prefix: str, content: bytes, *, transactional: bool = True, lsn: int = 50) -> bytes:
    """A logical message."""
    head = struct.pack(">BQ", transactional, lsn)
    return b"M" + head + text(prefix) + struct.pack(">I", len(content)) + content


def keepalive(wal_end: int, *, reply: bool = False) -> bytes:
    """A frame of its own."""
    return b"k" + struct.pack(">QqB", wal_end, 0, reply)


def frames(*messages: bytes) -> list[bytes]:
    """Messages as they come from the server; keepalives are frames already."""
    return [each if each[:1] == b"k" else HEAD + each for each in messages]


def streamed(xid: int, each: bytes) -> bytes:
    """A message as it looks within a block of an open transaction."""
    return each[:1] + struct.pack(">I", xid) + each[1:]


def block(xid: int, *messages: bytes, first: bool = True) -> list[bytes]:
    """Messages of open transaction *xid*; each already carries its own id."""
    return [b"S" + struct.pack(">IB", xid, first), *messages, b"E"]


def stream_commit(xid: int, commit_lsn: int = 100, end_lsn: int = 140) -> bytes:
    """A transaction that came in blocks is committed."""
    return b"c" + struct.pack(">IBQQq", xid, 0, commit_lsn, end_lsn, 0)


def stream_abort(xid: int, subxid: int) -> bytes:
    """It, or a savepoint of it, is rolled back."""
    return b"A" + struct.pack(">II", xid, subxid)


def type_name(oid: int, schema: str, name: str) -> bytes:
    """A type that is not built in is named."""
    return b"Y" + struct.pack(">I", oid) + text(schema) + text(name)
