"""The functions through which code of others is executed as a role.

Each role has one, which the worker creates when a call finds that it is missing or was changed.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from psycopg import AsyncConnection, Error

from walagent.errors import WalagentError

T = TypeVar("T")
Connection = AsyncConnection[Any]

TRAMPOLINE_LOST: Final = "WA016"  # SQLSTATE: a role has none, or it was changed


async def make_trampoline(conn: Connection, role: str) -> None:
    """Create the trampoline of *role*, as the worker.

    Raises (as a PostgreSQL error, see `store.errors`):
        RoleRefusedError: the role does not exist, or the worker is not a member of it.
    """
    await conn.execute("select agent_internal.make_trampoline(_role => %(role)s)", {"role": role})


async def through_trampolines(
    act: Callable[[], Awaitable[T]],
    worker: Callable[[], AbstractAsyncContextManager[Connection]],
    *,
    role: str | None = None,
    policies: bool = False,
) -> T:
    """Return what *act* returns; if a trampoline is missing, create it and repeat *act* once.

    Args:
        act: a transaction, which is rolled back if a trampoline is missing.
        worker: gives a connection whose login is a member of the roles.
        role: whose trampoline *act* uses.
        policies: whether *act* asks the policies of tenants, whose roles have trampolines, too.

    Raises: as *act* and `make_trampoline`.
    """
    try:
        return await act()
    except (Error, WalagentError) as error:
        if error.sqlstate != TRAMPOLINE_LOST:
            raise
    async with worker() as conn:
        if role is not None:
            await make_trampoline(conn, role)
        if policies:
            await conn.execute("select agent_internal.make_policy_trampolines()")
    return await act()
