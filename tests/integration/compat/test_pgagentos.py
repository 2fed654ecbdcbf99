"""The schemas aos_*: programs for pgAgentOS on walagent's tables, two tenants beside each other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import refused, role, rows, run_all, session, value
from walagent.errors import ConfigError
from walagent.store.compat import install_pgagentos, remove_pgagentos

OBJECTS = """
select (select count(*) from pg_namespace where nspname like 'aos%'),
       (select count(*) from pg_class), (select count(*) from pg_proc), (select count(*) from agent_internal.privilege)
"""


@asynccontextmanager
async def admin(conn: AsyncConnection, dsn: str) -> AsyncIterator[AsyncConnection]:
    """A login whose principal is an admin of the tenant `default`."""
    async with role(conn) as login:
        await run_all(
            conn,
            f"""
            select agent.create_principal('{login}', login => '{login}');
            select agent.grant_role('{login}', 'admin');
            select agent.grant_developer('{login}'), agent.grant_member('{login}'), agent.grant_viewer('{login}'),
                   agent.grant_approver('{login}');
            """,
        )
        async with session(dsn, user=login) as opened:
            yield opened
        await run_all(conn, f"update agent.principal set login = null where login = '{login}'")


async def settle(conn: AsyncConnection, name: str) -> tuple[str, str]:
    """Create tenant, persona, agent and conversation; return tenant and conversation."""
    tenant = await value(
        conn,
        "insert into aos_auth.tenant (name, display_name) values (%s, 'T') returning tenant_id",
        name,
    )
    await rows(
        conn,
        "insert into aos_auth.principal (tenant_id, principal_type, display_name)"
        " values (%s, 'user', 'Ann of ' || %s) returning principal_id",
        tenant, name,
    )  # fmt: skip
    await rows(
        conn,
        "insert into aos_persona.persona (tenant_id, name, system_prompt, model_id) values (%s, 'expert', %s,"
        " (select model_id from aos_meta.llm_model_registry where model_name = 'gpt-4o')) returning persona_id",
        tenant, f"You serve {name}.",
    )  # fmt: skip
    await rows(
        conn,
        "insert into aos_agent.agent (tenant_id, name, persona_id)"
        " values (%s, 'bot', (select persona_id from aos_persona.persona where name = 'expert')) returning agent_id",
        tenant,
    )
    conversation = await value(
        conn,
        "insert into aos_agent.conversation (agent_id, tenant_id)"
        " values ((select agent_id from aos_agent.agent where name = 'bot'), %s) returning conversation_id",
        tenant,
    )
    return tenant, conversation


async def test_a_conversation_from_tenant_to_answer(conn: AsyncConnection, dsn: str) -> None:
    """All six functions of the loop; history has the answer once, and the second finish is refused."""
    await install_pgagentos(conn)
    async with admin(conn, dsn) as a:
        _, talk = await settle(a, "corp")
        assert await value(a, "select aos_auth.is_admin()")
        await value(a, "select aos_agent.add_user_message(%s, 'How do I join?')", talk)
        turn = await value(a, "select aos_agent.start_turn(%s)", talk)
        state = await value(a, "select aos_agent.run_turn(%s)", turn)
        assert state["system_prompt"] == "You serve corp."
        assert state["messages"] == [{"role": "user", "content": "How do I join?"}]
        made = await value(
            a, "select aos_agent.process_tool_call(%s, 'web_search', '{\"query\": \"join\"}')", turn
        )
        assert made["status"] == "ready"
        result = "select aos_agent.record_tool_result(%s, 'web_search', '{\"result\": \"x\"}')"
        await value(a, result, turn)
        await refused(a, result, turn, state="WA027")
        denied = await value(a, "select aos_agent.process_tool_call(%s, 'rm', '{}')", turn)
        assert denied["status"] == "denied"
        await value(a, "select aos_agent.finish_turn(%s, 'Use JOIN.')", turn)
        await refused(a, "select aos_agent.finish_turn(%s, 'Again.')", turn, state="WA027")
        await value(a, "select aos_agent.rate_turn(%s, 5)", turn)
        await refused(a, "select aos_agent.rate_turn(%s, 9)", turn)
        await value(a, "select aos_agent.flag_issue(%s, 'warning', 'odd')", turn)
        history = await value(a, "select aos_agent.get_conversation_history(%s)", talk)
        assert [e["data"]["text"] for e in history] == ["How do I join?", "Use JOIN."]
        bot = await value(a, "select agent_id from aos_agent.agent")
        await value(a, "select aos_core.store_memory(%s, 'tea', '\"green tea\"')", bot)
        (found,) = await value(a, "select aos_core.recall_memory(%s, 'tea')", bot)
        assert found["value"] == "green tea"
        await value(a, "select aos_core.log_event('deployed', '{\"by\": 1}')")
        await value(a, "select aos_agent.pause_conversation(%s)", talk)
        await value(a, "select aos_agent.resume_conversation(%s)", talk)
        second = await value(a, "select aos_agent.send_message(%s, 'And?')", talk)
        roles = [
            m["role"] for m in (await value(a, "select aos_agent.run_turn(%s)", second))["messages"]
        ]
        assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]
        assert await rows(a, "select status from aos_core.run order by run_id") == [
            ("succeeded",),
            ("running",),
        ]


async def test_a_tenant_sees_nothing_of_another(conn: AsyncConnection, dsn: str) -> None:
    """Nor can its admin choose it, start a turn in it, or insert into it."""
    await install_pgagentos(conn)
    async with admin(conn, dsn) as a, admin(conn, dsn) as b:
        tenant, talk = await settle(a, "alpha")
        own, _ = await settle(b, "beta")
        await value(a, "select aos_agent.add_user_message(%s, 'secret of alpha')", talk)
        turn = await value(a, "select aos_agent.start_turn(%s)", talk)
        await refused(b, "select aos_auth.set_tenant(%s)", tenant, state="42501")
        await run_all(b, f"set aos.tenant_id = '{tenant}'")
        for view in ("aos_persona.persona", "aos_agent.agent", "aos_agent.conversation", "aos_auth.principal",
                     "aos_core.run"):  # fmt: skip
            await refused(b, f"select * from {view}", state="42501")
        await value(b, "select aos_auth.set_tenant(%s)", own)
        for view in ("aos_persona.persona", "aos_agent.agent", "aos_agent.conversation", "aos_core.run",
                     "aos_auth.tenant"):  # fmt: skip
            assert "alpha" not in str(await rows(b, f"select to_jsonb(v) from {view} v"))
        await refused(b, "select aos_agent.add_user_message(%s, 'x')", talk, state="WA019")
        await refused(b, "select aos_agent.run_turn(%s)", turn, state="WA027")
        persona = "insert into aos_persona.persona (tenant_id, name) values (%s, 'x') returning 1"
        await refused(b, persona, tenant, state="42501")
        history = "select aos_agent.get_conversation_history(%s)"
        assert await value(b, history, talk) == []
        assert await value(a, "select count(*) from aos_agent.conversation") == 1


async def test_who_is_no_admin_creates_no_tenant(conn: AsyncConnection, dsn: str) -> None:
    """Nor does one whose identity comes from a setting."""
    await install_pgagentos(conn)
    async with role(conn) as login:
        await run_all(conn, f"select agent.grant_member('{login}'), agent.grant_viewer('{login}')")
        async with session(dsn, user=login) as other:
            insert = "insert into aos_auth.tenant (name) values ('x') returning 1"
            await refused(other, insert, state="42501")
            await refused(other, "select * from aos_auth.membership", state="42501")


async def test_installing_twice_and_removing(conn: AsyncConnection, dsn: str) -> None:
    """Twice changes nothing; removing leaves no trace."""
    before = await rows(conn, OBJECTS)
    await install_pgagentos(conn)
    async with admin(conn, dsn) as a:
        await settle(a, "corp")
        there = await rows(conn, OBJECTS)
        await install_pgagentos(conn)
        assert await rows(conn, OBJECTS) == there
        assert await value(a, "select count(*) from aos_agent.agent") == 1
    assert len(await remove_pgagentos(conn)) == 6
    assert await rows(conn, OBJECTS) == before
    assert await remove_pgagentos(conn) == []


async def test_schemas_of_another_program_are_kept(conn: AsyncConnection) -> None:
    """They are named, and nothing is installed."""
    await run_all(conn, "create schema aos_core")
    with pytest.raises(ConfigError, match="aos_core"):
        await install_pgagentos(conn)
    assert await remove_pgagentos(conn) == []
    assert await value(conn, "select count(*) from pg_namespace where nspname like 'aos%'") == 1


@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "gpt-4o-mini", "o1", "o3-mini", "claude-3-5-sonnet-20241022", "claude-3-5-haiku-20241022",
     "gemini-2.0-flash", "llama3.3:70b", "qwen2.5:32b", "deepseek-r1:32b"],
)  # fmt: skip
async def test_presets_exist(conn: AsyncConnection, model: str) -> None:
    """Under the names that programs use."""
    assert await value(conn, "select count(*) from agent.model where name = %s and enabled", model)
