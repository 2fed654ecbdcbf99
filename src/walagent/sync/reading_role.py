"""The role that reads for principals where the login itself is subject to no row-level security."""

from typing import Any, Final

from psycopg import AsyncConnection, Error
from psycopg.sql import SQL, Identifier, Literal

from walagent.errors import PreconditionError
from walagent.store.install.removal import CREATED
from walagent.store.sessions.own_roles import check_own_role

_LOGIN: Final = """
select r.rolsuper or r.rolbypassrls, 'walagent_sync_' || d.oid,
       exists (select from pg_catalog.pg_roles o where o.rolname = 'walagent_sync_' || d.oid)
  from pg_catalog.pg_roles r, pg_catalog.pg_database d
 where r.rolname = session_user and d.datname = current_database()
"""
_RACES: Final = frozenset({"42710", "23505"})  # another process has created it


async def reading_role(conn: AsyncConnection[Any]) -> str | None:
    """Return the role to read as; None: the login is subject to row-level security itself.

    A superuser, such as the login of the embedded server, is not; so it reads as a role without
    attributes, which is created if it is missing.

    Raises:
        PreconditionError: the login bypasses row-level security and cannot create the role,
            or somebody else can act as it.
    """
    row = await (await conn.execute(_LOGIN)).fetchone()
    if row is None or not row[0]:
        return None
    name = str(row[1])
    if not row[2]:
        try:
            await conn.execute(SQL("create role {} nologin").format(Identifier(name)))
            await conn.execute(
                SQL("comment on role {} is {}").format(Identifier(name), Literal(CREATED))
            )
        except Error as error:
            if error.sqlstate not in _RACES:
                raise PreconditionError(
                    "the login bypasses row-level security and cannot create a role that does not",
                    hint="Let walagent connect as a role without BYPASSRLS.",
                ) from error
    await check_own_role(conn, name)
    await conn.execute("select agent.grant_viewer(%s)", (name,))
    return name
