"""The schemas of other systems, as views and functions over ours: install and remove them."""

from importlib.resources import files
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.errors import InsufficientPrivilege

from walagent.errors import ConfigError, PreconditionError
from walagent.postgres.quoting import quote_name
from walagent.store.install.owners import check_schema_owners

Connection = AsyncConnection[Any]

_SCHEMAS = """
select n.nspname, obj_description(n.oid, 'pg_namespace'), pg_get_userbyid(n.nspowner)
  from pg_namespace n where n.nspname like 'aos\\_%' order by 1
"""
# What is in them and belongs to neither the owner of the schema nor the role of its functions.
_OTHERS = """
select i.type || ' ' || i.identity, r.rolname
  from pg_namespace n
       join pg_namespace a on a.nspname = 'agent_internal'
       join pg_depend d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid
       join pg_shdepend s on (s.classid, s.objid) = (d.classid, d.objid) and s.deptype = 'o'
       join pg_database b on b.oid = s.dbid and b.datname = current_database()
       join pg_roles r on r.oid = s.refobjid
       cross join lateral pg_identify_object(d.classid, d.objid, 0) i
 where n.nspname like 'aos\\_%' and s.refobjid <> a.nspowner and r.rolname <> 'walagent_definer'
 order by 1 limit 1
"""
_OWNER = """
select pg_get_userbyid(nspowner), current_user::text, current_setting('role')
  from pg_namespace where nspname = 'agent_internal'
"""
OURS = "walagent database pgagentos"  # the comment of each schema


async def install_pgagentos(conn: Connection) -> None:
    """Create or renew the schemas aos_*, in a transaction, as the owner of walagent's schema.

    Raises:
        ConfigError: the database has such schemas of another program.
        PreconditionError: the schemas, or what is in them, belong to somebody else, who could
            exchange what walagent executes.
    """
    async with conn.transaction():
        owner, before = await _become_owner(conn)
        await _check_schemas(conn, owner)
        # Names that are not qualified are PostgreSQL's, as in the schema of walagent.
        await conn.execute("set local search_path = pg_catalog, pg_temp")
        for name in ("pgagentos.sql", "pgagentos_administration.sql"):
            await conn.execute(files("walagent").joinpath("compat", name).read_bytes())
        await conn.execute("select agent_internal.restrict_definers()")
        await conn.execute("select set_config('role', %s, true)", [before])


async def _become_owner(conn: Connection) -> tuple[str, str]:
    """Act as the owner of walagent's schema; return it, and the role that was set before."""
    await check_schema_owners(conn)
    row = await (await conn.execute(_OWNER)).fetchone()
    if row is None:
        raise PreconditionError("the database has no walagent", hint="Run walagent init.")
    owner, current, before = row
    if owner != current:
        try:
            async with conn.transaction():
                await conn.execute(sql.SQL("set local role {}").format(sql.Identifier(owner)))
        except InsufficientPrivilege as error:
            raise PreconditionError(
                f'role "{current}" cannot act as "{owner}", which owns walagent\'s schema',
                hint=f"Run it as {owner}.",
                sqlstate=error.sqlstate,
            ) from error
    return owner, before


async def _check_schemas(conn: Connection, owner: str) -> None:
    found = await _schemas(conn)
    if others := sorted(name for name, about, _ in found if about != OURS):
        raise ConfigError(
            f"the database has schemas of another program: {', '.join(others)}",
            hint="Drop or rename them, or install into another database.",
        )
    for name, _, its in found:
        if its != owner:
            raise PreconditionError(
                f'schema "{name}" belongs to role "{its}", expected "{owner}"',
                hint=f"As a superuser, run drop schema {quote_name(name)} cascade.",
            )
    for name, its in await (await conn.execute(_OTHERS.encode())).fetchall():
        raise PreconditionError(
            f'{name} belongs to role "{its}", expected "{owner}"',
            hint=f"As a superuser, run drop {name} cascade.",
        )


async def remove_pgagentos(conn: Connection) -> list[str]:
    """Drop the schemas that `install_pgagentos` created; return their names."""
    row = await (await conn.execute(_OWNER)).fetchone()
    owner = row[0] if row else ""
    found = [name for name, about, its in await _schemas(conn) if (about, its) == (OURS, owner)]
    for name in found:
        await conn.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))
    if found:
        await conn.execute("delete from agent_internal.privilege where object ~ '^aos_'")
    return found


async def _schemas(conn: Connection) -> list[tuple[str, str | None, str]]:
    return await (await conn.execute(_SCHEMAS.encode())).fetchall()
