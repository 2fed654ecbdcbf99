"""The role with whose rights questions are answered: made once, by `walagent setup`."""

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier

from walagent.ask.answering import how_to_make
from walagent.errors import PreconditionError
from walagent.store.removal import CREATED

Connection = AsyncConnection[Any]


async def make_analyst(conn: Connection, role: str, schemas: Sequence[str] | None) -> bool:
    """Make the role, with the right to read what is there now, and let this login act as it.

    One that is there already is left as it is.

    Args:
        conn: in autocommit.
        schemas: which it may read; None: public.

    Returns:
        whether it was made.

    Raises:
        PreconditionError: this login may make no roles; the hint has the statements.
    """
    found = await conn.execute(
        "select exists (select from pg_roles where rolname = %s), rolsuper or rolcreaterole,"
        " rolname from pg_roles where rolname = current_user",
        [role],
    )
    is_there, may_make, login = await found.fetchone() or (False, False, "")
    if is_there:
        return False
    if not may_make:
        raise PreconditionError(
            f'the role "{role}" is missing, and {login} may make no roles',
            hint=f"{how_to_make(role)} grant {role} to {login};",
        )
    async with conn.transaction():
        await conn.execute(SQL("create role {}").format(Identifier(role)))
        named = SQL("comment on role {} is {}").format(Identifier(role), CREATED)
        await conn.execute(named)  # for walagent uninstall
        for schema in schemas or ("public",):
            names = Identifier(schema), Identifier(role)
            await conn.execute(SQL("grant usage on schema {} to {}").format(*names))
            await conn.execute(SQL("grant select on all tables in schema {} to {}").format(*names))
        await conn.execute(SQL("grant {} to current_user").format(Identifier(role)))
    return True
