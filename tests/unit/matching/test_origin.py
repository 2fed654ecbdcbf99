"""Origin markers: signature, format, and messages that are not one of walagent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.domain.change import OriginMarker
from walagent.matching.origin import PREFIX, Origin, author_of, origin_of, requested_run, sign
from walagent.postgres.lsn import Lsn

KEY = b"k" * 32
XID = 4711
WHAT = b"7 3 2"


def marker(content: bytes, prefix: str = PREFIX) -> OriginMarker:
    """A logical message."""
    return OriginMarker(prefix, content, Lsn(1))


def signed(what: bytes = WHAT, xid: int = XID, key: bytes = KEY) -> OriginMarker:
    """A marker as agent_internal.begin_write leaves it."""
    return marker(what + b" " + sign(what, xid, key))


def test_our_own_tag_names_run_attachment_and_depth() -> None:
    """With the right key, in the transaction it was made for."""
    assert origin_of(signed(), XID, KEY) == Origin(7, 3, 2)


def test_a_revert_says_so() -> None:
    """The word is signed: it can neither be added nor taken away."""
    assert origin_of(signed(b"7 0 0 revert"), XID, KEY) == Origin(7, 0, 0, reverts=True)
    signature = sign(b"7 0 0", XID, KEY)
    assert origin_of(marker(b"7 0 0 revert " + signature), XID, KEY) is None
    signature = sign(b"7 0 0 revert", XID, KEY)
    assert origin_of(marker(b"7 0 0 " + signature), XID, KEY) is None


def test_a_call_that_keeps_rows_says_so() -> None:
    """Then there is something to record of its transaction, whatever the WAL has of it."""
    assert origin_of(signed(b"7 3 2 before"), XID, KEY) == Origin(7, 3, 2, has_before=True)
    assert origin_of(signed(b"7 3 2 before revert"), XID, KEY) is None


def test_a_request_is_no_origin() -> None:
    """It says which run was asked for, and nothing of who wrote the transaction."""
    request = signed(b"7 request")
    assert requested_run(request, XID, KEY) == 7
    assert origin_of(request, XID, KEY) is None
    assert requested_run(signed(), XID, KEY) is None
    assert requested_run(signed(b"7 request", key=b"x" * 32), XID, KEY) is None
    assert requested_run(signed(b"x request"), XID, KEY) is None


@pytest.mark.parametrize(
    "forged",
    [
        signed(key=b"x" * 32),
        signed(xid=XID + 1),
        marker(WHAT),
        marker(WHAT + b" "),
        marker(WHAT + b" " + b"0" * 64),
        marker(b"8 3 2 " + sign(WHAT, XID, KEY)),
        marker(b"7 3 0 " + sign(WHAT, XID, KEY)),
        marker(signed().content + b" "),
        marker(signed().content.upper()),
        marker(signed().content, prefix="Walagent"),
        marker(signed().content, prefix="other"),
        signed(b"7 3"),
        signed(b"7 3 2 1"),
        signed(b"7 3 -2"),
        signed(b"7 3 x"),
        signed(b""),
        marker(b"nudge"),
        marker(b""),
        marker(b"\xff\x00\xfe"),
    ],
)
def test_anything_else_proves_nothing(forged: OriginMarker) -> None:
    """Another key, another transaction, other numbers, another form: as if it were not there."""
    assert origin_of(forged, XID, KEY) is None


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(content: bytes) -> None:
    """Anybody may emit a message with our prefix."""
    assert origin_of(marker(content), XID, KEY) is None


def test_the_signature_covers_the_whole_text() -> None:
    """Moving a digit from one number to the next makes another signature."""
    assert len({sign(what, XID, KEY) for what in (b"7 3 2", b"73  2", b"7 32 ", b"7 3 21")}) == 4
    assert sign(WHAT, 47, KEY) != sign(WHAT + b" 4", 7, KEY)


def test_who_signs_a_transaction_is_named() -> None:
    """By any name; it says nothing of a run, and holds in its transaction alone."""
    what = b"author " + "zoë o'b \u202e".encode().hex().encode()
    assert author_of(signed(what), XID, KEY) == "zoë o'b \u202e"
    assert origin_of(signed(what), XID, KEY) is None
    assert requested_run(signed(what), XID, KEY) is None
    for forged in (signed(what, key=b"x" * 32), signed(what, xid=1), marker(what), signed()):
        assert author_of(forged, XID, KEY) is None
