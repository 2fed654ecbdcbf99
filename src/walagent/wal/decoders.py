"""Keep the compiled decoders of relations, up to a limit.

The server describes a relation once in a stream, and again only after it was altered.  So the
descriptions are kept until the stream ends; the decoders, which take most of the memory, can be
compiled again from them.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from walagent.domain.change import Relation
from walagent.wal.protocol import HEADER
from walagent.wal.rowcode import RowDecoder, compile_rows

# Compiled relations: those of most databases, in some 20 MB.
MOST_COMPILED: Final = 1000
# Rows of a relation after which it is compiled again.  Compiling takes as long as decoding about a
# hundred rows without it: with more active relations than the limit, decoding takes no more than
# twice as long as without compiling.
_ROWS: Final = 100


class Decoders:
    """The decoders by kind and relation OID, the first five bytes of a row message."""

    def __init__(self, most: int = MOST_COMPILED) -> None:
        self._most = most
        self._by_key: dict[bytes, RowDecoder | None] = {}
        self._compiled: dict[int, None] = {}  # the relation that was compiled first comes first
        self._rows = Counter[int]()  # of relations that are not compiled

    @property
    def by_key(self) -> Mapping[bytes, RowDecoder | None]:
        """Return the decoders; None if the relation is not wanted."""
        return self._by_key

    def refuse(self, oid: int) -> None:
        """Register a relation that is not wanted."""
        self._remove(oid)
        self._by_key.update(dict.fromkeys(_keys(oid)))

    def compile(self, relation: Relation) -> None:
        """Compile a relation, in place of the one that was compiled first if there are many."""
        self._remove(relation.oid)
        if len(self._compiled) >= self._most:
            self._remove(next(iter(self._compiled)))
        rows = compile_rows(relation, HEADER)
        self._by_key.update(
            zip(_keys(relation.oid), (rows.insert, rows.update, rows.delete), strict=True)
        )
        self._compiled[relation.oid] = None

    def missed(self, relation: Relation) -> None:
        """Count a row of a relation that is not compiled; compile it if there are many."""
        self._rows[relation.oid] += 1
        if self._rows[relation.oid] >= _ROWS:
            self.compile(relation)

    def is_wanted(self, oid: int) -> bool:
        """Return whether a described relation is wanted."""
        return self._by_key.get(b"D" + oid.to_bytes(4, "big"), ...) is not None

    def _remove(self, oid: int) -> None:
        self._compiled.pop(oid, None)
        self._rows.pop(oid, None)
        for key in _keys(oid):
            self._by_key.pop(key, None)

    def __len__(self) -> int:
        """Return the number of compiled relations."""
        return len(self._compiled)


def _keys(oid: int) -> list[bytes]:
    return [kind + oid.to_bytes(4, "big") for kind in (b"I", b"U", b"D")]
