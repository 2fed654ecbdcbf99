"""Check that the role of untrusted SQL is read-only."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection, Error

from walagent.errors import PreconditionError, RoleRefusedError
from walagent.store.errors import is_passing
from walagent.store.install.files import function_body
from walagent.store.sessions.roles import reset_role, set_role

_MOST: Final = 3  # reasons in an error


async def check_role(conn: AsyncConnection[Any]) -> None:
    """Check that the current role cannot write, even if all other checks failed.

    Raises:
        PreconditionError: it can, or cannot create the view for analysis; the hint has the fix.
    """
    rights = function_body("schema/tool/writing_rights.sql", _role="current_user")
    cursor = await conn.execute(rights)
    if rows := await cursor.fetchmany(_MOST):
        raise PreconditionError(
            "; ".join(reason for reason, _ in rows),
            hint="\n".join(dict.fromkeys(fix for _, fix in rows)),
        )


async def check_login(conn: AsyncConnection[Any]) -> None:
    """Check that the login cannot write either: a function can reset the role to it.

    Raises:
        PreconditionError: it can.
    """
    try:
        await check_role(conn)
    except PreconditionError as error:
        raise PreconditionError(
            f"a function of ask.functions could reset the role to the login: {error}",
            hint="Connect as a login that is a member of the analyst role alone, with"
            " agent.grant_asker; or list only extensions, for their compiled functions.",
        ) from error


@asynccontextmanager
async def reading_as(conn: AsyncConnection[Any], role: str) -> AsyncGenerator[None]:
    """Run the block as *role* if it is read-only; never as the login.

    Args:
        conn: in autocommit; closed if the role cannot be reset.

    Raises:
        RoleRefusedError: the role does not exist, it can write, or the login is no member of it.
    """
    try:
        await _take_on(conn, role)
        yield
    finally:
        try:
            await reset_role(conn)
        except BaseException:
            await conn.close()
            raise


async def _take_on(conn: AsyncConnection[Any], role: str) -> None:
    try:
        await set_role(conn, role)
        await check_role(conn)
    except PreconditionError as error:
        raise RoleRefusedError(
            f'role "{role}" must be read-only: {error}',
            hint=f"{error.hint}\nThen run walagent agents resume.",
        ) from error
    except Error as error:
        if is_passing(error) or error.sqlstate is None:
            raise
        raise RoleRefusedError(
            f'cannot set role "{role}": {error.diag.message_primary} (SQLSTATE {error.sqlstate})',
            hint=f'grant "{role}" to "{conn.info.user}"; then run walagent agents resume',
            sqlstate=error.sqlstate,
        ) from error
