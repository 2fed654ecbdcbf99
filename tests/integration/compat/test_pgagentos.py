"""The schemas aos_*: programs for pgAgentOS on walagent's tables, two tenants beside each other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import refused, role, rows, run_all, session, value
from tests.helpers.people import person
from walagent.errors import ConfigError
from walagent.store.install.compat import install_pgagentos, remove_pgagentos

SOURCE = "".join(each.read_text() for each in Path(__file__).parent.glob("test_*.py"))
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


@pytest.mark.slow
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
            ("completed",),
            ("running",),
        ]


@pytest.mark.slow
async def test_what_is_read_of_a_conversation(conn: AsyncConnection, dsn: str) -> None:
    """Turns and their steps, the log, an approval that is decided by its ID, and what counts them."""
    await install_pgagentos(conn)
    async with admin(conn, dsn) as a:
        tenant, talk = await settle(a, "corp")
        assert await value(a, "select aos_auth.current_tenant()") == tenant
        me = await value(a, "select aos_auth.current_principal()")
        (skill,) = await rows(
            a, "select skill_key, risk_level from aos_skills.skill where skill_key = 'web_search'"
        )
        assert skill == ("web_search", "medium")
        assert await value(a, "select aos_skills.can_use_skill(%s, 'web_search')", me)
        assert not await value(a, "select aos_skills.can_use_skill(%s, 'rm')", me)
        expert = await value(a, "select persona_id from aos_persona.persona")
        given = await value(a, "select aos_persona.get_effective_params(%s)", expert)
        assert isinstance(given, dict)
        turn = await value(a, "select aos_agent.send_message(%s, 'How?')", talk)
        await value(
            a, "select aos_agent.process_tool_call(%s, 'web_search', '{\"query\": \"x\"}')", turn
        )
        await value(
            a, "select aos_agent.record_tool_result(%s, 'web_search', '{\"result\": 1}')", turn
        )
        await value(a, "select aos_agent.finish_turn(%s, 'So.')", turn)
        shown = "select turn_id, turn_number, user_message, assistant_message, status from"
        assert await rows(a, f"{shown} aos_agent.turn where conversation_id = %s", talk) == [
            (turn, 1, "How?", "So.", "completed")
        ]
        steps = await rows(
            a, "select step_type from aos_agent.step where turn_id = %s order by step_number", turn
        )
        kinds = {step for (step,) in steps}
        assert {"tool_call", "tool_result", "respond"} <= kinds
        await value(a, "select aos_core.log_event('seen')")
        assert (
            await value(a, "select count(*) from aos_core.event_log where event_type = 'aos.seen'")
            == 1
        )
        events = (
            "select event_type, actor from aos_core.event_log where run_id = %s order by event_id"
        )
        assert await rows(a, events, turn) == [("run_started", "bot"), ("run_completed", "bot")]
        ids = "select count(*) = count(distinct event_id) from aos_core.event_log"
        assert await value(a, ids)
        (stats,) = await value(a, "select aos_agent.get_agent_analytics(7)")
        assert (stats["agent"], stats["runs"]) == ("bot", 1)
        assert await value(a, "select aos_agent.get_hourly_activity()")


@pytest.mark.slow
async def test_a_call_is_approved_by_its_id(conn: AsyncConnection, dsn: str) -> None:
    """By another principal than the agent, which then may execute it; a rejection says why."""
    await install_pgagentos(conn)
    async with admin(conn, dsn) as a, admin(conn, dsn) as boss:
        _, talk = await settle(a, "corp")
        token = await person(conn, "boss", "approver", tenant="corp")
        await run_all(conn, "update agent.tool set risk = 'critical' where name = 'web_search'")
        await run_all(
            conn,
            """update agent.tenant set settings = '{"approve_from": "high"}' where name = 'corp'""",
        )
        call = "select aos_agent.process_tool_call(%s, 'web_search', '{\"query\": \"x\"}')"
        for approved, status in ((True, "ready"), (False, "denied")):
            turn = await value(a, "select aos_agent.send_message(%s, 'How?')", talk)
            assert (await value(a, call, turn))["status"] == "awaiting_approval"
            step = await value(a, "select approval from aos_agent.pending_approvals")
            decide = "select aos_agent.approve_step(%s, %s, 'so')"
            await refused(a, decide, step, approved)
            async with boss.transaction():
                await boss.execute("select agent.act_as(%s)", [token])
                await value(boss, decide, step, approved)
            assert (await value(a, call, turn))["status"] == status
            if approved:
                done = "select aos_agent.record_tool_result(%s, 'web_search', '{\"result\": 1}')"
                await value(a, done, turn)
            await value(a, "select aos_agent.finish_turn(%s, 'So.')", turn)


async def test_a_team(conn: AsyncConnection, dsn: str) -> None:
    """Discusses, proposes, votes and has tasks; what waits for the agent is listed."""
    await install_pgagentos(conn)
    async with admin(conn, dsn) as a:
        await settle(a, "corp")
        team = await value(a, "select aos_multi_agent.create_team('crew', '{bot}', 'All.')")
        assert await value(a, "select team_id from aos_multi_agent.team") == team
        assert await value(a, "select aos_multi_agent.name_of(%s)", team) == "crew"
        talk = await value(a, "select aos_multi_agent.start_discussion(%s, 'Colors')", team)
        await value(a, "select aos_multi_agent.send_agent_message(%s, 'Blue?')", talk)
        bot = await value(a, "select agent_id from aos_agent.agent")
        waiting = await value(a, "select aos_multi_agent.get_pending_messages_for_agent(%s)", bot)
        assert [each["text"] for each in waiting] == ["Blue?"]
        said = "select content from aos_multi_agent.agent_message where message_type = 'comment'"
        assert await rows(a, said) == [("Blue?",)]
        paint = "select aos_multi_agent.create_proposal(%s, 'Paint', 'Blue.')"
        proposal = await value(a, paint, team)
        await value(a, "select aos_multi_agent.cast_vote(%s, 'yes', 'nice')", proposal)
        assert await rows(a, "select vote, reason from aos_multi_agent.vote") == [("yes", "nice")]
        task = await value(a, "select aos_collab.create_task(%s, 'Buy paint')", team)
        assert await rows(a, "select task_id, status from aos_collab.task") == [(task, "open")]
        await value(a, "select aos_collab.add_comment(%s, 'Soon.')", talk)
        await refused(a, "select aos_multi_agent.name_of(%s)", task, state="WA026")


async def test_each_object_works_and_is_tested(conn: AsyncConnection, dsn: str) -> None:
    """Each view can be read by an admin; each function is called in this file."""
    await install_pgagentos(conn)
    views = await rows(
        conn, "select schemaname || '.' || viewname from pg_views where schemaname like 'aos\\_%'"
    )
    assert len(views) > 25
    async with admin(conn, dsn) as a:
        await settle(a, "corp")
        for (view,) in views:
            await rows(a, f"select * from {view}")
    functions = await rows(
        conn,
        "select distinct pronamespace::regnamespace || '.' || proname from pg_proc"
        " where pronamespace::regnamespace::text like 'aos\\_%' and prorettype <> 'trigger'::regtype"
        " and not proretset",
    )
    here = SOURCE
    helpers = {
        "aos_meta.id_of",
        "aos_auth.enter",
        "aos_skills.is_granted",
        "aos_agent.answer_of",
        "aos_agent.inserted_agent",
        "aos_auth.enter_as_admin",
        "aos_auth.name_of",
        "aos_agent.conversation_of",
        "aos_agent.check_config",
    }
    assert {name for (name,) in functions if f"{name}(" not in here} == helpers


@pytest.mark.slow
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
    assert len(await remove_pgagentos(conn)) == 8
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


GUIDE = """
insert into aos_auth.tenant (name, display_name) values ('tech_corp', 'Tech Corp Inc.');
insert into aos_auth.principal (tenant_id, principal_type, display_name)
select tenant_id, 'user', 'Admin User' from aos_auth.tenant where name = 'tech_corp';
select model_name, context_window from aos_meta.llm_model_registry where is_active = true;
insert into aos_persona.persona (tenant_id, name, system_prompt, model_id)
select tenant_id, 'pg_expert', 'You are a PostgreSQL Database Administrator.',
       (select model_id from aos_meta.llm_model_registry where model_name = 'gpt-4o')
  from aos_auth.tenant where name = 'tech_corp';
