"""Who wrote a transaction: one of our runs, or anybody else.

A write-back begins with a logical message `<run> <attachment> <depth> <signature>`.  The signature
is made with a key that only owner and runner can read, over the words before it and the very
transaction's id, so a message that somebody else emits or copies proves nothing, and is treated
as if it were not there.
"""

import hashlib
import hmac
from dataclasses import dataclass

from walagent.change import Tag

PREFIX = "walagent"
_NUMBERS = 3


@dataclass(frozen=True, slots=True)
class Origin:
    """The run whose write-back a transaction is, and how deep in a chain of agents it stood."""

    run_id: int
    attachment_id: int
    depth: int


def origin_of(tag: Tag, xid: int, key: bytes) -> Origin | None:
    """Read a tag, or return None when it is not ours.

    Args:
        xid: of the transaction that the tag came in, 32 bits, as BEGIN shows it.
        key: `agent_internal.secret`.
    """
    what, _, signature = tag.content.rpartition(b" ")
    numbers = what.split(b" ")
    if tag.prefix != PREFIX or len(numbers) != _NUMBERS or not all(n.isdigit() for n in numbers):
        return None
    if not hmac.compare_digest(sign(what, xid, key), signature):
        return None
    return Origin(*(int(number) for number in numbers))


def sign(what: bytes, xid: int, key: bytes) -> bytes:
    """Do what agent_internal.sign_write() does."""
    inner = hashlib.sha256(key + what + b" " + str(xid).encode()).digest()
    return hashlib.sha256(key + inner).hexdigest().encode()
