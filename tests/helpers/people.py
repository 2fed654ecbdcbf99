"""People of several tenants in tests, who act with tokens over one login of an application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from psycopg import AsyncConnection

from tests.helpers.database import role, run_all, session, value


@asynccontextmanager
async def application(
    conn: AsyncConnection, dsn: str, *capabilities: str
) -> AsyncIterator[AsyncConnection]:
    """A session of an application's login: it is nobody's, and can act only with tokens."""
    async with role(conn) as name:
        for each in ("member", *capabilities):
            await run_all(conn, f"select agent.grant_{each}('{name}')")
        await run_all(conn, f"select agent.create_principal('{name}', 'service', '{name}')")
        await run_all(conn, f"select agent.disable_principal('{name}')")
        async with session(dsn, user=name) as connection:
            yield connection
        await run_all(conn, f"delete from agent.principal where name = '{name}'")


async def person(
    conn: AsyncConnection,
    name: str,
    *roles: str,
    tenant: str = "default",
    scopes: tuple[str, ...] = (),
) -> str:
    """Create a principal with roles, and its tenant; return a token of it."""
    await conn.execute(
        "insert into agent.tenant (name) values (%s) on conflict do nothing", [tenant]
    )
    await value(conn, "select agent.create_principal(%s, tenant => %s)::text", name, tenant)
    for each in roles:
        await value(conn, "select agent.grant_role(%s, %s, tenant => %s)::text", name, each, tenant)
    return await token_of(conn, name, *scopes, tenant=tenant)


async def token_of(conn: AsyncConnection, name: str, *scopes: str, tenant: str = "default") -> str:
    """Create a token of a principal."""
    statement = "select token from agent.create_token(%s, '', %s, null, %s)"
    return cast("str", await value(conn, statement, name, list(scopes), tenant))


@asynccontextmanager
async def acting(conn: AsyncConnection, token: str) -> AsyncIterator[AsyncConnection]:
    """A transaction of the principal of a token, rolled back."""
    async with conn.transaction(force_rollback=True):
        await conn.execute("select agent.act_as(%s)", [token])
        yield conn
