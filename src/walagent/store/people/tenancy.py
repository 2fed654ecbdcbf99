"""Tenants, principals, role grants and tokens: create, list, change and end them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row

from walagent.errors import ConfigError
from walagent.store.queries import query

Connection = AsyncConnection[Any]
Row = dict[str, Any]
Rows = list[Row]


async def list_tenants(conn: Connection) -> Rows:
    """List tenants by name."""
    return await _rows(conn, "list_tenants")


async def check_tenant(conn: Connection, name: str | None) -> None:
    """Check that a tenant that was named exists: an empty list would hide a typing error.

    Raises:
        ConfigError: there is none, or the caller cannot see it.
    """
    if name is None:
        return
    seen = await conn.execute("select from agent.tenant where name = %s", [name])
    if not seen.rowcount:
        raise ConfigError(
            f'tenant "{name}" does not exist, or you cannot see it',
            hint="Use walagent tenants list to list them.",
        )


async def list_principals(conn: Connection, tenant: str | None = None) -> Rows:
    """List principals with the roles they have now."""
    await check_tenant(conn, tenant)
    return await _rows(conn, "list_principals", tenant=tenant)


async def list_tokens(conn: Connection, tenant: str | None = None) -> Rows:
    """List tokens, without their digests."""
    await check_tenant(conn, tenant)
    return await _rows(conn, "list_tokens", tenant=tenant)


async def create_tenant(conn: Connection, name: str, display_name: str) -> UUID:
    """Create a tenant."""
    return await _value(conn, b"select agent.create_tenant(%s, %s)", name, display_name)


async def enable_tenant(conn: Connection, name: str, *, active: bool) -> None:
    """Enable or disable a tenant."""
    function = b"enable_tenant" if active else b"disable_tenant"
    await conn.execute(b"select agent." + function + b"(%s)", [name])


async def limit_tenant(conn: Connection, name: str, limits: Mapping[str, int | None]) -> Row | None:
    """Set limits of a tenant by their columns; return all of them, or None: it does not exist."""
    sets: list[sql.Composable] = [
        sql.SQL("{} = %s").format(sql.Identifier(column)) for column in limits
    ]
    sets.append(sql.SQL("name = name"))  # without limits, they are only read
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        sql.SQL(
            "update agent.tenant set {} where name = %s returning name, max_running, max_queued"
        ).format(sql.SQL(", ").join(sets)),
        [*limits.values(), name],
    )
    return await cursor.fetchone()


async def tenant_contents(conn: Connection, name: str) -> Rows:
    """List the tables in which a tenant has rows, and how many."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        "select relation::text, rows from agent.tenant_contents(%s) order by 1", [name]
    )
    return await cursor.fetchall()


async def delete_tenant(conn: Connection, name: str, audit: str) -> int:
    """Delete a tenant; return the number of its rows."""
    return await _value(conn, b"select agent.delete_tenant(%s, %s)", name, audit)


async def export_tenant(conn: Connection, name: str, folder: Path) -> dict[str, int]:
    """Write the rows of a tenant in the schema `agent`, without the digests of tokens.

    The caller's transaction has not begun to read: all files are of one snapshot.
    """
    await conn.execute("set transaction isolation level repeatable read")
    found = await tenant_contents(conn, name)
    tables = [each["relation"] for each in found if each["relation"].startswith("agent.")]
    counts = dict[str, int]()
    for table in ["agent.tenant", *tables]:
        column = "name" if table == "agent.tenant" else "tenant"
        secret = "digest" if table == "agent.token" else ""
        text = sql.SQL("select (to_jsonb(t) - {})::text from {} t where {} = %s").format(
            secret, sql.Identifier(*table.split(".")), sql.Identifier(column)
        )
        path = folder / f"{table.removeprefix('agent.')}.jsonl"
        counts[table] = 0
        with path.open("x", encoding="utf-8") as file:
            async with conn.cursor(name="export") as cursor:
                await cursor.execute(text, [name])
                async for (line,) in cursor:
                    file.write(f"{line}\n")
                    counts[table] += 1
    return counts


async def create_principal(  # noqa: PLR0913 - what a principal has
    conn: Connection,
    name: str,
    *,
    kind: str,
    login: str | None,
    display_name: str,
    email: str | None,
    tenant: str | None,
) -> UUID:
    """Create a principal."""
    return await _value(
        conn,
        b"select agent.create_principal(%s, %s, %s, %s, %s, coalesce(%s, agent.current_tenant()))",
        name,
        kind,
        login,
        display_name,
        email,
        tenant,
    )


async def enable_principal(
    conn: Connection, name: str, *, active: bool, tenant: str | None
) -> None:
    """Enable or disable a principal."""
    function = b"enable_principal" if active else b"disable_principal"
    await conn.execute(
        b"select agent." + function + b"(%s, coalesce(%s, agent.current_tenant()))", [name, tenant]
    )


async def grant_role(
    conn: Connection, principal: str, role: str, *, expires_at: datetime | None, tenant: str | None
) -> None:
    """Grant a role, or change when it ends."""
    await conn.execute(
        b"select agent.grant_role(%s, %s, %s, coalesce(%s, agent.current_tenant()))",
        [principal, role, expires_at, tenant],
    )


async def revoke_role(conn: Connection, principal: str, role: str, *, tenant: str | None) -> None:
    """Revoke a role."""
    await conn.execute(
        b"select agent.revoke_role(%s, %s, coalesce(%s, agent.current_tenant()))",
        [principal, role, tenant],
    )


async def create_token(  # noqa: PLR0913 - what a token has
    conn: Connection,
    principal: str,
    *,
    label: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
    tenant: str | None,
) -> tuple[UUID, str]:
    """Create a token; return its ID and the token itself."""
    cursor = await conn.execute(
        b"select id, token"
        b" from agent.create_token(%s, %s, %s, %s, coalesce(%s, agent.current_tenant()))",
        [principal, label, list(scopes), expires_at, tenant],
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - a function with OUT parameters returns one row
    return row[0], row[1]


async def revoke_token(conn: Connection, token: UUID) -> None:
    """Revoke a token."""
    await conn.execute(b"select agent.revoke_token(%s)", [token])


async def _rows(conn: Connection, name: str, **parameters: object) -> Rows:
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query(name), parameters or None)
    return await cursor.fetchall()


async def _value(conn: Connection, statement: bytes, *parameters: object) -> Any:  # noqa: ANN401 - any column
    row = await (await conn.execute(statement, parameters)).fetchone()
    return row and row[0]
