"""Fixtures of several integration tests."""

from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.calls import tool_connection
from tests.helpers.database import run_all
from tests.helpers.guard import STAGE
from walagent.guard.role import check_role
from walagent.store.sessions.connections import connect
from walagent.store.sessions.tool_connections import ToolConnection


@pytest.fixture
async def reader(conn: AsyncConnection, dsn: str) -> AsyncIterator[AsyncConnection]:
    """A connection of a role that may read the shop, and nothing else."""
    await run_all(conn, (STAGE / "fixture.sql").read_text())
    name = f"reader_{conn.info.dbname}"
    await run_all(
        conn,
        f"""
        create role {name} login;
        grant usage on schema public, shadow to {name};
        revoke create on schema public from public;
        grant select on all tables in schema public to {name};
        grant select on sequence trace to {name};
        """,
    )
    async with await connect(make_conninfo(dsn, user=name)) as connection:
        await check_role(connection)
        yield connection
    await run_all(conn, f"drop owned by {name}; drop role {name}")


@pytest.fixture
async def tools(conn: AsyncConnection, dsn: str) -> AsyncIterator[ToolConnection]:
    """A connection of the login for code of others; the superuser has a trampoline."""
    async with tool_connection(conn, dsn) as connection:
        yield connection
