"""The tool `query`: execute a statement of a model through the guard, as a role that can only read.

Not in the step's transaction, which can write, and not as the login: the guard's transactions are
read-only and rolled back.  The rows are recorded like any result.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from psycopg import AsyncConnection

from walagent.domain.tool_spec import Tool
from walagent.errors import StatementRefusedError
from walagent.guard.outlet import Outlet
from walagent.guard.query import Guard
from walagent.guard.read_limits import ReadLimits
from walagent.guard.redact import without_values
from walagent.guard.role import reading_as
from walagent.message import Json, ToolCall
from walagent.postgres import pgtypes
from walagent.rows.rows import Rows
from walagent.store.role_reader import RoleStatement
from walagent.store.sessions.tool_connections import ToolConnection
from walagent.store.trampolines import through_trampolines

# Less than the limit for results of tools, so that results are truncated between two rows.
_MOST: Final = 60_000  # bytes of a result
LIMITS: Final = ReadLimits(rows=1000, cell=4000, total=1 << 20)
# Types that JSON has.
_PLAIN: Final = {pgtypes.BOOL: "t".__eq__, **dict.fromkeys(pgtypes.INTEGERS, int)}


Worker = Callable[[], AbstractAsyncContextManager[AsyncConnection[Any]]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a statement, and the search path of its names."""

    limits: ReadLimits = LIMITS
    search_path: str = ""
    worker: Worker | None = None  # gives the connection that creates a trampoline


async def answer_query(
    conns: tuple[AsyncConnection[Any], ToolConnection],
    tool: Tool,
    call: ToolCall,
    arguments: Mapping[str, Json],
    bounds: Bounds,
) -> dict[str, Json]:
    """Execute a query and return the content of its step, also if it is refused.

    Args:
        conns: of the worker, which checks the statement, and for code of others, which executes it.

    Raises:
        RoleRefusedError: the tool's role is gone, cannot be assumed, or could write.
    """
    limits = bounds.limits
    within = replace(limits, seconds=min(limits.seconds, tool.timeout))
    path = bounds.search_path or "pg_catalog"
    answer: dict[str, Json] = {"call_id": call.id, "name": call.name}
    conn, tools = conns
    outlet = Outlet(_ToolsReader(tools), tool.role)
    guard = Guard(conn, limits=within, search_path=path, outlet=outlet)
    try:
        rows = await _read(conn, bounds.worker, tool.role, guard, str(arguments["sql"]))
    except StatementRefusedError as error:
        state = {"sqlstate": error.sqlstate} if error.sqlstate else {}
        return {**answer, "content": without_values(error)[:4096], "is_error": True, **state}
    return {**answer, "content": as_json(rows), "is_error": False}


async def _read(
    conn: AsyncConnection[Any], worker: Worker | None, role: str, guard: Guard, text: str
) -> Rows:
    async def read() -> Rows:
        async with reading_as(conn, role):
            return await guard.read(text)

    return await through_trampolines(read, worker or (lambda: nullcontext(conn)), role=role)


class _ToolsReader:
    """Executes on a connection of the tools' login, in transactions that are rolled back."""

    def __init__(self, tools: ToolConnection) -> None:
        self._tools = tools

    @property
    def connections(self) -> Sequence[AsyncConnection[Any]]:
        return [self._tools.conn]

    async def read(self, statement: RoleStatement) -> str | None:
        request = {
            "run_as": statement.run_as,
            "sql": statement.text.decode(),
            "path": statement.path,
            "rows": statement.rows,
            "settings": {"bytea_output": "hex", **statement.settings},
        }
        async with self._tools.transaction(force_rollback=True) as transaction:
            await self._tools.conn.execute(
                "select set_config('statement_timeout', %s, true)", [statement.timeout]
            )
            return await transaction.call("read_as", request)


def as_json(rows: Rows, most: int = _MOST) -> str:
    """Return rows as JSON: column names, a list for each row, and what was omitted."""
    head = orjson.dumps({"columns": rows.names})[:-1]
    room, kept = most - len(head), list[bytes]()
    for texts in rows.texts:
        row = orjson.dumps(_values(rows, texts))
        room -= len(row) + 1
        if room < 0:
            break
        kept.append(row)
    cut = list(rows.cut)
    if len(kept) < len(rows):
        cut.append(f"only the first {len(kept):,} rows are shown; they are large")
    tail = b',"cut":' + orjson.dumps(cut) if cut else b""
    return (head + b',"rows":[' + b",".join(kept) + b"]" + tail + b"}").decode()


def _values(rows: Rows, texts: Sequence[str | None]) -> list[Json]:
    """Return integers and booleans as JSON values, all others as PostgreSQL prints them."""
    return [
        text if text is None else _PLAIN.get(column.type_oid, str)(text)
        for column, text in zip(rows.columns, texts, strict=True)
    ]
