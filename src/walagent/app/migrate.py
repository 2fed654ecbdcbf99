"""Bring the schema up to date: decide which files are due, run each in a transaction of its own."""

from collections.abc import Callable, Sequence
from typing import Any

from psycopg import AsyncConnection

from walagent.errors import PreconditionError
from walagent.store.errors import translating
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
    """List the migrations that this database has not seen.

    Raises:
        PreconditionError: the database is newer than this walagent, or a file was edited.
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
    conn: Connection, told: Callable[[Migration], None] = lambda _: None
) -> list[Migration]:
    """Apply what is due and list it; *told* hears of each as it is done.

    Raises:
        PreconditionError: as `plan_migrations`, or the role may not do it; what was applied before
            stays, and running it again goes on from there.
    """
    with translating():
        await lock_migrations(conn)
    plan = await plan_migrations(conn)
    for migration in plan:
        with translating():
            async with conn.transaction():
                await apply_migration(conn, migration)
        told(migration)
    return plan


def is_new(plan: Sequence[Migration]) -> bool:
    """Whether a plan is that of a database that has never seen us."""
    return len(plan) == len(find_migrations())


def due(known: Sequence[Migration], applied: Sequence[Applied]) -> list[Migration]:
    """Choose what is to be applied; a pure decision.

    Raises:
        PreconditionError: *applied* is not the beginning of *known*.
    """
    by_name = {migration.name: migration for migration in known}
    for row in applied:
        if (migration := by_name.get(row.name)) is None:
            raise PreconditionError(
                f"the database has the migration {row.name}, which this walagent does not know",
                hint="the database belongs to a newer version: upgrade walagent",
            )
        if migration.digest != row.digest:
            raise PreconditionError(
                f"the migration {row.name} is not the one that was applied: it was edited since",
                hint="install the release that the database was migrated with, or a newer one",
            )
    seen = {row.name for row in applied}
    rest = [migration for migration in known if migration.name not in seen]
    last = max(seen, default="")
    if early := [migration.name for migration in rest if migration.name < last]:
        raise PreconditionError(
            f"the migration {early[0]} was not applied, but {last} after it was",
            hint="this is not an order that any release has; restore the database from a backup",
        )
    return rest
