r"""Escape model output that the server encoding cannot represent.

    LATIN1 has no ellipsis: it is stored as \u2026, and the run continues

Only for text that is stored to be read.  Arguments that a tool would write are rejected instead
(`runs.tools.toolbox`): the application's data must not be altered.
"""

from dataclasses import dataclass

from psycopg import adapters
from psycopg.adapt import Dumper
from psycopg.pq import Format

from walagent.message import Json
from walagent.postgres import pgtypes
from walagent.postgres.encodings import fit_json, fit_text
from walagent.store.codecs.jsonb import to_json

_MARK = "\N{REPLACEMENT CHARACTER}"  # for NUL, which PostgreSQL's text cannot store


@dataclass(frozen=True, slots=True)
class LossyJson:
    """A JSON parameter."""

    value: Json


@dataclass(frozen=True, slots=True)
class LossyText:
    """A text parameter."""

    text: str


class _LossyDumper(Dumper):
    format = Format.TEXT

    @property
    def _encoding(self) -> str:
        encoding = self.connection and self.connection.info.parameter_status("server_encoding")
        return encoding or "UTF8"


class _JsonDumper(_LossyDumper):
    oid = pgtypes.JSONB

    def dump(self, obj: LossyJson) -> bytes:
        return fit_json(to_json(obj.value), self._encoding)


class _TextDumper(_LossyDumper):
    oid = pgtypes.TEXT

    def dump(self, obj: LossyText) -> bytes:
        return fit_text(obj.text.replace("\x00", _MARK), self._encoding).encode()


adapters.register_dumper(LossyJson, _JsonDumper)  # for all connections: only walagent has it
adapters.register_dumper(LossyText, _TextDumper)
