"""What the WAL says happened: changes of rows, within transactions.

The decoders produce these, whichever plug-in the bytes came from; everything above knows
nothing else of the WAL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Final, Literal

from walagent.lsn import Lsn


class Op(StrEnum):
    """What was done to a row, or to a whole table."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


class Unsent(Enum):
    """The third state of a column, beside a value and NULL.

    UNCHANGED: a TOASTed value that the update did not touch, so the WAL does not carry it.
    """

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unsent.UNCHANGED

# int for int2/int4/int8/oid, float for float4/float8, Decimal for numeric, bool, None for NULL;
# every other type keeps PostgreSQL's own text (json and jsonb too: parsing would lose digits).
Value = int | float | Decimal | bool | str | None | Literal[Unsent.UNCHANGED]
Row = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a relation, as the WAL describes it."""

    name: str
    type_oid: int
    type_name: str  # as format_type() writes it where known, else ""
    in_key: bool  # part of the replica identity


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it was when the change was made; it may look different by now."""

    oid: int  # 0 where the plug-in does not tell (wal2json)
    schema: str
    name: str
    columns: tuple[Column, ...] = ()
    identity: str = "d"  # pg_class.relreplident: d default, n nothing, f full, i index


@dataclass(frozen=True, slots=True)
class Change:
    """One row inserted, updated or deleted, or one table truncated.

    `ordinal` counts all changes of the transaction from 0, wanted or not; together with the
    transaction's commit LSN it is the change's identity, the same however often it arrives.
    """

    commit_lsn: Lsn
    ordinal: int
    op: Op
    relation: Relation
    new: Row | None  # insert, update: the whole row, but for UNCHANGED columns
    old: Row | None  # update, delete: the replica identity where sent, no more
    xid: int = 0


@dataclass(frozen=True, slots=True)
class OriginMarker:
    """A transactional logical message (`pg_logical_emit_message`); not to be trusted as such."""

    prefix: str
    content: bytes
    lsn: Lsn


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction starts; its commit position is known from the start.

    `end_lsn` is where the next one may begin and what is confirmed once it is durable.
    Not every plug-in knows it yet here, so it comes with `Commit`.
    """

    xid: int
    commit_lsn: Lsn
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive changes of the open transaction; a large one comes in many pieces."""

    changes: Sequence[Change]
    weight: int = 0  # bytes that the server sent for them


@dataclass(frozen=True, slots=True)
class Commit:
    """The open transaction is complete."""

    commit_lsn: Lsn
    end_lsn: Lsn


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is in flight, and the server has read its WAL up to `wal_end`."""

    wal_end: Lsn
    reply_requested: bool


# Items of a transaction stream: Begin (OriginMarker | Piece)* Commit, with Idle between.
Item = Begin | OriginMarker | Piece | Commit | Idle
