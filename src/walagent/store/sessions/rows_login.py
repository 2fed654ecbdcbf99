"""The login that reads the rows of open tables, and can do nothing else.

Reading a table executes code of its owner (indexes, policies, types), which becomes the login of
the session.  So it is a login that has nothing but SELECT on these tables: as for tools, its name
has the OID of the database, and its password is derived from `agent_internal.secret`.
"""

from dataclasses import replace
from typing import Any

from psycopg import AsyncConnection, Error, sql
from psycopg.conninfo import conninfo_to_dict

from walagent.errors import LoginRefusedError, PreconditionError
from walagent.store.queries import query
from walagent.store.sessions.connections import connect
from walagent.store.sessions.own_roles import check_own_role
from walagent.store.sessions.tool_connections import ToolsLogin, log_in, read_login

Connection = AsyncConnection[Any]


async def derived_dsn(worker: Connection, dsn: str) -> str:
    """Return the connection string of the login of this database, which is created if need be.

    Args:
        worker: of the process's own login, which *dsn* names.

    Returns:
        "" if the worker cannot sign: its password is not known.

    Raises:
        PreconditionError: it cannot be created, or somebody else can act as it.
    """
    row = await (await worker.execute(query("can_sign"))).fetchone()
    if row is None or not row[0]:
        return ""
    login = await _read_login(worker)
    found = login.dsn(dsn)
    try:
        await (await connect(found, application="walagent rows")).close()
    except LoginRefusedError as error:
        await log_in(worker, login, lambda: found, error)
    await check_own_role(worker, login.name, logs_in=True)
    return found


async def check_rows_login(dsn: str) -> None:
    """Check that a login can read, and nothing else that code of others could misuse.

    Raises:
        PreconditionError: it can do more.
    """
    async with await connect(dsn, application="walagent rows") as conn:
        row = await (await conn.execute(query("more_than_reading"))).fetchone()
        if row is not None and row[0]:
            raise PreconditionError(
                f'login "{conn.info.user}" would read tables of others, and has more: {row[0]}',
                hint="Set DATABASE_ROWS_URL to a login that has SELECT on the open tables and"
                " nothing else: create role walagent_rows login;",
            )


async def _read_login(worker: Connection) -> ToolsLogin:
    tools = await read_login(worker)
    name = tools.name.replace("walagent_tools_", "walagent_rows_")
    found = await worker.execute("select from pg_catalog.pg_roles where rolname = %s", [name])
    return replace(
        tools,
        name=name,
        exists=found.rowcount == 1,
        use="rows of open tables are read",
        variable="DATABASE_ROWS_URL",
    )


async def let_read(worker: Connection, dsn: str, schema: str, table: str) -> None:
    """Let the login of *dsn* read a table, where this login may."""
    name = conninfo_to_dict(dsn).get("user") or worker.info.user
    asked = {"schema": schema, "table": table, "role": name}
    row = await (await worker.execute(query("let_read"), asked)).fetchone()
    if row is None:
        return
    try:
        async with worker.transaction():
            await worker.execute("select agent_internal.lock_grants()")
            # Nothing of the application waits behind a statement that waits for its DDL.
            await worker.execute("set local lock_timeout = '200ms'")
            if now := await (await worker.execute(query("let_read"), asked)).fetchone():
                await worker.execute(sql.SQL(now[0]))  # pyright: ignore[reportArgumentType] - quoted
    except Error as error:
        if error.sqlstate != "42501":
            raise
        raise PreconditionError(
            f'login "{name}" cannot read {schema}.{table}', hint=f"{row[0]};", sqlstate="42501"
        ) from error
