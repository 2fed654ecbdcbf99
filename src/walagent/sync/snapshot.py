"""Read the rows of a shape in one snapshot, and say which transactions it has.

Rows arrive by COPY in text format: the output functions write them, as they do for the stream.

Source: PostgreSQL docs, COPY, "Text Format"; 9.28 on snapshots.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.abc import PQGen
from psycopg.generators import copy_from
from psycopg.pq.abc import PGconn

from walagent.postgres.connection import TEXT_FORMS
from walagent.postgres.quoting import quote_name
from walagent.sync.expression import Node
from walagent.sync.table import ShapeTable

_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPED: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_HALF: Final = 1 << 31
PORTION: Final = 1 << 18  # bytes


@dataclass(frozen=True, slots=True)
class Visible:
    """The transactions that a snapshot has, by 64-bit IDs; PostgreSQL's pg_snapshot."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Visible":
        """Read PostgreSQL's `xmin:xmax:xip,…`."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, filter(None, running.split(",")))))

    def widen(self, xid: int) -> int:
        """Return the 64-bit ID of a transaction near this snapshot, from its lower 32 bits."""
        near = self.xmax - _HALF
        return near + ((xid - near) & 0xFFFFFFFF)

    def has(self, xid: int) -> bool:
        """Return whether the snapshot has the transaction with these lower 32 bits."""
        wide = self.widen(xid)
        return wide < self.xmin or (wide < self.xmax and wide not in self.running)

    def lacking(self, xids: Iterable[int]) -> list[int]:
        """Return those of many transactions that the snapshot does not have."""
        xmin = self.xmin  # a difference below 2^31 means: not older
        return [x for x in xids if not (x - xmin) & _HALF and not self.has(x)]


def select(table: ShapeTable, columns: Sequence[str], where: Node | None) -> str:
    """Return the query of the rows of a shape."""
    names = ", ".join(map(quote_name, columns))
    condition = f" where {where.sql()}" if where is not None else ""
    return f"select {names} from {_source(table)}{condition}"  # noqa: S608 - names are quoted


def lock(table: ShapeTable) -> str:
    """Return what keeps a table as it is until the transaction ends."""
    return f"lock table {_source(table)} in access share mode"


def _source(table: ShapeTable) -> str:
    # The stream names partitions as their parent, and other children by their own names.
    only = "" if table.is_partitioned else "only "
    return f"{only}{quote_name(table.schema)}.{quote_name(table.name)}"


_BEGIN: Final = "; ".join([
    "begin isolation level repeatable read, read only",
    "set local search_path = pg_catalog",
    *(f"set local {name} = '{value}'" for name, value in TEXT_FORMS.items()),
])  # fmt: skip

_POSITION: Final = b"""
select case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
            else pg_current_wal_insert_lsn() end - '0/0'
"""


@asynccontextmanager
async def reading(conn: AsyncConnection[Any]) -> AsyncGenerator[None]:
    """Read in one snapshot, in which values have the forms that they have in the stream."""
    await conn.execute(_BEGIN.encode())
    try:
        yield
    finally:
        await conn.execute("rollback")


async def read_snapshot(conn: AsyncConnection[Any]) -> Visible:
    """Return the snapshot of the open transaction."""
    row = await (await conn.execute("select pg_current_snapshot()::text")).fetchone()
    assert row is not None  # noqa: S101 - a select without a source has one row
    return Visible.parse(row[0])


async def read_position(conn: AsyncConnection[Any]) -> int:
    """Return a position of the WAL that is after each commit that the open snapshot has."""
    row = await (await conn.execute(_POSITION)).fetchone()
    assert row is not None  # noqa: S101 - a select without a source has one row
    return int(row[0])


async def copy_rows(
    conn: AsyncConnection[Any], query: str
) -> AsyncGenerator[list[list[str | None]]]:
    """Yield the rows of a query in portions, each value as PostgreSQL writes it."""
    async for lines in copy_lines(conn, query):
        yield [cells_of(line) for line in lines.split(b"\n")]


async def copy_lines(
    conn: AsyncConnection[Any], query: str, portion: int = PORTION
) -> AsyncGenerator[bytes]:
    """Yield the rows of a query in portions of lines, as COPY writes them.

    Args:
        portion: bytes, about.
    """
    async with conn.cursor() as cursor, cursor.copy(f"copy ({query}) to stdout".encode()):
        is_end = False
        while not is_end:
            # Copy.read() takes longer for a line than all that is done with it.
            lines, is_end = await conn.wait(_portion(conn.pgconn, portion))
            if lines:
                yield b"".join(lines).removesuffix(b"\n")


def _portion(pgconn: PGconn, most: int) -> PQGen[tuple[list[bytes], bool]]:
    """Read some lines; return them, and whether they are the last ones."""
    lines, size = list[bytes](), 0
    while size < most:
        line = yield from copy_from(pgconn)
        if not isinstance(line, memoryview):
            return lines, True
        lines.append(bytes(line))
        size += len(line)
    return lines, False


def cells_of(line: bytes) -> list[str | None]:
    """Return the values of a line."""
    cells = line.split(b"\t")
    if b"\\" in line:
        return [_cell(cell) for cell in cells]
    return [cell.decode() for cell in cells]


def _cell(cell: bytes) -> str | None:
    if cell == b"\\N":
        return None
    if b"\\" not in cell:
        return cell.decode()
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), cell).decode()
