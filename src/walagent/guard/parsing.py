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
from walagent.guard.literals import Template
from walagent.guard.statement import Statement
from walagent.postgres import pgtypes
from walagent.postgres.connection import OWN_PATH
from walagent.rows.rows import ResultColumn

Connection = AsyncConnection[Any]
_PARAMETER: Final = re.compile(r"\$(\d+)")
_ANY_TYPE: Final = "42P18"  # indeterminate_datatype
_VIEW: Final = "walagent_guard"
_RULE: Final = """
select ev_class::int8, ev_action::text
  from pg_rewrite where ev_class = 'pg_temp.walagent_guard'::regclass
"""
_NAMES_OF_TYPES: Final = """
select t.oid::int8, format('%%I.%%I', n.nspname, t.typname), n.nspname = 'pg_catalog'
  from pg_type t join pg_namespace n on n.oid = t.typnamespace where t.oid = any (%s::oid[])
"""


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


async def typed(conn: Connection, template: Template, path: str) -> str:
    """Return a statement whose literals have types, so that the server has none to find for them.

    One of a type of PostgreSQL is converted by a name that nobody else can give to another type; a
    cast of a text to any other type is not executed before the statement is.  Call it in a
    transaction, for a statement that is not executed: a function could be chosen that is not
    the one of the literal without a type.
    """
    types = await _types_of_literals(conn, template, path)
    cursor = await conn.execute(_NAMES_OF_TYPES, [[*types]])
    names = {oid: (name, own) for oid, name, own in await cursor.fetchall()}
    values: list[str] = []
    for literal, oid in zip(template.literals, types, strict=True):
        name, own = names.get(oid, ("pg_catalog.text", True))
        value = literal if own else f"cast({literal} as pg_catalog.text)"
        values.append(f"cast({value} as {name})")
    return template.filled(values)


async def _types_of_literals(conn: Connection, template: Template, path: str) -> Sequence[int]:
    """Return the types of a statement's literals; one that could be of any type is text.

    Equal literals are one parameter, for GROUP BY compares expressions; if that is not valid, as
    where they have several types, each is one.
    """
    each = {literal: n for n, literal in enumerate(dict.fromkeys(template.literals), start=1)}
    shared = [each[literal] for literal in template.literals]
    async with on_path(conn, path):
        await conn.execute("savepoint literals")
        try:
            found = await _types_of_parameters(conn, template, shared)
        except StatementRefusedError:
            await conn.execute("rollback to literals")
            shared = [*range(1, len(shared) + 1)]
            found = await _types_of_parameters(conn, template, shared)
    return [found[n - 1] for n in shared]


async def _types_of_parameters(
    conn: Connection, template: Template, numbers: Sequence[int]
) -> Sequence[int]:
    types = [0] * max(numbers, default=0)
    text = template.filled([f"${n}" for n in numbers])
    for _ in range(len(types) + 1):
        try:
            await ask_server(conn, "prepare", text, types)
            break
        except StatementRefusedError as error:
            known = _PARAMETER.search(str(error)) if error.sqlstate == _ANY_TYPE else None
            if known is None:
                raise
            types[int(known[1]) - 1] = pgtypes.TEXT
            await conn.execute("rollback to literals")
    described = await ask_server(conn, "describe", "")
    return [described.param_type(n) for n in range(described.nparams)]


async def rule_of(
    conn: Connection, text: str, path: str, *, again: bool = False
) -> tuple[int, str]:
    """Let the server store a rule for a query, in a transaction that the caller rolls back.

    Others can create on the path, and the session could become its login again: nothing but the
    query is read on it.

    Args:
        text: whose literals of types of others are not constants.
        again: whether there was another one in this transaction.

    Returns:
        The OID of the view, and its rule.

    Raises:
        StatementRefusedError: it is not a query.
    """
    if again:
        await conn.execute(f"drop view pg_temp.{_VIEW}".encode())
    try:
        async with on_path(conn, path):
            view = Statement(text).wrapped(f"create temp view {_VIEW} as select")
            await ask_server(conn, "run", view)
    except StatementRefusedError as error:
        if error.sqlstate == "42601":  # a syntax error only inside the view: it is not a query
            raise StatementRefusedError("only SELECT, VALUES and TABLE are allowed") from error
        raise
    (found,) = await (await conn.execute(_RULE)).fetchall()
    return found


async def describe(conn: Connection, template: Template, path: str) -> Sequence[ResultColumn]:
    """Let the server parse a statement and return its result columns, without running it.

    Call it in a read-only transaction.

    Raises:
        StatementRefusedError: it is not a single valid statement, or parsing it would write.
    """
    async with on_path(conn, path):
        await ask_server(conn, "prepare", template.empty)
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
