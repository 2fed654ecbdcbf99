"""Let the server parse a statement, one message of the extended protocol at a time."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection, Error, generators
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from walagent.errors import StatementRefusedError
from walagent.guard.statement import Statement
from walagent.postgres import pgtypes
from walagent.postgres.connection import OWN_PATH
from walagent.rows.rows import ResultColumn
from walagent.store.queries import query

Connection = AsyncConnection[Any]
_PARAMETER: Final = re.compile(r"\$(\d+)")
_ANY_TYPE: Final = "42P18"  # indeterminate_datatype


@asynccontextmanager
async def on_path(conn: Connection, path: str) -> AsyncGenerator[None]:
    """Let the server find the names of a statement of others; only of that.

    In a transaction, which has failed if the block raises.
    """
    await conn.execute("select pg_catalog.set_config('search_path', %s, true)", [path])
    yield
    await conn.execute(f"set local search_path = {OWN_PATH['search_path']}".encode())


async def schemas_of(conn: Connection, path: str) -> Sequence[str]:
    """Return the schemas of a search path."""
    async with on_path(conn, path):
        cursor = await conn.execute("select pg_catalog.current_schemas(false)::pg_catalog.text[]")
        row = await cursor.fetchone()
    return row[0] if row else ()


async def is_visible(conn: Connection, path: str, function: int) -> bool:
    """Return whether a function is found without its schema."""
    async with on_path(conn, path):
        cursor = await conn.execute(
            "select pg_catalog.pg_function_is_visible(%s::pg_catalog.oid)", [function]
        )
        return (await cursor.fetchone() or (False,))[0]


async def types_of_parameters(conn: Connection, text: str, count: int) -> Sequence[int]:
    """Return the types of a statement's parameters; one that could be of any type is text."""
    types = [0] * count
    await conn.execute("savepoint literals")
    for _ in range(count + 1):
        try:
            await ask_server(conn, "prepare", text, types)
            break
        except StatementRefusedError as error:
            known = _PARAMETER.search(str(error)) if error.sqlstate == _ANY_TYPE else None
            if known is None or not count:
                raise
            types[int(known[1]) - 1] = pgtypes.TEXT
            await conn.execute("rollback to literals")
    described = await ask_server(conn, "describe", "")
    return [described.param_type(n) for n in range(described.nparams)]


async def describe(conn: Connection, statement: Statement, path: str) -> Sequence[ResultColumn]:
    """Let the server parse a statement and return its result columns, without running it.

    Call it in a read-only transaction.

    Raises:
        StatementRefusedError: it is not a single valid statement, or parsing it would write.
    """
    async with on_path(conn, path):
        await ask_server(conn, "prepare", statement.text)
        described = await ask_server(conn, "describe", "")
    return [
        ResultColumn((described.fname(n) or b"").decode(errors="replace"), described.ftype(n))
        for n in range(described.nfields)
    ]


async def ask_server(conn: Connection, what: str, text: str, types: Sequence[int] = ()) -> PGresult:
    """Send one message of the extended protocol, which accepts a single statement.

    psycopg uses the simple protocol for a statement without parameters, which accepts several.
    """
    pgconn = conn.pgconn
    async with conn.lock:
        match what:
            case "prepare":
                pgconn.send_prepare(b"", text.encode(), list(types))
            case "describe":
                pgconn.send_describe_prepared(b"")
            case _:
                pgconn.send_query_params(text.encode(), None)
        *_, result = await conn.wait(generators.execute(pgconn))
    if result.status == ExecStatus.FATAL_ERROR:
        raise refused_by_server(_error(result, conn))
    return result


def _error(result: PGresult, conn: Connection) -> Error:
    return error_from_result(result, encoding=conn.info.encoding)


def refused_by_server(error: Error, *, executed: bool = False) -> StatementRefusedError:
    """Convert an error; its detail, which can quote rows, is dropped."""
    return StatementRefusedError(
        error.diag.message_primary or str(error),
        sqlstate=error.sqlstate,
        position=int(error.diag.statement_position or 0) or None,
        executed=executed,
    )


async def has_changeable(conn: Connection) -> bool:
    """Return whether there is a type that somebody else can change while a literal is judged."""
    return (await conn.execute(query("guard_changeable"), {"types": None})).rowcount > 0


async def refuse_changeable(conn: Connection, types: Sequence[int]) -> None:
    """Refuse literals of such types.

    Raises:
        StatementRefusedError: one has a part to which its owner can add code.
    """
    cursor = await conn.execute(query("guard_changeable"), {"types": [*types]})
    for name, part, owner in await cursor.fetchall():
        raise StatementRefusedError(
            f'literals of type {name} are not read: "{owner}" can add code to type {part}'
        )
