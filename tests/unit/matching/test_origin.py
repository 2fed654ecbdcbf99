"""Who wrote a transaction: the tag, its signature, and what is no tag of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.change import Tag
from walagent.lsn import Lsn
from walagent.matching.origin import PREFIX, Origin, origin_of, sign

KEY = b"k" * 32
XID = 4711
WHAT = b"7 3 2"


def tag(content: bytes, prefix: str = PREFIX) -> Tag:
    """A logical message."""
    return Tag(prefix, content, Lsn(1))


def signed(what: bytes = WHAT, xid: int = XID, key: bytes = KEY) -> Tag:
    """A tag as agent_internal.begin_write leaves it."""
    return tag(what + b" " + sign(what, xid, key))


def test_our_own_tag_names_run_attachment_and_depth() -> None:
    """With the right key, in the transaction it was made for."""
    assert origin_of(signed(), XID, KEY) == Origin(7, 3, 2)


@pytest.mark.parametrize(
    "forged",
    [
        signed(key=b"x" * 32),
        signed(xid=XID + 1),
        tag(WHAT),
        tag(WHAT + b" "),
        tag(WHAT + b" " + b"0" * 64),
        tag(b"8 3 2 " + sign(WHAT, XID, KEY)),
        tag(b"7 3 0 " + sign(WHAT, XID, KEY)),
        tag(signed().content + b" "),
        tag(signed().content.upper()),
        tag(signed().content, prefix="Walagent"),
        tag(signed().content, prefix="other"),
        signed(b"7 3"),
        signed(b"7 3 2 1"),
        signed(b"7 3 -2"),
        signed(b"7 3 x"),
        signed(b""),
        tag(b"nudge"),
        tag(b""),
        tag(b"\xff\x00\xfe"),
    ],
)
def test_anything_else_proves_nothing(forged: Tag) -> None:
    """Another key, another transaction, other numbers, another form: as if it were not there."""
    assert origin_of(forged, XID, KEY) is None


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(content: bytes) -> None:
    """Anybody may emit a message with our prefix."""
    assert origin_of(tag(content), XID, KEY) is None


def test_the_signature_covers_the_whole_text() -> None:
    """Moving a digit from one number to the next makes another signature."""
    assert len({sign(what, XID, KEY) for what in (b"7 3 2", b"73  2", b"7 32 ", b"7 3 21")}) == 4
    assert sign(WHAT, 47, KEY) != sign(WHAT + b" 4", 7, KEY)
