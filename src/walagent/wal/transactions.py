"""Assemble frames of pgoutput into items of transactions; no I/O except spool files.

    frames → Begin (OriginMarker | Piece)* Commit, with Idle between

Changes of unwanted relations are counted but not decoded.  With protocol 2, an open transaction
that is sent in blocks is spooled and read at its commit, so the output is the same as with
protocol 1.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from walagent.domain.change import Begin, Change, Commit, Item, Op, OriginMarker, Piece, Relation
from walagent.errors import DecodeError
from walagent.postgres.lsn import Lsn
from walagent.wal import pgoutput
from walagent.wal.checkpoint import StreamPosition
from walagent.wal.decoders import MOST_COMPILED, Decoders
from walagent.wal.options import MARKER_PREFIX
from walagent.wal.protocol import HEADER, XLOG_DATA
from walagent.wal.rowcode import UNFIT, RowDecoder, make_change
from walagent.wal.spool import Spools

PIECE_CHANGES: Final = 1000  # enough that the cost of passing a list is negligible per row
PIECE_BYTES: Final = 1 << 18  # of payload; a piece of wide rows has fewer changes

_ROW_TAGS: Final = frozenset(b"IUDT")
_STREAMED_TAGS: Final = frozenset(b"RYMIUDT")
_FRAME_HEAD: Final = b"w" + bytes(HEADER - 1)
_KEY: Final = slice(HEADER, HEADER + 5)  # of a row's frame: its kind and relation OID
_NO_ROWS: Final[dict[bytes, RowDecoder | None]] = {}

# The decoder for a row's frame; None if the relation is not wanted; `_not_a_row` if unknown.
_Lookup = Callable[[bytes, RowDecoder], RowDecoder | None]


class Transactions(Protocol):
    """Assembles the frames of one stream; each plugin has its own implementation."""

    @property
    def received(self) -> Lsn:
        """Return the position up to which everything was yielded: the most to confirm."""
        ...

    @property
    def weight(self) -> int:
        """Return the bytes of all frames fed so far; its growth measures what is in memory."""
        ...

    def take_request(self) -> bool:
        """Return whether the server has requested a status since the last call."""
        ...

    def feed(self, frames: Sequence[bytes]) -> Iterator[Item]:
        """Decode frames; the result must be exhausted before the next call.

        Raises:
            DecodeError: the plugin does not send such bytes; end the stream.
        """
        ...

    def close(self) -> None:
        """Delete temporary files."""
        ...


class PgoutputTransactions(StreamPosition):
    """Assembles the transactions of a pgoutput stream.

    Args:
        wanted: called once for each Relation message.  False must hold until the stream ends,
            because the changes are discarded; open a new stream to change the answer.
        start: transactions with a lower commit LSN are skipped: the checkpoint includes them.
        prefixes: logical messages with one of these become a `OriginMarker`; others are skipped.
        piece: the maximum number of changes in one Piece.
        compiled: the maximum number of relations whose decoders are kept.
    """

    def __init__(
        self,
        wanted: Callable[[Relation], bool],
        *,
        start: Lsn = Lsn(0),  # noqa: B008 - immutable
        prefixes: Iterable[str] = (MARKER_PREFIX,),
        piece: int = PIECE_CHANGES,
        compiled: int = MOST_COMPILED,
    ) -> None:
        super().__init__(start)
        self._wanted = wanted
        self._prefixes = frozenset(prefixes)
        self._piece = piece
        self._relations: dict[int, Relation] = {}
        self._types: dict[int, str] = {}  # sent with each relation, just before it
        self._decoders = Decoders(compiled)
        self._block: int | None = None  # the transaction whose streamed block is open
        self._spools = Spools()
        self._streamed: tuple[pgoutput.StreamCommit, Iterator[bytes]] | None = None

    def feed(self, frames: Sequence[bytes]) -> Iterator[Item]:
        """Decode frames; see `Transactions.feed`."""
        self.weight += sum(map(len, frames))
        for start in range(0, len(frames), self._piece):
            yield from self._feed(frames[start : start + self._piece])

    def _feed(self, frames: Sequence[bytes]) -> Iterator[Item]:
        # The hot loop: everything it needs for a row is in a local variable, and the only call for
        # a row is its decoder.
        changes: list[Change] = []
        first = 0  # of the frames that brought them
        known, commit_lsn, ordinal, xid = self._position()
        key, unknown, xlog_data = _KEY, _not_a_row, XLOG_DATA
        for at, data in enumerate(frames):
            row = known(data[key], unknown)
            if row is unknown or data[0] != xlog_data:
                if changes:
                    yield Piece(changes, sum(map(len, frames[first:at])))
                    changes = []
                first = at + 1
                self._ordinal = ordinal
                if (item := self._other(data)) is not None:
                    yield item
                if self._streamed is not None:
                    yield from self._replay(*self._streamed)
                known, commit_lsn, ordinal, xid = self._position()
                continue
            if row is not None:
                try:
                    changes.append(row(data, commit_lsn, ordinal, xid))
                except UNFIT:
                    changes.append(self._careful(data, HEADER, commit_lsn, ordinal, xid))
            ordinal += 1
        self._ordinal = ordinal
        if changes:
            yield Piece(changes, sum(map(len, frames[first:])))

    def close(self) -> None:
        """Delete temporary files."""
        self._spools.close()

    def _position(self) -> tuple[_Lookup, Lsn, int, int]:
        """Return what the next row message needs; outside a transaction, no row decodes."""
        if self._begin is None or self._skipping or self._block is not None:
            return _NO_ROWS.get, Lsn(0), self._ordinal, 0
        return self._decoders.by_key.get, self._begin.commit_lsn, self._ordinal, self._begin.xid

    def _other(self, data: bytes) -> Item | None:
        """Process a frame that is not a row of a known relation."""
        if data[:1] != b"w":
            return self._idle(data, busy=self._block is not None)
        if len(data) <= HEADER:
            raise DecodeError("XLogData frame without payload", offset=len(data))
        tag = data[HEADER]
        if self._block is not None and tag in _STREAMED_TAGS:
            self._spools.put(self._block, *pgoutput.split_streamed(data, HEADER))
            return None
        if self._skipping and tag in _ROW_TAGS:
            return None
        return self._message(data, HEADER)

    def _message(self, data: bytes, offset: int) -> Item | None:
        match message := pgoutput.decode(data, offset, self._types):
            case Begin() if self._block is None:
                self._open(message, offset)
                return None if self._skipping else message
            case Commit():
                return self._complete(message, offset)
            case Relation():
                self._learn(message)
            case pgoutput.TypeName(oid, name):
                self._types[oid] = name
            case pgoutput.LogicalMessage():
                return self._tag(message, offset)
            case pgoutput.RowChange():
                return self._row(message, data, offset)
            case pgoutput.Truncate(oids):
                return self._truncate(oids, offset)
            case pgoutput.OriginMessage():
                pass
            case _:
                self._stream(message, offset)
        return None

    def _learn(self, relation: Relation) -> None:
        """Register a relation's description; later rows follow it."""
        self._relations[relation.oid] = relation
        self._types.clear()
        if self._wanted(relation):
            self._decoders.compile(relation)
        else:
            self._decoders.refuse(relation.oid)

    def _tag(self, message: pgoutput.LogicalMessage, offset: int) -> OriginMarker | None:
        if not message.transactional:  # it belongs to no transaction
            return None
        self._transaction(offset)
        if self._skipping or message.prefix not in self._prefixes:
            return None
        return OriginMarker(message.prefix, message.content, message.lsn)

    def _row(self, message: pgoutput.RowChange, data: bytes, offset: int) -> Piece:
        """Decode a row of a relation that is not compiled."""
        begin = self._transaction(offset)
        self._decoders.missed(self._relation(message.relation_oid, offset))
        change = self._careful(data, offset, begin.commit_lsn, self._ordinal, begin.xid)
        self._ordinal += 1
        return Piece((change,), len(data) - offset)

    def _careful(self, data: bytes, at: int, commit_lsn: Lsn, ordinal: int, xid: int) -> Change:
        row = pgoutput.decode(data, at)
        if not isinstance(row, pgoutput.RowChange):
            raise DecodeError("message is not a row change", offset=at)
        relation = self._relation(row.relation_oid, at)
        new = None if row.new is None else pgoutput.type_row(relation, row.new)
        old = None
        if row.old is not None:
            old = pgoutput.type_row(relation, row.old, only_key=row.old_is_key)
        return make_change(commit_lsn, ordinal, row.op, relation, new, old, xid)

    def _truncate(self, oids: Iterable[int], offset: int) -> Piece | None:
        """Build one change for each truncated table."""
        begin, changes = self._transaction(offset), list[Change]()
        for oid in oids:
            relation = self._relation(oid, offset)
            at = (begin.commit_lsn, self._ordinal, Op.TRUNCATE, relation)
            if self._decoders.is_wanted(oid):
                changes.append(make_change(*at, None, None, begin.xid))
            self._ordinal += 1
        return Piece(changes) if changes else None

    def _relation(self, oid: int, offset: int) -> Relation:
        if (relation := self._relations.get(oid)) is None:
            message = f"change of relation {oid} before its Relation message"
            raise DecodeError(message, offset=offset)
        return relation

    def _stream(self, message: pgoutput.Message, offset: int) -> None:
        """Process the blocks of open transactions (protocol 2)."""
        match message:
            case pgoutput.StreamStart(xid) if self._begin is None and self._block is None:
                self._block = xid
            case pgoutput.StreamStop() if self._block is not None:
                self._block = None
            case pgoutput.StreamAbort(xid, subxid) if self._block is None:
                self._spools.abort(xid, subxid)
            case pgoutput.StreamCommit(begin) if self._begin is None and self._block is None:
                self._streamed = message, self._spools.take(begin.xid)
            case _:
                raise DecodeError("streamed block out of order", offset=offset)

    def _replay(self, commit: pgoutput.StreamCommit, messages: Iterator[bytes]) -> Iterator[Item]:
        """Yield a spooled transaction as if it had just been received."""
        self._streamed = None
        self._open(commit.begin, 0)
        if not self._skipping:
            yield commit.begin
        for chunk in _chunks(messages):
            yield from self.feed(chunk)
        if (end := self._complete(commit.commit, 0)) is not None:
            yield end


def _chunks(messages: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Turn messages back into frames, in lists that fit into one Piece."""
    chunk, size = list[bytes](), 0
    for message in messages:
        chunk.append(_FRAME_HEAD + message)
        size += len(message)
        if size >= PIECE_BYTES:
            yield chunk
            chunk, size = [], 0
    yield chunk


def _not_a_row(_data: bytes, _commit_lsn: Lsn, _ordinal: int, _xid: int) -> Change:
    """Represent an unknown key in `dict.get`; never called."""
    raise NotImplementedError
