"""The role with whose rights questions are answered: made once, by `walagent database setup`."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Identifier

from walagent.ask.answering import how_to_make
from walagent.ask.catalog import how_to_let_read
from walagent.errors import PreconditionError, RoleRefusedError
from walagent.store.errors import translating
from walagent.store.install.removal import CREATED
from walagent.store.trampolines import make_trampoline

Connection = AsyncConnection[Any]

# Whether a role can read a table of some schemas, or has nothing to read there.
_READS: Final = """
select count(*) = 0 or bool_or(has_schema_privilege(%(role)s, n.oid, 'usage')
           and (has_table_privilege(%(role)s, c.oid, 'select')
                or has_any_column_privilege(%(role)s, c.oid, 'select')))
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = any (%(schemas)s) and c.relkind in ('r', 'p', 'v', 'm', 'f')
"""


async def make_analyst(conn: Connection, role: str, schemas: Sequence[str] | None) -> bool:
    """Make the role, with the right to read what is there now, and let this login act as it.

    Roles are of all databases, grants of one: a role that can read nothing here gets the grants,
    one that can is left as it is.

    Args:
        conn: in autocommit.
        schemas: which it may read; None: public.

    Returns:
        whether it was made, or got its grants.

    Raises:
        PreconditionError: this login may make no roles, or grant nothing, or somebody whom no
            operator has chosen can act as the role; the hint has the statements.
    """
    schemas = schemas or ("public",)
    found = await conn.execute(
        "select exists (select from pg_roles where rolname = %s), rolsuper or rolcreaterole,"
        " rolname from pg_roles where rolname = current_user",
        [role],
    )
    is_there, may_make, login = await found.fetchone() or (False, False, "")
    if is_there:
        await _check_members(conn, role)
        changed = await _let_read(conn, role, schemas, login)
        await _let_through(conn, role)
        return changed
    if not may_make:
        raise PreconditionError(
            f'the role "{role}" is missing, and {login} may make no roles',
            hint=f"{how_to_make(role)} grant {role} to {login};",
        )
    async with conn.transaction():
        await conn.execute(SQL("create role {}").format(Identifier(role)))
        named = SQL("comment on role {} is {}").format(Identifier(role), CREATED)
        await conn.execute(named)  # for walagent database uninstall
        await _grant(conn, role, schemas)
        await conn.execute(SQL("grant {} to current_user").format(Identifier(role)))
    await _let_through(conn, role)
    return True


async def _check_members(conn: Connection, role: str) -> None:
    """Check who can act as a role that exists: who may create roles can have made it."""
    try:
        found = await conn.execute(
            "select member, statement from agent_internal.strange_members(%s, true)", [role]
        )
    except InsufficientPrivilege:  # a login that has no capability grants the role nothing either
        return
    for member, statement in await found.fetchall():
        raise PreconditionError(
            f'role "{member}" can act as "{role}", and would read what questions read',
            hint=f"As a superuser, run {statement}; or set ask.role to a new role.",
        )


async def _let_through(conn: Connection, role: str) -> None:
    """Make the trampoline of the role, through which logins that cannot sign read as it."""
    # Else the worker makes it, or says who can.
    with suppress(InsufficientPrivilege, RoleRefusedError, PreconditionError), translating():
        await make_trampoline(conn, role)


async def _let_read(conn: Connection, role: str, schemas: Sequence[str], login: str) -> bool:
    """Grant a role what it needs in this database, if it can read nothing here."""
    found = await conn.execute(_READS, {"role": role, "schemas": list(schemas)})
    (reads,) = await found.fetchone() or (True,)
    if reads:
        return False
    try:
        async with conn.transaction():
            await _grant(conn, role, schemas)
    except InsufficientPrivilege as error:
        raise PreconditionError(
            f'role "{role}" can read nothing in this database, and {login} may not grant it',
            hint=how_to_let_read(role, schemas),
        ) from error
    return True


async def _grant(conn: Connection, role: str, schemas: Sequence[str]) -> None:
    await conn.execute(how_to_let_read(role, schemas).encode())
