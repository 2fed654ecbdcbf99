"""What is wrong with a request for a shape."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from psycopg import AsyncConnection, Error

from walagent.errors import WalagentError
from walagent.http.exchange import RefusedError
from walagent.postgres import pgtypes
from walagent.sync.definition import Definition
from walagent.sync.expression import Node, Select, columns_of, selects_of
from walagent.sync.snapshot import select
from walagent.sync.table import ShapeTable, read_table

_FORBIDDEN: Final = "42501"  # insufficient_privilege
_DATA: Final = "22"  # the class of errors in values: division by zero, invalid text, out of range


class ShapeRefusedError(Exception):
    """A shape cannot be served.

    Args:
        status: of the HTTP answer.
        errors: what is wrong, by parameter.
    """

    def __init__(self, status: int, text: str, errors: dict[str, list[str]] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.errors = errors or {}


def invalid(name: str, text: str) -> ShapeRefusedError:
    """Return the refusal of a parameter."""
    return ShapeRefusedError(400, "Invalid request", {name: [text]})


def refusal_of(error: Exception, name: str) -> ShapeRefusedError:
    """Return what is answered after an error of the database.

    Args:
        name: the parameter that values of rows did not fit.
    """
    if isinstance(error, ShapeRefusedError):
        return error
    if isinstance(error, RefusedError):
        return ShapeRefusedError(error.status, str(error))
    if isinstance(error, Error) and (error.sqlstate or "").startswith(_DATA):
        return invalid(name, error.diag.message_primary or "is invalid")
    if isinstance(error, WalagentError) and (error.sqlstate or "").startswith(_DATA):
        return invalid(name, str(error))
    if isinstance(error, Error | WalagentError) and error.sqlstate == _FORBIDDEN:
        return ShapeRefusedError(403, "the rows may not be read")
    return ShapeRefusedError(503, "the rows could not be read; try again")


async def check_definition(conn: AsyncConnection[Any], definition: Definition) -> ShapeTable:
    """Check a definition against the database.

    Args:
        conn: in a transaction of its own, which ends with an error.

    Raises:
        ShapeRefusedError: what is wrong with it.
    """
    try:
        table = await read_table(conn, definition.schema, definition.table)
    except LookupError as error:
        text = f'table "{definition.schema}"."{definition.table}" does not exist or cannot be read'
        raise invalid("table", text) from error
    if table.has_policies:
        text = "has row-level security: its rows differ by role"
        raise ShapeRefusedError(403, "Invalid request", {"table": [text]})
    _check_table(table, "table")
    _check_columns(table, definition.columns or ())
    if definition.where is not None:
        await _check_where(conn, table, definition.where)
    return table


def _check_table(table: ShapeTable, name: str) -> None:
    """Refuse a table whose changes the stream does not have, or not by key.

    Args:
        name: the parameter that names it.
    """
    if table.is_partition:
        raise invalid(name, "is a partition: its changes are sent as those of the whole table")
    if not table.is_logged:
        raise invalid(name, "is not logged: no change of it is in the WAL")
    if not table.has_key and table.identity != "f":
        raise invalid(name, "has no primary key")
    if not table.identity_has_key:
        raise invalid(name, "has a replica identity that does not include its primary key")


def _check_columns(table: ShapeTable, asked: Sequence[str]) -> None:
    if generated := sorted(table.left_out.intersection(asked)):
        text = f"are generated, and the server does not send their values: {', '.join(generated)}"
        raise invalid("columns", text)
    names = {column.name for column in table.columns}
    unknown = [name for name in asked if name not in names]
    if unknown:
        text = f"The following columns are not found on the table: {', '.join(unknown)}"
        raise invalid("columns", text)
    if asked and not set(table.key) <= set(asked):
        raise invalid("columns", "must include all primary key columns")


async def _check_where(conn: AsyncConnection[Any], table: ShapeTable, where: Node) -> None:
    for each in selects_of(where):
        await _check_select(conn, each)
    _check_read(table, columns_of(where), "")
    try:
        await conn.execute(select(table, [table.key[0]], where).encode() + b" limit 0")
    except Error as error:
        raise invalid("where", error.diag.message_primary or "is invalid") from error


async def _check_select(conn: AsyncConnection[Any], what: Select) -> None:
    """Refuse a sub-select whose rows this login may not read, or whose changes it cannot follow."""
    name = f"{what.schema}.{what.table}"
    try:
        table = await read_table(conn, what.schema, what.table)
    except LookupError as error:
        raise invalid("where", f"table {name} does not exist or cannot be read") from error
    if table.has_policies:
        text = f"table {name} has row-level security: its rows differ by role"
        raise ShapeRefusedError(403, "Invalid request", {"where": [text]})
    if table.is_partitioned:
        raise invalid("where", f"table {name} is partitioned: a sub-select cannot read it")
    _check_table(table, "where")
    read = () if what.where is None else columns_of(what.where)
    _check_read(table, [what.column, *read], f" of table {name}")


def _check_read(table: ShapeTable, names: Iterable[str], of: str) -> None:
    """Refuse columns that do not exist, or whose values code of others could read."""
    known = {column.name: column for column in table.columns}
    for name in names:
        column = known.get(name)
        if column is None:
            raise invalid("where", f'column "{name}"{of} does not exist')
        if column.type_oid >= pgtypes.FIRST_OF_USERS and not column.is_enum:
            raise invalid("where", f'column "{name}"{of} has a type of an extension')
