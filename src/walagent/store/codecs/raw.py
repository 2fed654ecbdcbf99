"""Text for the server, byte for byte: for databases without an encoding (SQL_ASCII)."""

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, adapters
from psycopg.adapt import Dumper


@dataclass(frozen=True, slots=True)
class Raw:
    """A text parameter as the bytes that it is sent as, whatever the connection's encoding."""

    text: bytes


class _RawDumper(Dumper):
    def dump(self, obj: Raw) -> bytes:
        return obj.text


adapters.register_dumper(Raw, _RawDumper)  # for all connections: the type is our own


def has_no_encoding(conn: AsyncConnection[Any]) -> bool:
    """Whether the database keeps any bytes, and knows no letters."""
    return conn.info.parameter_status("server_encoding") == "SQL_ASCII"
