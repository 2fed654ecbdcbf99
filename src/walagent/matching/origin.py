"""Identify the run that wrote a transaction, from its origin marker.

A write-back starts with a logical message `<run> <attachment> <depth> <signature>`; that of a run
that takes another back has `revert` before the signature, and that of a call which keeps what its
row was before, `before`.  The signature covers these words and the transaction's ID, with a key
that only the schema owner and the runner can read.  A message that another user emits or copies has
no valid signature and is ignored.

A transaction that asks for a revert has the message `<run> request <signature>`, anywhere: it says
nothing of its own changes, and lets intake write its position at once.  One whose changes somebody
signs has `author <name in hexadecimal> <signature>`, before them.
"""

import hashlib
import hmac
from dataclasses import dataclass

from walagent.domain.change import OriginMarker

PREFIX = "walagent"
_NUMBERS = 3
_REVERT, _BEFORE = b"revert", b"before"
_REQUEST = b"request"
_AUTHOR = b"author "


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that wrote a transaction, and its depth in a chain of runs.

    Args:
        reverts: whether it takes another run back: no agent reacts.
        has_before: whether agent_internal.row_before can have rows of the transaction.
    """

    run_id: int
    attachment_id: int
    depth: int
    reverts: bool = False
    has_before: bool = False


def origin_of(marker: OriginMarker, xid: int, key: bytes) -> Origin | None:
    """Parse an origin marker, or return None if it is not signed by walagent.

    Args:
        xid: of the transaction that has the marker, 32 bits, as in its Begin message.
        key: `agent_internal.secret`.
    """
    what, _, signature = marker.content.rpartition(b" ")
    numbers = what.split(b" ")
    if (word := numbers[-1]) in {_REVERT, _BEFORE}:
        numbers = numbers[:-1]
    if marker.prefix != PREFIX or len(numbers) != _NUMBERS or not all(n.isdigit() for n in numbers):
        return None
    if not hmac.compare_digest(sign(what, xid, key), signature):
        return None
    run_id, attachment_id, depth = map(int, numbers)
    return Origin(run_id, attachment_id, depth, reverts=word == _REVERT, has_before=word == _BEFORE)


def requested_run(marker: OriginMarker, xid: int, key: bytes) -> int | None:
    """Return the run that a transaction has asked for, if a function of walagent says so."""
    what, _, signature = marker.content.rpartition(b" ")
    number, _, word = what.partition(b" ")
    if marker.prefix != PREFIX or word != _REQUEST or not number.isdigit():
        return None
    return int(number) if hmac.compare_digest(sign(what, xid, key), signature) else None


def author_of(marker: OriginMarker, xid: int, key: bytes) -> str | None:
    """Return the principal or login that has signed the changes of a transaction."""
    what, _, signature = marker.content.rpartition(b" ")
    if marker.prefix != PREFIX or not what.startswith(_AUTHOR):
        return None
    if not hmac.compare_digest(sign(what, xid, key), signature):
        return None
    return bytes.fromhex(what[len(_AUTHOR) :].decode("ascii")).decode()


def sign(what: bytes, xid: int, key: bytes) -> bytes:
    """Compute a signature as agent_internal.sign_write() does."""
    inner = hashlib.sha256(key + what + b" " + str(xid).encode()).digest()
    return hashlib.sha256(key + inner).hexdigest().encode()
