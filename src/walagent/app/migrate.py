"""Upgrade the schema: find the pending migrations, apply each in a transaction of its own."""

from collections.abc import Callable, Sequence
from typing import Any

from psycopg import AsyncConnection, Error
from psycopg.errors import InsufficientPrivilege

from walagent.errors import PreconditionError
from walagent.store.errors import translated, translating
from walagent.store.migrations import (
    Applied,
    Migration,
    applied_migrations,
    apply_migration,
    find_migrations,
    lock_migrations,
)

Connection = AsyncConnection[Any]


async def plan_migrations(conn: Connection) -> list[Migration]:
    """List the pending migrations.

    Raises:
        PreconditionError: the database is newer than this walagent, or a migration was edited.
    """
    with translating():
        applied = await applied_migrations(conn)
    if applied is None:
        raise PreconditionError(
            'schema "agent" exists, but walagent did not create it',
            hint="Use another database, or run drop schema agent cascade if it is not needed.",
        )
    return due(find_migrations(), applied)


async def migrate(
    conn: Connection, on_applied: Callable[[Migration], None] = lambda _: None
) -> list[Migration]:
    """Apply the pending migrations and return them; call *on_applied* after each.

    Raises:
        PreconditionError: as `plan_migrations`, or the role lacks a privilege; the migrations
            applied before stay, and the next call continues after them.
    """
    with translating():
        await lock_migrations(conn)
    plan = await plan_migrations(conn)
    for migration in plan:
        try:
            async with conn.transaction():
                await apply_migration(conn, migration)
        except InsufficientPrivilege as error:
            raise PreconditionError(
                str(error.diag.message_primary), hint=await _grant(conn), sqlstate=error.sqlstate
            ) from error
        except Error as error:
            raise translated(error) from error
        on_applied(migration)
    return plan


async def _grant(conn: Connection) -> str:
    """Return the statement that allows this role to create the schema; "" if it can."""
    cursor = await conn.execute(
        "select has_database_privilege(current_database(), 'create'),"
        " format('grant create on database %I to %I', current_database(), current_user)"
    )
    row = await cursor.fetchone()
    allowed, statement = row or (True, "")
    return "" if allowed else statement


def is_new(plan: Sequence[Migration]) -> bool:
    """Whether a plan is that of a database without walagent's schema."""
    return len(plan) == len(find_migrations())


def due(known: Sequence[Migration], applied: Sequence[Applied]) -> list[Migration]:
    """Return the migrations of *known* to apply.  Pure.

    Raises:
        PreconditionError: *applied* is not a prefix of *known*.
    """
    by_name = {migration.name: migration for migration in known}
    for row in applied:
        if (migration := by_name.get(row.name)) is None:
            raise PreconditionError(
                f"this version of walagent does not have the database's migration {row.name}",
                hint="Upgrade walagent: a newer version migrated the database.",
            )
        if migration.digest != row.digest:
            raise PreconditionError(
                f"migration {row.name} differs from the one that was applied",
                hint="Install the release that migrated the database, or a newer one.",
            )
    seen = {row.name for row in applied}
    rest = [migration for migration in known if migration.name not in seen]
    last = max(seen, default="")
    if early := [migration.name for migration in rest if migration.name < last]:
        raise PreconditionError(
            f"migration {early[0]} was not applied, but {last} was",
            hint="Restore the database from a backup: no release applies migrations in this order.",
        )
    return rest
