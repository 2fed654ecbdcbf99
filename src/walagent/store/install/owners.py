"""The owners of walagent's functions, on whom the separation of tenants rests.

A restore without owners, REASSIGN OWNED or ALTER FUNCTION gives them to somebody else, silently:
they then read and write all tenants, or their new owner can replace what the daemon calls.
"""

from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege

from walagent.errors import PreconditionError
from walagent.store.queries import query

Connection = AsyncConnection[Any]

_NAMED: Final = 3  # functions in a message
_MISOWNED: Final = (
    "select function::text, owner::text, wanted::text from agent_internal.misowned_functions()"
)


async def check_schema_owners(conn: Connection) -> None:
    """Check whose the schemas are that exist, before anything in them is called.

    Raises:
        PreconditionError: somebody else's, who may create schemas in this database.
    """
    for kind, name, owner in await (await conn.execute(query("strange_schemas"))).fetchall():
        raise PreconditionError(
            f'{kind} "{name}" belongs to role "{owner}", who could exchange what is called in it',
            hint=f"Run it as {owner}, if that installed walagent; else run"
            f" drop {kind} {name}{' cascade' if kind == 'schema' else ''}.",
        )
    for (what,) in await (await conn.execute(query("prepared_schema"))).fetchall():
        raise PreconditionError(
            f'schema "agent" exists and has {what}, but walagent did not create it',
            hint="Use another database, or run drop schema agent cascade if it is not needed.",
        )


async def misowned_functions(conn: Connection) -> list[tuple[str, str, str]]:
    """Return the functions that belong to the wrong role, with that and the right one."""
    return await (await conn.execute(_MISOWNED)).fetchall()


async def restore_owners(conn: Connection) -> int:
    """Give the functions to the roles that they belong to; return how many were not.

    Raises:
        PreconditionError: this login may not, or others can act as the role that they belong to.
    """
    if not (found := await misowned_functions(conn)):
        return 0
    try:
        async with conn.transaction():
            await conn.execute("select agent_internal.restrict_definers()")
    except InsufficientPrivilege as error:
        if hint := error.diag.message_hint:  # of walagent: others can act as walagent_definer
            raise PreconditionError(
                str(error.diag.message_primary), hint=hint, sqlstate=error.sqlstate
            ) from error
        raise PreconditionError(describe(found), hint=FIX, sqlstate=error.sqlstate) from error
    return len(found)


FIX: Final = "As a superuser, run walagent database migrate. Until then, nothing serves tenants."


def describe(found: list[tuple[str, str, str]]) -> str:
    """Say which functions belong to whom."""
    named = ", ".join(f"{function} to {owner}" for function, owner, _ in found[:_NAMED])
    more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"functions of walagent belong to the wrong role: {named}{more}"
