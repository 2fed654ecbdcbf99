"""Find the schema's migrations, list the applied ones, and apply one.

They are files in the installed package or in the checkout.  `agent_internal.migration` stores
each with its digest: a file that was edited after it was applied is reported, not applied again.
"""

import asyncio
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from walagent.errors import PreconditionError
from walagent.store.queries import query

Connection = AsyncConnection[Any]

_LOCK = 0x77616C61  # "wala": one migrator at a time
PATIENCE = 60.0  # seconds to wait for another one


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration file."""

    name: str
    script: bytes

    @property
    def digest(self) -> str:
        """Return a digest that differs if the file was edited after it was applied."""
        return sha256(self.script).hexdigest()


@dataclass(frozen=True, slots=True)
class Applied:
    """A row of `agent_internal.migration`."""

    name: str
    digest: str


def find_migrations() -> list[Migration]:
    """Read the migrations of this installation, in order.

    Raises:
        PreconditionError: it has none.
    """
    package = Path(__file__).parent.parent
    for folder in (package / "migrations", package.parent.parent / "migrations"):
        if files := sorted(folder.glob("[0-9]*.sql")):
            return [Migration(file.name, file.read_bytes()) for file in files]
    raise PreconditionError(
        "the migrations are missing from this installation", hint="Install walagent again."
    )


async def lock_migrations(conn: Connection) -> None:
    """Wait until no other migrator uses this database; the lock lasts until *conn* closes.

    An advisory lock, which every login can hold, for an empty database has no other.

    Raises:
        PreconditionError: another session has held it for too long.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        cursor = await conn.execute("select pg_try_advisory_lock(%(lock)s)", {"lock": _LOCK})
        if (row := await cursor.fetchone()) and row[0]:
            return
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(0.1)
    cursor = await conn.execute(query("migration_holder"), {"lock": _LOCK})
    pid, who, application = await cursor.fetchone() or ("?", "?", "?")
    raise PreconditionError(
        f"another session has held the lock of migrations for {PATIENCE:g} s:"
        f' PID {pid}, role "{who}", application "{application}"',
        hint=f"Wait for it, or run select pg_terminate_backend({pid}).",
    )


async def applied_migrations(conn: Connection) -> list[Applied] | None:
    """List the applied migrations in order; None if a schema `agent` has no list of them.

    Raises:
        PreconditionError: an unreleased version created the schema.
    """
    row = await (await conn.execute(query("find_schema"))).fetchone()
    has_schema, has_list, is_unreleased = row or (False, False, False)
    if is_unreleased:
        raise PreconditionError(
            'schema "agent" was created by an unreleased version and cannot be upgraded',
            hint="Run: drop schema agent cascade; drop publication if exists walagent,"
            " walagent_inserts; then walagent init. Runs, steps and attachments are lost.",
        )
    if not has_list:
        return None if has_schema else []
    cursor = await conn.execute("select name, sha256 from agent_internal.migration order by name")
    return [Applied(*found) for found in await cursor.fetchall()]


async def apply_migration(conn: Connection, migration: Migration) -> None:
    """Execute one file and record it, in the caller's transaction.

    What it creates with the owner's rights is restricted with it: a later failure leaves nothing
    that is not.
    """
    await conn.execute(migration.script)
    cursor = await conn.execute("select to_regprocedure('agent_internal.restrict_definers()')")
    if (row := await cursor.fetchone()) is not None and row[0] is not None:
        await conn.execute("select agent_internal.restrict_definers()")
    await conn.execute(query("create_migration_list"))
    await conn.execute(
        "insert into agent_internal.migration (name, sha256) values (%(name)s, %(digest)s)",
        {"name": migration.name, "digest": migration.digest},
    )
