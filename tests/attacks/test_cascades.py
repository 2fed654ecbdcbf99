"""Cascades: whose models are asked, what they decide, and who sees what they decided."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, refused, role, rows, run_all, session, value
from walagent.message import ModelSpec
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store.people.cascades import list_cascades

TINY = """
insert into agent.model (tenant, name, provider, model_id) values ({}, 'tiny', 'scripted', 'x');
"""
TENANTS = "select agent.create_tenant('acme'), agent.create_tenant('umbra');"


async def test_a_model_of_another_tenant_is_in_no_cascade(conn: AsyncConnection) -> None:
    """Neither by its name nor by its label; not when it is attached, nor on a plain row."""
    await run_all(conn, DESK + TENANTS)
    await run_all(conn, TINY.format("'acme'"))
    for name in ("tiny", "acme/tiny"):
        tried = f"select agent.attach('support_tickets', 'fake', cascade => '{{{name}}}')"
        error = await refused(conn, tried, state="WA014")
        assert "does not exist" in str(error)
        row = f"insert into agent.agent (name, model, cascade) values ('a', 'fake', '{{{name}}}')"
        await refused(conn, row, state="WA014")


async def test_who_may_not_change_an_agent_gives_it_no_cascade(
    conn: AsyncConnection, dsn: str
) -> None:
    """A viewer, a member and an approver cannot; a developer cannot change that of another."""
    await run_all(conn, DESK + TINY.format("null"))
    await attach(conn, "name=desk")
    change = "update agent.agent set cascade = '{tiny}'"
    async with role(conn) as login:
        for capability in ("viewer", "member", "approver"):
            await run_all(conn, f"select agent.grant_{capability}('{login}')")
        async with session(dsn, user=login) as own:
            await refused(own, change, state="42501")
        await run_all(conn, f"select agent.grant_developer('{login}')")
        async with session(dsn, user=login) as own:
            await refused(own, change, state="42501")


async def test_what_a_cascade_of_another_tenant_decided_is_not_seen(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its runs, their steps and corrections are those that the caller sees."""
    await run_all(conn, DESK + TENANTS + TINY.format("null"))
    scripts = {
        "tiny": ScriptedModel(
            [call("update_row", category="bug")], spec=ModelSpec("tiny", "scripted", "tiny")
        ),
        "fake": ScriptedModel(["done"]),
    }
    async with daemon(conn, dsn, scripts) as d:
        await attach(conn, "name=desk, writes=[category], cascade=[tiny]")
        await run_all(conn, "insert into support_tickets (id, issue) values (1, 'x')")
        await d.until("select bool_and(state = 'succeeded') from agent.run")
    (found,) = await list_cascades(conn, agent=None, since=None)
    assert (found["agent"], found["decided"]) == ("desk", 1)
    await run_all(
        conn,
        "select agent.create_principal('ann', 'user', tenant => 'acme');"
        "select agent.grant_role('ann', 'viewer', tenant => 'acme')",
    )
    secret = await value(conn, "select token from agent.create_token('ann', tenant => 'acme')")
    async with role(conn) as login:
        for capability in ("viewer", "member"):
            await run_all(conn, f"select agent.grant_{capability}('{login}')")
        async with session(dsn, user=login) as own, own.transaction(force_rollback=True):
            await value(own, "select agent.act_as(%s)", secret)
            assert await list_cascades(own, agent=None, since=None) == []


@pytest.mark.parametrize("reply", ["unsure", "refund_user"])
async def test_an_unsure_reply_cannot_be_made_to_act_by_what_a_person_decides(
    conn: AsyncConnection, dsn: str, reply: str
) -> None:
    """A call that needs approval, in a reply that is not sure, asks nobody."""
    await run_all(conn, DESK + TINY.format("null"))
    said = [call("refund_user", amount=1), call(reply, amount="much")]
    scripts = {
        "tiny": ScriptedModel([said], spec=ModelSpec("tiny", "scripted", "tiny")),
        "fake": ScriptedModel(["done"]),
    }
    async with daemon(conn, dsn, scripts) as d:
        await attach(
            conn,
            "tools=[refund_user], bind=[ticket_id=id], approve=[refund_user], cascade=[tiny]",
        )
        await run_all(conn, "insert into support_tickets (id, issue) values (1, 'x')")
        await d.until("select bool_and(state = 'succeeded') from agent.run")
    assert await rows(conn, "select * from agent.approval") == []
    assert await rows(conn, "select * from refund") == []
