"""The connection that a tool in Python receives: each statement goes through a trampoline.

Statements are written with psycopg's placeholders and filled in here; results are decoded by
psycopg from the text of their columns, as on a connection of its own.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import AsyncClientCursor, ProgrammingError
from psycopg.abc import Query
from psycopg.adapt import Transformer
from psycopg.pq import Format

from walagent.message import Json, Unreadable
from walagent.store.codecs.exact import read_json
from walagent.store.sessions.tool_connections import ToolTransaction

_TEXT: Final = 25  # OID of type text
# A column of the text of a record, and what follows it; an empty one is NULL.
_COLUMN: Final = re.compile(r'(?:"((?:[^"\\]|""|\\.)*)"|([^,()"\\]*))([,)])', re.DOTALL)
_ESCAPED: Final = re.compile(r'""|\\(.)', re.DOTALL)

Row = tuple[Any, ...]


@dataclass(slots=True)
class ToolRows:
    """The rows of a statement, or how many it changed."""

    names: Sequence[str]
    rows: Sequence[Row]
    rowcount: int
    _next: int = field(default=0, repr=False)

    async def fetchone(self) -> Row | None:
        """Return the next row; None after the last."""
        some = await self.fetchmany(1)
        return some[0] if some else None

    async def fetchmany(self, size: int = 1) -> list[Row]:
        """Return the next rows."""
        some = list(self.rows[self._next : self._next + size])
        self._next += len(some)
        return some

    async def fetchall(self) -> list[Row]:
        """Return the remaining rows."""
        return await self.fetchmany(len(self.rows))

    async def __aiter__(self) -> AsyncIterator[Row]:
        """Yield the remaining rows."""
        for row in await self.fetchall():
            yield row


@dataclass(frozen=True, slots=True)
class StepSession:
    """The statements of one step, as the role of its attachment, in one transaction."""

    tools: ToolTransaction
    role: str
    search_path: str

    async def execute(
        self, query: Query, params: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> ToolRows:
        """Execute a statement, as psycopg's connections do.

        Raises:
            psycopg.Error: the statement failed.
        """
        text = AsyncClientCursor(self.tools.conn).mogrify(query, params)
        return self._rows(await self._send(text))

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """Return a savepoint: what the block has written is rolled back if it raises."""
        return self.tools.conn.transaction()

    async def commit(self) -> None:
        """Refuse: a step commits with its result."""
        raise ProgrammingError("commit is not possible in a tool: its step commits with its result")

    async def rollback(self) -> None:
        """Refuse: raise an error to roll back what a tool has written."""
        raise ProgrammingError("rollback is not possible in a tool: raise ToolFailedError instead")

    async def check_constraints(self) -> None:
        """Check the deferred constraints: a violation is an error of the tool."""
        await self._send("select", last=True)

    async def _send(self, text: str, *, last: bool = False) -> Mapping[str, Any]:
        request = {"run_as": self.role, "path": self.search_path, "sql": text, "last": last}
        found = await self.tools.call("execute_as", request)
        answer: Json = read_json(found) if found else {}
        if isinstance(answer, Unreadable):
            raise ProgrammingError(f"the rows are not read: {answer}")
        return answer

    def _rows(self, found: Mapping[str, Any]) -> ToolRows:
        names, rows = found["names"] or (), found["rows"]
        adapt = Transformer(self.tools.conn)
        loaders = [
            adapt.get_loader(oid, Format.TEXT) for oid in found["types"] or [_TEXT] * len(names)
        ]
        encoding = self.tools.conn.info.encoding

        def load(texts: Sequence[str | None]) -> Row:
            return tuple(
                None if text is None else loader.load(text.encode(encoding))
                for text, loader in zip(texts, loaders, strict=True)
            )

        return ToolRows(names, [load(split_record(row)) for row in rows], found["count"])


def split_record(text: str) -> list[str | None]:
    """Split the text of a record into those of its columns."""
    if text == "()":
        return [None]
    return [
        match[2] or None if match[1] is None else _ESCAPED.sub(lambda m: m[1] or '"', match[1])
        for match in _COLUMN.finditer(text, 1)
    ]
