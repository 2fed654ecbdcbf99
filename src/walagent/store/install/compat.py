"""The schemas of other systems, as views and functions over ours: install and remove them."""

from importlib.resources import files
from typing import Any

from psycopg import AsyncConnection, sql

from walagent.errors import ConfigError

Connection = AsyncConnection[Any]

_SCHEMAS = (
    "select nspname, obj_description(oid, 'pg_namespace') from pg_namespace"
    " where nspname like 'aos\\_%'"
)
OURS = "walagent database pgagentos"  # the comment of each schema


async def install_pgagentos(conn: Connection) -> None:
    """Create or renew the schemas aos_*, in the caller's transaction.

    Raises:
        ConfigError: the database has such schemas of another program.
    """
    if others := sorted(name for name, about in await _schemas(conn) if about != OURS):
        raise ConfigError(
            f"the database has schemas of another program: {', '.join(others)}",
            hint="Drop or rename them, or install into another database.",
        )
    for name in ("pgagentos.sql", "pgagentos_administration.sql"):
        await conn.execute(files("walagent").joinpath("compat", name).read_bytes())


async def remove_pgagentos(conn: Connection) -> list[str]:
    """Drop the schemas that `install_pgagentos` created; return their names."""
    found = sorted(name for name, about in await _schemas(conn) if about == OURS)
    for name in found:
        await conn.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))
    if found:
        await conn.execute("delete from agent_internal.privilege where object ~ '^aos_'")
    return found


async def _schemas(conn: Connection) -> list[tuple[str, str | None]]:
    return await (await conn.execute(_SCHEMAS.encode())).fetchall()
