"""Create or upgrade the schema: find what a database lacks, and apply it in one transaction."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from psycopg import AsyncConnection, Error, sql
from psycopg.errors import DependentObjectsStillExist, InsufficientPrivilege

from walagent import __version__
from walagent.errors import PreconditionError
from walagent.store.errors import translated, translating
from walagent.store.install.apply import apply_plan, read_applied
from walagent.store.install.extension import NAME
from walagent.store.install.files import SchemaFiles, find_files
from walagent.store.install.lock import lock_migrations
from walagent.store.install.owners import check_schema_owners, restore_owners
from walagent.store.install.plan import Plan, plan_of
from walagent.store.install.state import read_state

Connection = AsyncConnection[Any]

# Ours has no objects; another extension of this name would.
_EXTENSION = """
select pg_has_role(e.extowner, 'usage')
       and not exists (select from pg_depend d
                        where d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
                          and d.deptype = 'e')
  from pg_extension e where e.extname = %s
"""

REMOVE = (
    "Run walagent database uninstall to remove what is left, then walagent init. To keep agents and"
    " runs, restore the schemas from a backup instead."
)


async def plan_migration(conn: Connection, files: SchemaFiles | None = None) -> Plan:
    """Return what the database lacks of the schema.

    Args:
        files: of another version; None: those of this installation.

    Raises:
        PreconditionError: the database is newer than this walagent, an upgrade was edited, or parts
            of the schema were dropped that only `walagent database uninstall` can bring in order.
    """
    files = files or find_files()
    with translating():
        applied = await read_applied(conn)
        state = await read_state(conn, files)
    if applied is None and not state.is_ours:
        raise PreconditionError(
            'schema "agent" exists, but walagent did not create it',
            hint="Use another database, or run drop schema agent cascade if it is not needed.",
        )
    if applied == {} and not state.is_empty:
        left = ", ".join(state.left)
        raise PreconditionError(f"walagent was removed incompletely: {left} exists", hint=REMOVE)
    if applied is None or (applied and state.missing):
        raise PreconditionError(
            f"walagent's schema is incomplete: it lacks {_few(state.missing)}", hint=REMOVE
        )
    plan = plan_of(files, applied, __version__)
    if state.dropped_code and not plan:
        return replace(plan, code=files.code)
    return plan


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more tables" if len(names) > 1 else ""
    return f"{names[0] if names else 'schema agent_internal'}{more}"


async def migrate(conn: Connection, files: SchemaFiles | None = None) -> Plan:
    """Bring the schema up to date, or change nothing; return what was applied.

    Args:
        files: as in `plan_migration`.

    Raises:
        PreconditionError: as `plan_migration`, or the role lacks a privilege, or the schemas are
            somebody else's.
    """
    with translating():
        await check_schema_owners(conn)
        await lock_migrations(conn)
    files = files or find_files()
    plan = await plan_migration(conn, files)
    with translating():
        await _drop_extension(conn)
    if not plan:
        with translating():
            await restore_owners(conn)
        return plan
    try:
        async with conn.transaction():
            await apply_plan(conn, files, plan, __version__)
    except InsufficientPrivilege as error:
        hint = error.diag.message_hint or (
            await _grant(conn) if plan.is_new else "Run it as the owner of the schemas."
        )
        raise PreconditionError(
            str(error.diag.message_primary), hint=hint, sqlstate=error.sqlstate
        ) from error
    except DependentObjectsStillExist as error:
        raise PreconditionError(
            f"objects of others depend on what is replaced: {error.diag.message_detail}",
            hint="Drop them, and create them again after the upgrade.",
            sqlstate=error.sqlstate,
        ) from error
    except Error as error:
        failed = translated(error)
        if notes := getattr(error, "__notes__", None):
            failed = type(failed)(f"{notes[0]}: {failed}", hint=failed.hint)
        raise failed from error
    return plan


async def _drop_extension(conn: Connection) -> None:
    """Drop the extension that created the schema: a dump would create the schema twice."""
    found = await (await conn.execute(_EXTENSION, [NAME])).fetchone()
    if found == (True,):
        await conn.execute(sql.SQL("drop extension {}").format(sql.Identifier(NAME)))


async def _grant(conn: Connection) -> str:
    """Return the statement that allows this role to create the schema; "" if it can."""
    cursor = await conn.execute(
        "select has_database_privilege(current_database(), 'create'),"
        " format('grant create on database %I to %I', current_database(), current_user)"
    )
    row = await cursor.fetchone()
    allowed, statement = row or (True, "")
    return "" if allowed else statement
