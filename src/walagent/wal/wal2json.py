"""Assemble frames of wal2json into items of transactions, the same as for pgoutput with exceptions.

wal2json differs in these points:
- NaN and infinity are sent as NULL, because JSON cannot represent them.
- A table has no OID (0) and no replica identity, and `in_key` is the primary key, unless the
  catalog described the table before the stream started.
- Changes of tables without a replica identity, and origins, are not sent.
- Generated columns are sent; those that the catalog listed before the stream started are removed
  here, as pgoutput omits them.
- A logical message must be text in the database's encoding.
- An unchanged TOASTed column is omitted from an update.  It becomes UNCHANGED if the catalog or an
  earlier change contained the column.
- An update always includes its key.  It is removed from `old` if it did not change, as in pgoutput;
  if all columns are the key, this cannot be distinguished from REPLICA IDENTITY FULL.
- After a column was dropped, updates that omit values can show it as UNCHANGED until the next
  insert, unless the replica identity is FULL.
- Format 1 omits NULLs from the old row, has no commit LSN (the end LSN replaces it), and does not
  send TRUNCATE.

A live slot sends format 2, one document for each change.  Format 1, one document for each
transaction, is decoded too, for files and other tools.

Source: wal2json's README, and the observed output of its release 2.5.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, cast

import orjson

from walagent.domain.change import (
    Begin,
    Change,
    Commit,
    Item,
    Op,
    OriginMarker,
    Piece,
    Relation,
    Row,
)
from walagent.errors import DecodeError
from walagent.postgres.encodings import to_utf8
from walagent.postgres.lsn import Lsn
from walagent.wal.catalog import DatabaseCatalog
from walagent.wal.checkpoint import StreamPosition
from walagent.wal.options import MARKER_PREFIX
from walagent.wal.protocol import HEADER
from walagent.wal.rowcode import make_change
from walagent.wal.wal2json_rows import SeenTable, SeenTables, is_full, read_row

# What a default JSON parser does not keep: the digits of a numeric, the sign of a zero.
_DELICATE: Final = re.compile(rb'"numeric[("]|:-0[,}]')

# Raised by accessing a document that is not structured as wal2json's are.
_MISSHAPEN: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_OPS: Final = {"I": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE, "T": Op.TRUNCATE}
_KINDS: Final = {"insert": "I", "update": "U", "delete": "D", "truncate": "T", "message": "M"}
_PIECE: Final = 1000

_UNKNOWN: Final = DatabaseCatalog()

Document = Mapping[str, Any]


class Wal2jsonTransactions(StreamPosition):
    """Assembles the transactions of a wal2json stream, format 2 or 1.

    Args:
        wanted: called when a table is new or has changed; see `PgoutputTransactions`.
        start: transactions with a lower commit LSN are skipped: the checkpoint includes them.
        prefixes: logical messages with one of these become an `OriginMarker`; others are skipped.
        catalog: the table definitions, so that the first update can show which columns it omits.
    """

    def __init__(
        self,
        wanted: Callable[[Relation], bool],
        *,
        start: Lsn = Lsn(0),  # noqa: B008 - immutable
        prefixes: Iterable[str] = (MARKER_PREFIX,),
        catalog: DatabaseCatalog = _UNKNOWN,
    ) -> None:
        super().__init__(start)
        self._catalog = catalog
        self._tables = SeenTables(wanted)
        for relation in catalog.tables:
            self._tables.learn(relation)
        self._prefixes = frozenset(prefixes)

    def feed(self, frames: Sequence[bytes]) -> Iterator[Item]:
        """Decode frames; see `Transactions.feed`."""
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
            raise DecodeError("XLogData frame without payload", offset=len(data))
        return self._document(parse_document(data[HEADER:], self._catalog.encoding))

    def _document(self, document: Document) -> Iterator[Item | Change]:
        try:
            for part in (document,) if "action" in document else _of_format_1(document):
                if (item := self._part(part)) is not None:
                    yield item
        except _MISSHAPEN as error:
            words = f"not a wal2json document ({type(error).__name__})"
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

    def _tag(self, document: Document) -> OriginMarker | None:
        if not document["transactional"]:  # it belongs to no transaction
            return None
        self._transaction(HEADER)
        if self._skipping or document["prefix"] not in self._prefixes:
            return None
        lsn = Lsn.parse(document["lsn"])
        return OriginMarker(document["prefix"], document["content"].encode(), lsn)

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
    """Parse one document of a database with this encoding.

    Raises:
        DecodeError: it is not a JSON object.
    """
    try:
        document = _parse(to_utf8(payload, encoding), stray=encoding == "SQL_ASCII")
    except json.JSONDecodeError as error:  # orjson raises a subclass
        raise DecodeError("invalid JSON", offset=HEADER + error.pos) from error
    except UnicodeDecodeError as error:
        raise DecodeError(f"not {encoding}", offset=HEADER + error.start) from error
    if not isinstance(document, dict):
        raise DecodeError("not a JSON object", offset=HEADER)
    return cast("Document", document)


def _parse(text: bytes, *, stray: bool) -> object:
    """Parse JSON; its strings can contain *stray* bytes, which are not UTF-8."""
    if stray and not text.isascii():
        escaped = text.decode("utf-8", "surrogateescape")
        return json.loads(escaped, parse_float=Decimal, parse_int=_integer)
    if _DELICATE.search(text):
        return json.loads(text, parse_float=Decimal, parse_int=_integer)
    return orjson.loads(text)


def _integer(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def _without(document: Document, names: Collection[str]) -> Document:
    """Remove columns from a change."""
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


def _old(table: SeenTable, document: Document, new: Row | None) -> Row | None:
    """Read the replica identity; None if it is a key that the update did not change."""
    identity = document.get("identity")
    if identity is None:
        return None
    old = read_row(table, identity, whole=False)
    if new is None or len(old) == len(new) or is_full(document):
        return old
    return None if all(new.get(name) == value for name, value in old.items()) else old


def _of_format_1(document: Document) -> Iterator[Document]:
    """Convert a transaction's document into the equivalent documents of format 2."""
    changes = document["change"]
    if "xid" not in document:  # a message outside a transaction
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
    """Convert format 1's parallel lists into cells."""
    if not lists or f"{what}names" not in lists:
        return None
    names, types, values = (lists[f"{what}{part}"] for part in ("names", "types", "values"))
    oids = lists.get(f"{what}typeoids") or [0] * len(names)
    return [
        {"name": name, "type": type_name, "typeoid": oid, "value": value}
        for name, type_name, oid, value in zip(names, types, oids, values, strict=True)
    ]
