"""Let the server parse a statement, one message of the extended protocol at a time."""

import re
from collections.abc import Sequence
from typing import Any, Final

from psycopg import AsyncConnection, Error, generators
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from walagent.errors import StatementRefusedError
from walagent.guard.statement import Statement
from walagent.postgres import pgtypes
from walagent.rows.rows import ResultColumn

Connection = AsyncConnection[Any]
_PARAMETER: Final = re.compile(r"\$(\d+)")
_ANY_TYPE: Final = "42P18"  # indeterminate_datatype


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


async def describe(conn: Connection, statement: Statement) -> Sequence[ResultColumn]:
    """Let the server parse a statement and return its result columns, without running it.

    Call it in a read-only transaction.

    Raises:
        StatementRefusedError: it is not a single valid statement, or parsing it would write.
    """
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
