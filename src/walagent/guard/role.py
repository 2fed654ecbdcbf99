"""Whose rights somebody else's SQL may have: a role that can read and nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, Error

from walagent.errors import PreconditionError, RoleRefusedError
from walagent.store.errors import is_passing
from walagent.store.queries import query
from walagent.store.roles import reset_role, set_role


async def check_role(conn: AsyncConnection[Any]) -> None:
    """See that the present role could write nothing, even if everything else failed.

    Raises:
        PreconditionError: it could, or may not do what the analysis needs; the hint has the mend.
    """
    rows = await (await conn.execute(query("guard_role"))).fetchall()
    if rows:
        raise PreconditionError(
            "; ".join(reason for reason, _ in rows),
            hint="\n".join(dict.fromkeys(mend for _, mend in rows)),
        )


@asynccontextmanager
async def reading_as(conn: AsyncConnection[Any], role: str) -> AsyncGenerator[None]:
    """Act as *role* for the block, if it can read and nothing else; never as the login.

    Args:
        conn: in autocommit; closed where the role cannot be laid down again.

    Raises:
        RoleRefusedError: there is no such role, the login is no member of it, or it could write.
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
            f'role "{role}" is not one for SQL that a model writes: {error}',
            hint=f"{error.hint}\nthen: walagent resume",
        ) from error
    except Error as error:
        if is_passing(error) or error.sqlstate is None:
            raise
        raise RoleRefusedError(
            f'cannot read as role "{role}": {error.diag.message_primary}'
            f" (SQLSTATE {error.sqlstate})",
            hint=f'grant "{role}" to "{conn.info.user}"; then: walagent resume',
            sqlstate=error.sqlstate,
        ) from error
