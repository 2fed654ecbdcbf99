r"""What a model or a provider said, on its way into a database that lacks some letters.

    LATIN1 has no ellipsis: it is kept as \u2026, and the run goes on

Only for what is kept to be read.  What a tool is to write is refused instead (`runs.toolbox`):
the application's own data must not be altered.
"""

from dataclasses import dataclass

from psycopg import adapters
from psycopg.adapt import Dumper
from psycopg.pq import Format

from walagent import pgtypes
from walagent.encodings import fit_json, fit_text
from walagent.message import Json
from walagent.store.connections import to_json

_MARK = "\N{REPLACEMENT CHARACTER}"  # for NUL, which PostgreSQL's text cannot hold


@dataclass(frozen=True, slots=True)
class ToldJson:
    """A JSON parameter."""

    value: Json


@dataclass(frozen=True, slots=True)
class ToldText:
    """A text parameter."""

    text: str


class _Told(Dumper):
    format = Format.TEXT

    @property
    def _encoding(self) -> str:
        told = self.connection and self.connection.info.parameter_status("server_encoding")
        return told or "UTF8"


class _JsonDumper(_Told):
    oid = pgtypes.JSONB

    def dump(self, obj: ToldJson) -> bytes:
        return fit_json(to_json(obj.value), self._encoding)


class _TextDumper(_Told):
    oid = pgtypes.TEXT

    def dump(self, obj: ToldText) -> bytes:
        return fit_text(obj.text.replace("\x00", _MARK), self._encoding).encode()


adapters.register_dumper(ToldJson, _JsonDumper)  # for all connections: the types are our own
adapters.register_dumper(ToldText, _TextDumper)
