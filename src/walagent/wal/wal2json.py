"""Frames of wal2json in, items of transactions out: the same as pgoutput gives, but for its losses.

What wal2json itself loses or adds:
- NaN and the infinities arrive as NULL; a numeric arrives as a JSON number and keeps the 17
  digits of a double.
- A table has no OID (0) and no identity; `in_key` says primary key.
- Changes of tables without a replica identity, and origins, do not arrive at all.
- Generated columns arrive, which pgoutput leaves out.
- A logical message must be UTF-8.
- An unchanged TOASTed column is left out of an update.  It becomes UNCHANGED, but only once the
  column was seen in an earlier change of the table.

Format 2, a document for each change, is what a live slot sends.  Format 1, a document for each
transaction, is read as well, from files and other tools.

Source: wal2json's README, and what its release 2.5 was seen to send.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import orjson

from walagent.change import (
    UNCHANGED,
    Begin,
    Change,
    Column,
    Commit,
    Idle,
    Item,
    Op,
    Piece,
    Relation,
    Row,
    Tag,
    Value,
)
from walagent.errors import DecodeError
from walagent.lsn import Lsn
from walagent.wal.options import TAG_PREFIX
from walagent.wal.protocol import HEADER, parse_keepalive


class Wal2jsonTransactions:
    """Comes with the next commit."""
