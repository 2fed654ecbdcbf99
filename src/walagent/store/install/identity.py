"""The identity of the database: a copy of it must not execute the runs of the original."""

from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege

from walagent.errors import PreconditionError
from walagent.store.install.owners import check_schema_owners, restore_owners

Connection = AsyncConnection[Any]


async def check_database(conn: Connection) -> str:
    """Return the identity of the database.

    Raises (as a PostgreSQL error, see `store.errors`):
        PreconditionError: it is a copy; a person decides with `walagent database adopt`.
    """
    row = await (await conn.execute("select agent_internal.check_database()")).fetchone()
    return row[0] if row else ""


async def adopt_database(conn: Connection, *, moved: bool) -> int | None:
    """Let a copy execute runs; return the number of runs that it cancelled.

    Args:
        moved: the original is not used any more, so its runs continue here.

    Returns:
        None if the database is no copy: nothing was done.
    """
    await check_schema_owners(conn)
    await restore_owners(conn)
    cursor = await conn.execute(
        "select agent_internal.adopt_database(_moved => %(moved)s)", {"moved": moved}
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def check_standby(conn: Connection, primary: Connection) -> None:
    """Check that *conn* is connected to the same database on a hot standby of the primary.

    Copies of a server's files have its system identifier: a standby of such a copy is not noticed.

    Raises:
        PreconditionError: it is not, or this login cannot know.
    """
    row = await (await conn.execute("select pg_is_in_recovery()")).fetchone()
    if not (row and row[0]):
        raise PreconditionError(
            "ask.standby_dsn: the server is not a standby",
            hint="Name a hot standby of the database, or remove ask.standby_dsn: statements then"
            " run on the database itself.",
        )
    for what, of_standby, of_primary in zip(
        ("system identifier", "OID of the database"),
        await _identity(conn),
        await _identity(primary),
        strict=True,
    ):
        if of_standby != of_primary:
            raise PreconditionError(
                f"ask.standby_dsn: the {what} is {of_standby} on the standby,"
                f" expected {of_primary} as on the primary",
                hint="Name a hot standby of the same server.",
            )


async def _identity(conn: Connection) -> tuple[str, int]:
    """Return the server's system identifier and the OID of the database."""
    try:
        cursor = await conn.execute(
            "select c.system_identifier::text, d.oid::bigint"
            "  from pg_control_system() c, pg_database d where d.datname = current_database()"
        )
    except InsufficientPrivilege as error:
        raise PreconditionError(
            "ask.standby_dsn: this login cannot compare the two servers",
            hint="As a superuser of the primary:"
            f" grant execute on function pg_control_system() to {conn.info.user};",
        ) from error
    system, oid = await cursor.fetchone() or ("", 0)
    return system, oid
