"""Send text byte by byte, for databases without an encoding (SQL_ASCII)."""

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, adapters
from psycopg.adapt import Dumper


@dataclass(frozen=True, slots=True)
class RawText:
    """A text parameter that is sent unconverted, whatever the connection's encoding."""

    text: bytes


class _RawDumper(Dumper):
    def dump(self, obj: RawText) -> bytes:
        return obj.text


@dataclass(frozen=True, slots=True)
class RawJsonb(RawText):
    """The same, of type jsonb."""


@dataclass(frozen=True, slots=True)
class RawTexts(RawText):
    """The same, of type text[]."""


class _RawJsonbDumper(_RawDumper):
    oid = 3802


class _RawTextsDumper(_RawDumper):
    oid = 1009


adapters.register_dumper(RawJsonb, _RawJsonbDumper)
adapters.register_dumper(RawTexts, _RawTextsDumper)
adapters.register_dumper(RawText, _RawDumper)  # for all connections: only walagent has it


def has_no_encoding(conn: AsyncConnection[Any]) -> bool:
    """Return whether the database stores any bytes, without an encoding."""
    return conn.info.parameter_status("server_encoding") == "SQL_ASCII"
