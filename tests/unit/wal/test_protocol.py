"""Frames of the replication protocol."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wal import encode
from walagent.errors import DecodeError
from walagent.postgres.lsn import Lsn
from walagent.wal.options import StreamOptions, start_command
from walagent.wal.protocol import Keepalive, parse_keepalive, status_update


def test_a_keepalive_says_whether_it_wants_an_answer() -> None:
    """The flag is read, not guessed."""
    asks, rests = encode.keepalive(30, reply=True), encode.keepalive(30)
    assert parse_keepalive(asks) == Keepalive(Lsn(30), reply_requested=True)
    assert parse_keepalive(rests) == Keepalive(Lsn(30), reply_requested=False)


@given(st.binary() | st.binary(max_size=40).map(lambda tail: b"k" + tail))
def test_any_bytes_are_a_keepalive_or_a_decode_error(data: bytes) -> None:
    """Nothing else is ever raised, and the offset lies within the bytes."""
    offset = 0
    try:
        parse_keepalive(data)
    except DecodeError as error:
        offset = error.offset
    assert 0 <= offset <= len(data)


def test_a_status_update_counts_microseconds_from_2000() -> None:
    """Written exactly as the protocol's table has it."""
    data = status_update(Lsn(3), Lsn(2), Lsn(1), clock=946_684_801.5, reply=True)
    assert data == b"r" + struct.pack(">QQQqB", 3, 2, 1, 1_500_000, 1)


def test_names_in_the_start_command_cannot_end_their_quotes() -> None:
    """A publication's name is quoted as identifier, then as literal."""
    command = start_command(StreamOptions("s", publications=('a"b', "c'd"), start=Lsn(255)))
    assert command == (
        'START_REPLICATION SLOT "s" LOGICAL 0/FF ("proto_version" \'1\', '
        '"publication_names" \'"a""b","c\'\'d"\', "messages" \'true\')'
    )


@pytest.mark.parametrize(
    ("table", "written"), [("plain", "plain"), ("a b", r"a\ b"), ("x.y,z*", r"x\.y\,z\*")]
)
def test_table_names_are_escaped_for_wal2json(table: str, written: str) -> None:
    """What separates names in its lists does not separate within a name."""
    command = start_command(StreamOptions("s", "wal2json", tables=(("public", table),)))
    assert f"\"add-tables\" 'public.{written}'" in command


def test_three_status_updates_fit_into_the_servers_patience() -> None:
    """Also for a short time-out; and ten seconds is the longest silence."""
    assert StreamOptions("s", sender_timeout=3).tick == 1
    assert StreamOptions("s", sender_timeout=300, status_interval=60).tick == 10
