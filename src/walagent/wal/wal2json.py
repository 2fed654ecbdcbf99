"""Frames of wal2json in, items of transactions out: the same as pgoutput gives, but for its losses.

What wal2json itself loses or adds:
- NaN and the infinities arrive as NULL: JSON has no form for them.
- A table has no OID (0) and no identity, and `in_key` says primary key, unless the catalog told
  of it before the stream began.
- Changes of tables without a replica identity, and origins, do not arrive at all.
- Generated columns arrive, which pgoutput leaves out; those that the catalog told of before the
  stream began are left out here, too.
- A logical message must be text of the database's encoding.
- An unchanged TOASTed column is left out of an update.  It becomes UNCHANGED if the catalog
  or an earlier change has shown the column.
- An update always carries its key.  It is left out of `old` when nothing in it changed, as
  pgoutput does; where the key is the whole row, that cannot be told from REPLICA IDENTITY FULL.
- After columns were added or dropped, updates that leave values out may show the table as it was
  described last, until the next insert.
- Format 1 leaves NULLs out of the old row, and tells neither the commit LSN (the end LSN stands
  for it) nor a truncated table.

Format 2, a document for each change, is what a live slot sends.  Format 1, a document for each
transaction, is read as well, from files and other tools.

Source: wal2json's README, and what its release 2.5 was seen to send.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, cast

import orjson

from walagent.change import Begin, Change, Commit, Item, Op, Piece, Relation, Row, Tag
from walagent.encodings import to_utf8
from walagent.errors import DecodeError
from walagent.lsn import Lsn
from walagent.wal.catalog import Catalog
from walagent.wal.checkpoint import Progress
from walagent.wal.options import TAG_PREFIX
from walagent.wal.protocol import HEADER
from walagent.wal.rowcode import make_change
from walagent.wal.wal2json_rows import Table, Tables, read_row

# What a parser of ordinary numbers would not keep: the digits of a numeric, the sign of a zero.
_DELICATE: Final = re.compile(rb'"numeric[("]|:-0[,}]')

# What taking a document apart raises when it is not shaped as wal2json shapes it.
_MISSHAPEN: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_OPS: Final = {"I": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE, "T": Op.TRUNCATE}
_KINDS: Final = {"insert": "I", "update": "U", "delete": "D", "truncate": "T", "message": "M"}
_PIECE: Final = 1000

_UNKNOWN: Final = Catalog()

Document = Mapping[str, Any]


class Wal2jsonTransactions(Progress):
    """Puts the transactions of a wal2json stream together, format 2 or 1.

    Args:
        wanted: asked whenever a table is new or looks different; see `PgoutputTransactions`.
        start: transactions whose commit LSN is below are left out: they are in the checkpoint.
        prefixes: logical messages with one of these become a `Tag`; others are left out.
        catalog: what the database told of itself; so the first update can say what it left out.
    """

    def __init__(
        self,
        wanted: Callable[[Relation], bool],
        *,
        start: Lsn = Lsn(0),  # noqa: B008 - immutable
        prefixes: Iterable[str] = (TAG_PREFIX,),
        catalog: Catalog = _UNKNOWN,
    ) -> None:
        super().__init__(start)
        self._catalog = catalog
        self._tables = Tables(wanted)
        for relation in catalog.tables:
            self._tables.learn(relation)
        self._prefixes = frozenset(prefixes)

    def feed(self, frames: Sequence[bytes]) -> Iterator[Item]:
        """Take frames in; see `Transactions.feed`."""
        self.weight += sum(map(len, frames))
        changes: list[Change] = []
        first = 0  # of the frames that brought them
        for at, data in enumerate(frames):
            for item in self._frame(data):
                if isinstance(item, Change):
                    changes.append(item)
                    if len(changes) < _PIECE:
                        continue
                if changes:
                    yield Piece(changes, sum(map(len, frames[first : at + 1])))
                    changes, first = [], at
                if not isinstance(item, Change):
                    yield item
        if changes:
            yield Piece(changes, sum(map(len, frames[first:])))

    def close(self) -> None:
        """Do nothing: there are no temporary files."""

    def _frame(self, data: bytes) -> Iterator[Item | Change]:
        if data[:1] != b"w":
            idle = self._idle(data)
            return iter(() if idle is None else (idle,))
        if len(data) <= HEADER:
            raise DecodeError("an XLogData frame without payload", offset=len(data))
        return self._document(parse_document(data[HEADER:], self._catalog.encoding))

    def _document(self, document: Document) -> Iterator[Item | Change]:
        try:
            for part in (document,) if "action" in document else _of_format_1(document):
                if (item := self._part(part)) is not None:
                    yield item
        except _MISSHAPEN as error:
            words = f"not a document of wal2json ({type(error).__name__})"
            raise DecodeError(words, offset=HEADER) from error

    def _part(self, document: Document) -> Item | Change | None:
        match document["action"]:
            case "B":
                self._open(begin := _begin(document), HEADER)
                return None if self._skipping else begin
            case "C":
                lsns = Lsn.parse(document["lsn"]), Lsn.parse(document["nextlsn"])
                return self._complete(Commit(*lsns), HEADER)
            case "M":
                return self._tag(document)
            case action:
                return self._change(_OPS[action], document)

    def _tag(self, document: Document) -> Tag | None:
        if not document["transactional"]:  # stands for nothing that was committed
            return None
        self._transaction(HEADER)
        if self._skipping or document["prefix"] not in self._prefixes:
            return None
        lsn = Lsn.parse(document["lsn"])
        return Tag(document["prefix"], document["content"].encode(), lsn)

    def _change(self, op: Op, document: Document) -> Change | None:
        begin, ordinal = self._transaction(HEADER), self._ordinal
        self._ordinal += 1
        if names := self._catalog.left_out.get((document["schema"], document["table"])):
            document = _without(document, names)
        if self._skipping or not (table := self._tables.find(document)).wanted:
            return None
        new = read_row(table, document["columns"]) if op in (Op.INSERT, Op.UPDATE) else None
        old = _old(table, document, new) if op in (Op.UPDATE, Op.DELETE) else None
        return make_change(begin.commit_lsn, ordinal, op, table.relation, new, old, begin.xid)


def parse_document(payload: bytes, encoding: str = "UTF8") -> Document:
    """Parse one document, of a database with this encoding.

    Raises:
        DecodeError: it is not a JSON object.
    """
    try:
        document = _parse(to_utf8(payload, encoding), stray=encoding == "SQL_ASCII")
    except json.JSONDecodeError as error:  # orjson's is one, too
        raise DecodeError("not JSON", offset=HEADER + error.pos) from error
    except UnicodeDecodeError as error:
        raise DecodeError(f"not {encoding}", offset=HEADER + error.start) from error
    if not isinstance(document, dict):
        raise DecodeError("not a JSON object", offset=HEADER)
    return cast("Document", document)


def _parse(text: bytes, *, stray: bool) -> object:
    """Parse JSON; with *stray* bytes, which are no UTF-8, in its strings."""
    if stray and not text.isascii():
        escaped = text.decode("utf-8", "surrogateescape")
        return json.loads(escaped, parse_float=Decimal, parse_int=_integer)
    if _DELICATE.search(text):
        return json.loads(text, parse_float=Decimal, parse_int=_integer)
    return orjson.loads(text)


def _integer(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def _without(document: Document, names: Collection[str]) -> Document:
    """Leave columns out of a change."""
    kept = {
        part: [cell for cell in document[part] if cell["name"] not in names]
        for part in ("columns", "identity", "pk")
        if document.get(part)
    }
    return {**document, **kept}


def _begin(document: Document) -> Begin:
    at = datetime.fromisoformat(document["timestamp"]).astimezone(UTC)
    if type(xid := document["xid"]) is not int:
        raise TypeError("xid")
    return Begin(xid, Lsn.parse(document["lsn"]), at)


def _old(table: Table, document: Document, new: Row | None) -> Row | None:
    """Read the replica identity, unless it is a key that the update left as it was."""
    identity = document.get("identity")
    if identity is None:
        return None
    old = read_row(table, identity, whole=False)
    if new is None or len(old) == len(new):
        return old
    return None if all(new[name] == old[name] for name in old) else old


def _of_format_1(document: Document) -> Iterator[Document]:
    """Turn a transaction's document into those that format 2 has for it."""
    changes = document["change"]
    if "xid" not in document:  # a message that belongs to no transaction
        return
    at = {"xid": document["xid"], "timestamp": document["timestamp"]}
    at |= {"lsn": document["nextlsn"], "nextlsn": document["nextlsn"]}
    yield {"action": "B", **at}
    for change in changes:
        yield {
            **at,
            **change,
            "action": _KINDS[change["kind"]],
            "columns": _cells(change, "column"),
            "identity": _cells(change.get("oldkeys"), "key"),
            "pk": [{"name": name} for name in change.get("pk", {}).get("pknames", ())],
        }
    yield {"action": "C", **at}


def _cells(lists: Document | None, what: str) -> Sequence[Document] | None:
    """Make cells of the parallel lists that format 1 has for them."""
    if not lists or f"{what}names" not in lists:
        return None
    names, types, values = (lists[f"{what}{part}"] for part in ("names", "types", "values"))
    oids = lists.get(f"{what}typeoids") or [0] * len(names)
    return [
        {"name": name, "type": type_name, "typeoid": oid, "value": value}
        for name, type_name, oid, value in zip(names, types, oids, values, strict=True)
    ]
