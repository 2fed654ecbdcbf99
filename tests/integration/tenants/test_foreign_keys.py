"""A key into another tenant is one that does not exist."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import refused, run_all, value
from tests.helpers.people import acting, application, person

THEIRS = """
insert into agent.model (tenant, name, provider, model_id)
values ('umbra', 'dark', 'scripted', 'x');
insert into agent.persona (tenant, name, model) values ('umbra', 'ghost', 'dark');
insert into agent.agent (tenant, name, model) values ('umbra', 'spy', 'dark');
insert into agent.channel (tenant, name, kind, target)
values ('umbra', 'mail', 'email', 'a@b.test');
"""
TABLES = (
    "agent", "agent_version", "notification", "principal", "role_grant", "token", "thread",
    "outbox", "attachment", "audit",
)  # fmt: skip
ALL = "select string_agg(x::text, e'\\n' order by x::text) from ({}) as x (x)".format(
    " union all ".join(f"select to_jsonb(t) from agent.{table} t" for table in TABLES)
)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("insert into agent.agent (name, persona) values ('mine', 'ghost')", "WA021"),
        ("insert into agent.agent (tenant, name, model) values ('umbra', 'x', 'dark')", "WA014"),
        ("insert into agent.principal (name, tenant) values ('x', 'umbra')", "42501"),
        ("select agent.grant_role('eve', 'viewer')", "WA020"),
        ("select agent.grant_role('eve', 'viewer', tenant => 'umbra')", "42501"),
        ("select agent.create_token('eve')", "WA020"),
        ("select agent.create_token('eve', tenant => 'umbra')", "42501"),
        ("select agent.open_thread('Talk', '{eve}')", "WA019"),
        ("select agent.attach_to_threads('spy')", "WA013"),
        ("select agent.rollback('spy', 1)", "WA021"),
    ],
)
async def test_an_admin_reaches_no_key_of_another_tenant(
    conn: AsyncConnection, dsn: str, statement: str, state: str
) -> None:
    """It gets the SQLSTATE of a key that does not exist; nothing is changed, in either tenant."""
    boss = await person(conn, "boss", "admin", tenant="acme")
    await person(conn, "eve", tenant="umbra")
    await run_all(conn, THEIRS)
    async with application(conn, dsn, "developer") as app:
        before = await value(conn, ALL)
        async with acting(app, boss):
            error = await refused(app, statement, state=state)
        assert "a@b.test" not in str(error)
        assert await value(conn, ALL) == before


async def test_not_even_the_operator_ties_two_tenants(conn: AsyncConnection) -> None:
    """Keys contain the tenant: no privilege is needed to hold that."""
    await person(conn, "eve", tenant="umbra")
    await run_all(conn, THEIRS)
    for statement in (
        "insert into agent.notification (event, channel) values ('gap', 'mail')",
        "insert into agent.agent (name, persona) values ('mine', 'ghost')",
        "insert into agent.role_grant (principal, role) values ('eve', 'admin')",
        "update agent.agent set tenant = 'default' where name = 'spy'",
    ):
        before = await value(conn, ALL)
        await refused(conn, statement)
        assert await value(conn, ALL) == before
