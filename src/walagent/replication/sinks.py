"""Define consumers of the stream: durable ones hold the slot back, lossy ones do not."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from psycopg import AsyncConnection

from walagent.config import Replication
from walagent.domain.change import Item
from walagent.postgres.lsn import Lsn
from walagent.replication.wal_activity import WalActivity
from walagent.store.checkpoint import Checkpoint

Table = tuple[str, str]  # schema and name


@dataclass(frozen=True, slots=True)
class Want:
    """What a sink needs of a table."""

    inserts_only: bool = False  # then the table needs no replica identity
    # Whether the transaction that asked for the table has published it: the request is exact.
    is_published: bool = False
    # How the publication sent the table when the sink began to rely on it; None: it does not yet.
    # If that differs from now, changes might not have been sent.
    entry: Sequence[str | None] | None = None


Wants = Mapping[Table, Want]


class Sink(Protocol):
    """A consumer of the items of one stream.

    They arrive in the order of the stream, `Begin (OriginMarker | Piece)* Commit` with `Idle`
    between; a transaction can take several calls.  A durable sink receives every transaction whose
    commit LSN is not below the `durable` that it had when the stream was opened.
    """

    def tables(self) -> Wants:
        """Return the tables that the stream must carry for it; this can change at any time.

        The stream can carry more.  A table that is not published yet is carried from a later
        transaction on.
        """
        ...

    async def take(self, items: Sequence[Item]) -> None:
        """Take the next items; they are shared with other sinks and must not be changed.

        While a durable sink takes, other sinks wait, and reading stops when the buffer is full:
        after `stall_timeout` the stream is closed.  A lossy sink returns at once and drops what
        does not fit.  The end of the stream cancels the call.

        Raises:
            ResubscribeError: the stream does not carry its tables.
        """
        ...

    @property
    def durable(self) -> Lsn | None:
        """The position up to which everything is durable; None for a lossy sink.

        The server may drop WAL before it.  It can advance at any time and never moves back, except
        with a new generation of the checkpoint, which follows a gap: then it starts there.
        """
        ...


class ResubscribeError(Exception):
    """The stream carries fewer tables than a sink needs now; open it again for *tables*.

    Raised by `Sink.take` before the transaction that requested a table is durable, so that this
    transaction is read again with its own changes of the table.
    """

    def __init__(self, tables: frozenset[Table]) -> None:
        super().__init__("stream does not carry all tables")
        self.tables = tables


@dataclass(frozen=True, slots=True)
class Opening:
    """A stream before it is opened; the checkpoint is read but not held yet."""

    dsn: str
    conn: AsyncConnection[Any]  # the reader's, shared: one statement at a time, in autocommit mode
    settings: Replication
    checkpoint: Checkpoint
    failover: bool  # whether standbys have copies of the slot
    tables: frozenset[Table]  # requested by `ResubscribeError`
    wal: WalActivity = field(default_factory=WalActivity)


# Background work while the stream is read, by the name of its task.  It does not end by itself.
Beside = Mapping[str, Coroutine[Any, Any, object]]


@dataclass(slots=True)
class Answers:
    """What became of the requests for tables.

    Args:
        standing: accepted, and not being withdrawn: they are published until it is seen here.
        refused: since when.
        lost: removed from the publication by another role; when it was noticed.
    """

    standing: set[Table] = field(default_factory=set[Table])
    refused: dict[Table, float] = field(default_factory=dict[Table, float])
    lost: dict[Table, float] = field(default_factory=dict[Table, float])


@dataclass(frozen=True, slots=True)
class SinkSet:
    """The sinks of one stream, in the order in which they receive items.

    `start` is called once, when the stream is open and the checkpoint is held: from then on they
    may write.  It returns background work, whose errors end the stream.
    """

    sinks: Sequence[Sink]
    start: Callable[[Checkpoint], Awaitable[Beside]]
    answers: Answers = field(default_factory=Answers)  # to what they need


OpenSinks = Callable[[Opening], AbstractAsyncContextManager[SinkSet]]


def first_needed(sinks: Sequence[Sink], otherwise: Lsn) -> Lsn:
    """Return the lowest position of the durable sinks; *otherwise* if none is durable."""
    return min((sink.durable for sink in sinks if sink.durable is not None), default=otherwise)


def tables_of(sinks: Sequence[Sink]) -> frozenset[Table]:
    """Return the tables that any of the sinks needs."""
    return frozenset[Table]().union(*(sink.tables() for sink in sinks))


@dataclass(frozen=True, slots=True)
class TableRequest:
    """What all sinks together need of a table that no other transaction publishes."""

    inserts_only: bool  # if each of them needs only inserts
    durable: bool  # if one of them is durable: a change that was not sent is a gap


def requests_of(sinks: Sequence[Sink]) -> Mapping[Table, TableRequest]:
    """Return the union of what the sinks need."""
    requests: dict[Table, TableRequest] = {}
    for sink in sinks:
        durable = sink.durable is not None
        for table, want in sink.tables().items():
            if want.is_published:
                continue
            known = requests.get(table, TableRequest(inserts_only=True, durable=False))
            requests[table] = TableRequest(
                inserts_only=known.inserts_only and want.inserts_only,
                durable=known.durable or durable,
            )
    return requests
