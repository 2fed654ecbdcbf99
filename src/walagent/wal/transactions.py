"""Frames of pgoutput in, items of transactions out; no I/O but a large transaction's spool.

    frames → Begin (Tag | Piece)* Commit, with Idle between

A change of a relation that nobody wants is counted and not decoded.  With protocol 2, an open
transaction that comes in blocks is put aside and read at its commit, so what comes out is the
same as with protocol 1.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from walagent.change import Begin, Change, Commit, Item, Op, Piece, Relation, Tag
from walagent.errors import DecodeError
from walagent.lsn import Lsn
from walagent.wal import pgoutput
from walagent.wal.checkpoint import Progress
from walagent.wal.options import TAG_PREFIX
from walagent.wal.protocol import HEADER, XLOG_DATA
from walagent.wal.rowcode import UNFIT, RowDecoder, compile_rows, make_change
from walagent.wal.spool import Spools

PIECE_CHANGES: Final = 1000  # enough that passing a list on costs nothing per row
PIECE_BYTES: Final = 1 << 18  # of payload; a piece of wide rows is shorter

_ROW_TAGS: Final = frozenset(b"IUDT")
_STREAMED_TAGS: Final = frozenset(b"RYMIUDT")
_FRAME_HEAD: Final = b"w" + bytes(HEADER - 1)
_KEY: Final = slice(HEADER, HEADER + 5)  # of a row's frame: its kind and its relation
_NO_ROWS: Final[dict[bytes, RowDecoder | None]] = {}

# The decoder for a row's frame, None if the relation is not wanted, or what stands for unknown.
_Lookup = Callable[[bytes, RowDecoder], RowDecoder | None]


class Transactions(Protocol):
    """Puts the frames of one stream together; each plug-in has its own."""

    @property
    def received(self) -> Lsn:
        """Up to where everything has been put out; nothing beyond may be confirmed."""
        ...

    @property
    def weight(self) -> int:
        """Bytes of the frames ingested so far; how it grows says how much is in memory."""
        ...

    def take_request(self) -> bool:
        """Say whether the server asked for a status since the last call."""
        ...

    def feed(self, frames: Sequence[bytes]) -> Iterator[Item]:
        """Take frames in; must be read to its end before the next call.

        Raises:
            DecodeError: the bytes are not what the plug-in may send; end the stream.
        """
        ...

    def close(self) -> None:
        """Give temporary files back."""
        ...


class PgoutputTransactions(Progress):
    """Puts the transactions of a pgoutput stream together.

    Args:
        wanted: asked once for each Relation message.  False must be safe to rely on until the
            stream ends, for the changes are gone; open a new stream to change the answer.
        start: transactions whose commit LSN is below are left out: they are in the checkpoint.
        prefixes: logical messages with one of these become a `Tag`; others are left out.
        piece: the most changes in one Piece.
    """

    def __init__(
        self,
        wanted: Callable[[Relation], bool],
        *,
        start: Lsn = Lsn(0),  # noqa: B008 - immutable
        prefixes: Iterable[str] = (TAG_PREFIX,),
        piece: int = PIECE_CHANGES,
    ) -> None:
        super().__init__(start)
        self._wanted = wanted
        self._prefixes = frozenset(prefixes)
        self._piece = piece
        self._relations: dict[int, Relation] = {}
        self._types: dict[int, str] = {}
        # By kind and OID of a row message, as its first five bytes have them; None: not wanted.
        self._rows: dict[bytes, RowDecoder | None] = {}
        self._block: int | None = None  # the transaction whose streamed block is open
        self._spools = Spools()
        self._streamed: tuple[pgoutput.StreamCommit, Iterator[bytes]] | None = None

    def feed(self, frames: Sequence[bytes]) -> Iterator[Item]:
        """Take frames in; see `Transactions.feed`."""
        self.weight += sum(map(len, frames))
        for start in range(0, len(frames), self._piece):
            yield from self._feed(frames[start : start + self._piece])

    def _feed(self, frames: Sequence[bytes]) -> Iterator[Item]:
        # The hot loop: what it needs for each row is in a local name, and nothing is called for
        # a row but its decoder.
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
        """Give temporary files back."""
        self._spools.close()

    def _position(self) -> tuple[_Lookup, Lsn, int, int]:
        """Say what the next row message needs; outside a transaction no row is known."""
        if self._begin is None or self._skipping or self._block is not None:
            return _NO_ROWS.get, Lsn(0), self._ordinal, 0
        return self._rows.get, self._begin.commit_lsn, self._ordinal, self._begin.xid

    def _other(self, data: bytes) -> Item | None:
        """Take in a frame that is not a row of a known relation."""
        if data[:1] != b"w":
            return self._idle(data, busy=self._block is not None)
        if len(data) <= HEADER:
            raise DecodeError("an XLogData frame without payload", offset=len(data))
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
            case pgoutput.Origin():
                pass
            case _:
                self._stream(message, offset)
        return None

    def _learn(self, relation: Relation) -> None:
        """Take a relation's description in; later rows follow it."""
        self._relations[relation.oid] = relation
        oid = relation.oid.to_bytes(4, "big")
        if not self._wanted(relation):
            self._rows.update({tag + oid: None for tag in (b"I", b"U", b"D")})
            return
        rows = compile_rows(relation, HEADER)
        self._rows[b"I" + oid] = rows.insert
        self._rows[b"U" + oid] = rows.update
        self._rows[b"D" + oid] = rows.delete

    def _tag(self, message: pgoutput.LogicalMessage, offset: int) -> Tag | None:
        if not message.transactional:  # stands for nothing that was committed
            return None
        self._transaction(offset)
        if self._skipping or message.prefix not in self._prefixes:
            return None
        return Tag(message.prefix, message.content, message.lsn)

    def _row(self, message: pgoutput.RowChange, data: bytes, offset: int) -> Piece:
        """Take in a row that came by another way than the fast one."""
        begin = self._transaction(offset)
        self._relation(message.relation_oid, offset)
        change = self._careful(data, offset, begin.commit_lsn, self._ordinal, begin.xid)
        self._ordinal += 1
        return Piece((change,))

    def _careful(self, data: bytes, at: int, commit_lsn: Lsn, ordinal: int, xid: int) -> Change:
        row = pgoutput.decode(data, at)
        if not isinstance(row, pgoutput.RowChange):
            raise DecodeError("not a row", offset=at)
        relation = self._relation(row.relation_oid, at)
        new = None if row.new is None else pgoutput.type_row(relation, row.new)
        old = None
        if row.old is not None:
            old = pgoutput.type_row(relation, row.old, only_key=row.old_is_key)
        return make_change(commit_lsn, ordinal, row.op, relation, new, old, xid)

    def _truncate(self, oids: Iterable[int], offset: int) -> Piece | None:
        """Make one change of each table that was emptied."""
        begin, changes = self._transaction(offset), list[Change]()
        for oid in oids:
            relation = self._relation(oid, offset)
            at = (begin.commit_lsn, self._ordinal, Op.TRUNCATE, relation)
            if self._rows[b"D" + oid.to_bytes(4, "big")] is not None:
                changes.append(make_change(*at, None, None, begin.xid))
            self._ordinal += 1
        return Piece(changes) if changes else None

    def _relation(self, oid: int, offset: int) -> Relation:
        if (relation := self._relations.get(oid)) is None:
            raise DecodeError(f"a change of relation {oid}, never described", offset=offset)
        return relation

    def _stream(self, message: pgoutput.Message, offset: int) -> None:
        """Follow the blocks of open transactions (protocol 2)."""
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
                raise DecodeError("a streamed block out of its place", offset=offset)

    def _replay(self, commit: pgoutput.StreamCommit, messages: Iterator[bytes]) -> Iterator[Item]:
        """Read a transaction that came in blocks, as if it came now."""
        self._streamed = None
        self._open(commit.begin, 0)
        if not self._skipping:
            yield commit.begin
        for chunk in _chunks(messages):
            yield from self.feed(chunk)
        if (end := self._complete(commit.commit, 0)) is not None:
            yield end


def _chunks(messages: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Make frames of messages again, as many at a time as go into one Piece."""
    chunk, size = list[bytes](), 0
    for message in messages:
        chunk.append(_FRAME_HEAD + message)
        size += len(message)
        if size >= PIECE_BYTES:
            yield chunk
            chunk, size = [], 0
    yield chunk


def _not_a_row(_data: bytes, _commit_lsn: Lsn, _ordinal: int, _xid: int) -> Change:
    """Stand where `dict.get` found nothing; never called."""
    raise NotImplementedError
