"""Parse and build the frames of a replication stream; a frame is one CopyData message.

Source: PostgreSQL docs, 55.4 Streaming Replication Protocol.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from walagent.errors import DecodeError
from walagent.postgres.lsn import Lsn

XLOG_DATA: Final = ord("w")
KEEPALIVE: Final = ord("k")
HEADER: Final = 25  # bytes before the payload of an XLogData frame

# Seconds from 1970-01-01 to PostgreSQL's epoch, 2000-01-01.
_EPOCH: Final = 946_684_800
_KEEPALIVE_BODY = Struct(">QqB")
_STATUS = Struct(">cQQQqB")


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The server is alive and has read its WAL up to `wal_end`."""

    wal_end: Lsn
    reply_requested: bool


def parse_keepalive(data: bytes) -> Keepalive:
    """Parse a keepalive.

    Raises:
        DecodeError: it is not a keepalive, or its length or flag is invalid.
    """
    if data[:1] != b"k":
        raise DecodeError(f"unknown frame {data[:1]!r}", offset=0)
    if len(data) != 1 + _KEEPALIVE_BODY.size:
        raise DecodeError(f"keepalive of {len(data)} bytes", offset=min(len(data), 18))
    end, _clock, reply = _KEEPALIVE_BODY.unpack_from(data, 1)
    if reply not in (0, 1):
        raise DecodeError(f"invalid reply flag {reply} in keepalive", offset=17)
    return Keepalive(Lsn(end), bool(reply))


def status_update(
    received: Lsn, flushed: Lsn, applied: Lsn, clock: float, *, reply: bool = False
) -> bytes:
    """Build a standby status update.

    *clock* is in seconds since 1970, as from `time.time()`; *reply* requests a keepalive at once.
    """
    micros = int((clock - _EPOCH) * 1_000_000)
    return _STATUS.pack(b"r", received, flushed, applied, micros, reply)
