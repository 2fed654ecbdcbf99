"""Statements on a connection for code of others, as a worker signs them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import AsyncConnection

from walagent.domain.run import Claim
from walagent.message import Json
from walagent.store.sessions.connections import connect
from walagent.store.sessions.tool_connections import ToolConnection, ensure_login, read_login
from walagent.store.trampolines import make_trampoline


@asynccontextmanager
async def tool_connection(
    conn: AsyncConnection, dsn: str, *roles: str
) -> AsyncIterator[ToolConnection]:
    """A connection of the tools' login; *roles* get their trampolines, by default the login's."""
    assert not await ensure_login(conn)
    for role in roles or (conn.info.user,):
        await make_trampoline(conn, role)
    login = await read_login(conn)
    async with await connect(login.dsn(dsn)) as tools:
        yield ToolConnection(tools, login)


async def refund(
    tools: ToolConnection, held: Claim, seq: int = 0, sql: str = "", **changes: Json
) -> None:
    """Call a tool that pays 7."""
    request: dict[str, Json] = {
        "run": held.run_id,
        "lease": held.lease,
        "seq": seq,
        "call": "c1",
        "name": "refund_user",
        "run_as": "postgres",
        "sql": sql
        or "insert into refund values (1, ($1 ->> 'amount')::numeric)"
        " returning to_jsonb('paid'::text)",
        "arguments": {"amount": 7},
        "given": {"amount": 7},
        "path": "public",
    }
    async with tools.transaction() as transaction:
        await transaction.call("call_tool", {**request, **changes})
