"""The changes of rows in a transaction, as decoded from the WAL.

The decoders of both plugins produce these values; other modules know nothing else about the
WAL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Final, Literal

from walagent.postgres.lsn import Lsn


class Op(StrEnum):
    """The operation on a row, or on a whole table."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


class Unsent(Enum):
    """The third state of a column, besides a value and NULL.

    UNCHANGED: a TOASTed value that the update did not change, so the WAL does not contain it.
    """

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unsent.UNCHANGED

# int for int2/int4/int8/oid, float for float4/float8, Decimal for numeric, bool, None for NULL;
# PostgreSQL's text for other types (json and jsonb too: parsing would lose digits).
Value = int | float | Decimal | bool | str | None | Literal[Unsent.UNCHANGED]
Row = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a relation, as described in the WAL."""

    name: str
    type_oid: int
    type_name: str  # as from format_type() if known, else ""
    in_key: bool  # part of the replica identity


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as of the change; it might differ now."""

    oid: int  # 0 if the plugin does not send it (wal2json)
    schema: str
    name: str
    columns: tuple[Column, ...] = ()
    identity: str = "d"  # pg_class.relreplident: d default, n nothing, f full, i index


@dataclass(frozen=True, slots=True)
class Change:
    """The insert, update or delete of one row, or the truncation of one table.

    `ordinal` counts all changes of the transaction from 0, wanted or not; together with the
    transaction's commit LSN it identifies the change, also when it is sent again.
    """

    commit_lsn: Lsn
    ordinal: int
    op: Op
    relation: Relation
    new: Row | None  # insert, update: the whole row, except for UNCHANGED columns
    old: Row | None  # update, delete: the replica identity, if sent
    xid: int = 0


@dataclass(frozen=True, slots=True)
class OriginMarker:
    """A transactional logical message (`pg_logical_emit_message`); not verified yet."""

    prefix: str
    content: bytes
    lsn: Lsn


@dataclass(frozen=True, slots=True)
class Begin:
    """The start of a transaction, with its commit LSN.

    `end_lsn`, where the next transaction can start and which is confirmed once it is durable,
    is not known here with every plugin, so it comes with `Commit`.
    """

    xid: int
    commit_lsn: Lsn
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive changes of the open transaction; a large transaction has many pieces."""

    changes: Sequence[Change]
    weight: int = 0  # bytes that the server sent for them


@dataclass(frozen=True, slots=True)
class Commit:
    """The open transaction is complete."""

    commit_lsn: Lsn
    end_lsn: Lsn


@dataclass(frozen=True, slots=True)
class Idle:
    """No transaction is in flight, and the server has read its WAL up to `wal_end`."""

    wal_end: Lsn
    reply_requested: bool


# Items of a transaction stream: Begin (OriginMarker | Piece)* Commit, with Idle between.
Item = Begin | OriginMarker | Piece | Commit | Idle