insert into aos_agent.agent (tenant_id, name, persona_id)
select tenant_id, 'my_pg_bot', (select persona_id from aos_persona.persona where name = 'pg_expert')
  from aos_auth.tenant where name = 'tech_corp';
insert into aos_agent.conversation (agent_id, tenant_id)
select (select agent_id from aos_agent.agent where name = 'my_pg_bot'), tenant_id
  from aos_auth.tenant where name = 'tech_corp'
"""
LATER = "update agent.run set lease_expires_at = now() - interval '1 s' where state = 'running'"
LOOP = (
    ("select aos_agent.run_turn(%s) ->> 'system_prompt'", "You are a PostgreSQL Database Administrator."),
    ("select aos_agent.process_tool_call(%s, 'web_search', '{\"query\": \"join\"}') ->> 'status'", "ready"),
    ("select aos_agent.record_tool_result(%s, 'web_search', '{\"result\": \"...\"}') ->> 'status'", "running"),
    ("select aos_agent.finish_turn(%s, 'You should use an INNER JOIN...') ->> 'status'", "succeeded"),
)  # fmt: skip


@asynccontextmanager
async def as_superuser(conn: AsyncConnection, dsn: str) -> AsyncIterator[AsyncConnection]:
    """Who installed walagent, and nothing more."""
    async with session(dsn) as opened:
        yield opened
    del conn


@pytest.mark.few(1)
@pytest.mark.parametrize("login", ["admin", "superuser"])
@pytest.mark.parametrize("sessions", ["one", "many"])
async def test_the_guide(conn: AsyncConnection, dsn: str, login: str, sessions: str) -> None:
    """By the superuser or an admin, in one session or with a new one for each step."""
    await install_pgagentos(conn)
    apart = sessions == "many"
    async with (admin if login == "admin" else as_superuser)(conn, dsn) as a:

        @asynccontextmanager
        async def step() -> AsyncIterator[AsyncConnection]:
            if not apart:
                yield a
                return
            async with session(dsn, user=a.info.user) as opened:
                yield opened

        for statement in GUIDE.split(";"):
            async with step() as opened:
                await opened.execute(statement.encode())
        async with step() as opened:
            talk = await value(opened, "select conversation_id from aos_agent.conversation")
        async with step() as opened:
            said = "select aos_agent.add_user_message(%s, 'How do I optimize a join?')"
            await value(opened, said, talk)
        async with step() as opened:
            turn = await value(opened, "select aos_agent.start_turn(%s)", talk)
            if apart:  # the session that started it holds it
                await run_all(conn, LATER)
        for statement, answer in LOOP:
            async with step() as opened:
                assert await value(opened, statement, turn) == answer, statement
            if apart:
                await run_all(conn, LATER)


async def test_a_login_without_grants_reads_and_calls_nothing(
    conn: AsyncConnection, dsn: str
) -> None:
    """So an analyst gets no right to write; a member that comes later has them."""
    await install_pgagentos(conn)
    async with role(conn) as login, session(dsn, user=login) as nobody:
        for call in ("aos_core.log_event('approval.approved')", "aos_auth.current_tenant()"):
            await refused(nobody, f"select {call}", state="42501")
        await refused(nobody, "select * from aos_agent.agent", state="42501")
    granted = """
    select count(*) from pg_class c, aclexplode(c.relacl) a
     where a.grantee = 0 and c.relnamespace::regnamespace::text ~ '^aos_'
    """
    assert await value(conn, granted) == 0
    async with role(conn) as later:
        await run_all(conn, f"select agent.grant_member('{later}')")
        async with session(dsn, user=later) as member:
            assert await rows(member, "select * from aos_agent.conversation") == []


CALLED = """
insert into aos_agent.agent (tenant_id, name, persona_id, tools, config)
select tenant_id, 'careful', (select persona_id from aos_persona.persona), '{drop_it,web_search}', %s
  from aos_auth.tenant where name = 'corp' returning 1
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("config", "statuses"),
    [
        ("{}", ["awaiting_approval", "ready"]),
        ('{"auto_approve_tools": true}', ["awaiting_approval", "ready"]),
        ('{"auto_approve_tools": false}', ["awaiting_approval", "awaiting_approval"]),
    ],
)
async def test_calls_wait_for_a_person(
    conn: AsyncConnection, dsn: str, config: str, statuses: list[str]
) -> None:
    """All where the agent says so, those of a high risk always; and unknown keys are refused."""
    await install_pgagentos(conn)
    await run_all(
        conn,
        "create function drop_it() returns text language sql as $$ select 'gone' $$;"
        "insert into agent.tool (name, kind, target, risk) values ('drop_it', 'sql', 'drop_it', 'high')",
    )
    async with admin(conn, dsn) as a:
        await settle(a, "corp")
        await refused(a, CALLED, '{"nonsense": 3}', state="22023")
        await value(a, CALLED, config)
        talk = await value(
            a,
            "insert into aos_agent.conversation (agent_id) select agent_id from aos_agent.agent"
            " where name = 'careful' returning conversation_id",
        )
        found = []
        for call in ("'drop_it', '{}'", "'web_search', '{\"query\": \"x\"}'"):
            turn = await value(a, "select aos_agent.send_message(%s, 'Do it.')", talk)
            made = await value(a, f"select aos_agent.process_tool_call(%s, {call})", turn)
            found.append(made["status"])
            await value(conn, "select agent.cancel(%s)", turn)
        assert found == statuses


@pytest.mark.slow
async def test_a_sql_tool_of_an_agent_is_carried_out(conn: AsyncConnection, dsn: str) -> None:
    """As the login that inserted the agent, without a word of the operator."""
    await install_pgagentos(conn)
    await run_all(
        conn,
        "create function greet() returns text language sql as $$ select 'hello' $$;"
        "insert into agent.tool (name, kind, target, risk) values ('greet', 'sql', 'greet', 'low')",
    )
    async with admin(conn, dsn) as a:
        await settle(a, "corp")
        await value(a, CALLED.replace("{drop_it,web_search}", "{greet}"), "{}")
        talk = await value(
            a,
            "insert into aos_agent.conversation (agent_id) select agent_id from aos_agent.agent"
            " where name = 'careful' returning conversation_id",
        )
        turn = await value(a, "select aos_agent.send_message(%s, 'Greet.')", talk)
        made = await value(a, "select aos_agent.process_tool_call(%s, 'greet', '{}')", turn)
        assert (made["status"], made["result"]) == ("done", "hello")
