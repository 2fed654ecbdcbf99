"""What the roles of an installation cannot give themselves."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, as_role, attach, refused, role, run_all, value

MIGHTY = [
    "pg_catalog.query_to_xml",
    "pg_catalog.set_config",
    "pg_catalog.pg_read_file(text)",
    "pg_catalog.lo_import(text)",
    "pg_catalog.lo_unlink",
    "pg_catalog.pg_terminate_backend",
    "pg_catalog.pg_advisory_lock(bigint)",
    "pg_catalog.pg_notify",
    "pg_catalog.setseed",
]


@pytest.mark.parametrize("name", MIGHTY)
async def test_no_volatile_function_of_postgresql_is_a_tool(
    conn: AsyncConnection, name: str
) -> None:
    """Also not by a row of agent.tool: they read files, execute text or change the session."""
    await run_all(conn, DESK)
    await conn.execute(
        "insert into agent.tool (name, kind, target) values ('mighty', 'sql', %s)", [name]
    )
    tool = name.partition("(")[0] if "(" not in name else "mighty"
    for tried in {tool, "mighty"}:
        text = "select agent.attach('support_tickets', %s)"
        error = await refused(conn, text, f"model=fake, tools=[{tried}]", state="WA011")
        assert "volatile" in str(error)


async def test_a_function_of_postgresql_is_a_tool_only_if_the_owner_says_so(
    conn: AsyncConnection,
) -> None:
    """A developer names none; and the runner cannot register any."""
    await run_all(conn, DESK)
    text = "select agent.attach('support_tickets', 'model=fake, tools=[pg_catalog.quote_ident]')"
    error = await refused(conn, text, state="WA011")
    assert "unnamed" in str(error) or "belongs to PostgreSQL" in str(error)
    async with role(conn) as runner:
        await value(conn, "select agent.grant_runner(%s)", runner)
        async with as_role(conn, runner):
            for statement in (
                "insert into agent.tool (name, kind, target) values ('x', 'sql', 'f')",
                "update agent.tool set target = 'query' where name = 'update_row'",
            ):
                await refused(conn, statement, state="42501")


async def test_the_runner_decides_nothing(conn: AsyncConnection) -> None:
    """It asks for approvals and lets them expire; an approver decides."""
    await run_all(conn, DESK)
    await attach(conn, "tools=[refund_user]")
    await run_all(
        conn,
        """
        insert into agent.run (queue_id, attachment_id, attachment_version, commit_lsn, ordinal,
                               change, state)
        select id, id, 1, '0/1', 0, '{}', 'waiting_approval' from agent.attachment;
        insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at)
        select id, 'c', 'refund_user', '{}', '', 'nobody', now() + interval '1 hour' from agent.run;
        """,
    )
    async with role(conn) as runner:
        await value(conn, "select agent.grant_runner(%s)", runner)
        async with as_role(conn, runner):
            for statement in (
                "select agent.approve(1)",
                "select agent.reject(1)",
                "update agent.approval set state = 'approved'",
            ):
                await refused(conn, statement, state="42501")
        await value(conn, "select agent.grant_approver(%s)", runner)
        await value(conn, "select agent.grant_runner(%s)", runner)
        async with as_role(conn, runner):
            await value(conn, "select agent.approve(id) from agent.approval")
    assert await value(conn, "select state from agent.approval") == "approved"
