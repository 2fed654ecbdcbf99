"""Who made a tenant through aos_auth administers it; the names of the original exist."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import refused, role, rows, run_all, session, value
from tests.integration.compat.test_pgagentos import admin, settle
from walagent.store.install.compat import install_pgagentos


@pytest.mark.slow
async def test_who_made_a_tenant_administers_it(conn: AsyncConnection, dsn: str) -> None:
    """Without the operator: principals, roles, tokens, and a second person by a token."""
    await install_pgagentos(conn)
    async with admin(conn, dsn) as a, role(conn) as second:
        await run_all(
            conn, f"select agent.grant_member('{second}'), agent.grant_viewer('{second}')"
        )
        await run_all(conn, f"select agent.grant_approver('{second}')")
        tenant, talk = await settle(a, "corp")
        ann = await value(
            a, "select principal_id from aos_auth.principal where display_name = 'Ann of corp'"
        )
        grant = "insert into aos_auth.role_grant (principal_id, role_key) values (%s, %s)"
        await a.execute(grant, [ann, "approver"])
        await a.execute(grant, [ann, "viewer"])
        await a.execute(
            "update aos_auth.role_grant set is_active = false where role_key = 'viewer'"
        )
        token = await value(a, "select aos_auth.create_token(%s, 'mine')", ann)
        await run_all(conn, "update agent.tool set risk = 'critical' where name = 'web_search'")
        settings = """set settings = '{"approve_from": "high"}' where name = 'corp'"""
        await refused(a, f"update aos_auth.tenant {settings}", state="42501")
        await run_all(conn, f"update agent.tenant {settings}")
        turn = await value(a, "select aos_agent.send_message(%s, 'How?')", talk)
        call = "select aos_agent.process_tool_call(%s, 'web_search', '{\"query\": \"x\"}')"
        assert (await value(a, call, turn))["status"] == "awaiting_approval"
        async with session(dsn, user=second) as b:
            await refused(b, "select aos_auth.join_tenant('wla_wrong')")
            assert await value(b, "select aos_auth.join_tenant(%s)", token) == tenant
        async with session(dsn, user=second) as b:  # in a later session, too
            roles = await rows(
                b, "select role_key from aos_auth.role_grant where principal_id = %s", ann
            )
            assert roles == [("approver",)]
            await refused(b, "select aos_auth.create_token(%s)", ann, state="42501")
            assert await value(b, "select aos_agent.bulk_approve_tools(%s)", turn) == 1
        assert (await value(a, call, turn))["status"] == "ready"
        await a.execute(
            "update aos_auth.principal set is_active = false where principal_id = %s", [ann]
        )
        async with session(dsn, user=second) as b:
            assert await value(b, "select aos_agent.get_turn_state(%s)", turn) is None


async def test_views_change_what_they_show(conn: AsyncConnection, dsn: str) -> None:
    """Persona, agent, tenant and conversation; a skill is the operator's, and a hint says so."""
    await install_pgagentos(conn)
    async with admin(conn, dsn) as a:
        _, talk = await settle(a, "corp")
        await a.execute("update aos_auth.tenant set display_name = 'Corp'")
        await a.execute("update aos_persona.persona set system_prompt = 'Be brief.'")
        await a.execute(
            'update aos_agent.agent set config = config || \'{"max_iterations": 3,'
            " \"auto_approve_tools\": false}', tools = '{recall}'"
        )
        await refused(a, "update aos_agent.agent set config = '{\"odd\": 1}'", state="22023")
        await a.execute("update aos_agent.conversation set status = 'paused'")
        assert await value(a, "select status from aos_agent.conversation") == "paused"
        await a.execute("update aos_agent.conversation set status = 'active'")
        shown = await rows(
            conn,
            "select t.display_name, p.system_prompt, g.max_steps, g.approve_from, g.tools"
            " from agent.agent g join agent.persona p using (tenant) join agent.tenant t on t.name = g.tenant",
        )
        assert shown == [("Corp", "Be brief.", 3, "low", ["recall"])]
        await refused(a, "insert into aos_skills.skill (skill_key) values ('x')", state="42501")
        await refused(a, "update aos_auth.principal set db_role_name = 'x'", state="42501")
        del talk


async def test_the_names_of_the_original(conn: AsyncConnection, dsn: str) -> None:
    """Those of its README and specification, beside the ones of the guide."""
    await install_pgagentos(conn)
    async with admin(conn, dsn) as a:
        await settle(a, "corp")
        persona = await value(a, "select persona_id from aos_persona.persona")
        config = await value(a, "select aos_persona.get_persona_config(%s)", persona)
        assert config["system_prompt"] == "You serve corp."
        assert config["model"]["model_name"] == "gpt-4o"
        agent = await value(a, "select aos_agent.create_agent('second', %s, '{recall}')", persona)
        talk = await value(a, "select aos_agent.start_conversation(%s, 'Talk')", agent)
        await value(a, "select aos_agent.inject_message(%s, 'It rains.')", talk)
        turn = await value(a, "select aos_agent.send_message(%s, 'How?')", talk)
        await value(a, "select aos_agent.record_thinking(%s, 'Hm.')", turn)
        think = "select aos_agent.record_step(%s, 'think', '{\"text\": \"Well.\"}')"
        await value(a, think, turn)
        await refused(a, "select aos_agent.record_step(%s, 'dance', '{}')", turn, state="22023")
        await value(a, "select aos_agent.add_observation(%s, 'Slow.')", talk)
        await value(a, "select aos_agent.complete_turn(%s, 'So.')", turn)
        await value(a, "select aos_agent.override_response(%s, 'Rather so.')", turn)
        state = await value(a, "select aos_agent.get_turn_state(%s)", turn)
        assert (state["status"], state["pending"]) == ("completed", [])
        summary = await value(a, "select aos_core.get_run_summary(%s)", turn)
        assert (summary["status"], summary["total_steps"] > 0) == ("completed", True)
        impl = await value(a, "select aos_skills.get_skill_impl('web_search')")
        assert impl["impl_type"] == "builtin"
        assert await value(a, "select aos_core.cleanup_old_runs()") == 0
        await refused(a, 'select aos_core.cleanup_old_runs("delete" => true)', state="0A000")
        assert await value(a, "select aos_core.prune_expired_memory()") == 0
        await value(a, "select aos_core.store_memory(%s, 'color', '\"blue\"')", agent)
        assert await rows(a, "select key, value from aos_agent.memory") == [("color", "blue")]
