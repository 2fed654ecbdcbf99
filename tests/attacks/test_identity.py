"""Who acts cannot be chosen by code of others: neither by a setting nor by names of its own."""

from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import (
    DESK,
    attach,
    column,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel

# Tools that read walagent's tables: as they are called, and after they have changed who they are.
TOOLS = """
insert into agent.tenant (name) values ('umbra');
create table kept (identity text);
create function who() returns text language sql as
    $$ select format('%s/%s/%s', coalesce(agent.current_tenant(), 'nobody'),
                     coalesce(agent.current_principal(), 'nobody'),
                     (select count(*) from agent.run)) $$;
create function keep() returns text language sql as
    $$ insert into kept select current_setting('walagent.identity') returning 'kept' $$;
create function replay() returns text language sql as
    $$ select set_config('walagent.identity', (select identity from kept limit 1), true) <> '';
       select who() $$;
create function forge() returns text language sql as
    $$ select set_config('walagent.identity', repeat('0', 64) || '["umbra", "eve"]', true) <> '';
       select who() $$;
create function forget() returns text language sql as
    $$ select set_config('walagent.identity', '', true) is not null; select who() $$;
create function assume() returns text language sql as
    $$ select agent_internal.assume('umbra', 'admin'); select who() $$;
"""


async def test_a_tool_is_the_agent_of_its_run_or_nobody(conn: AsyncConnection, dsn: str) -> None:
    """What it writes into the setting is not signed for its transaction."""
    await run_all(conn, DESK + TOOLS)
    names = ["who", "keep", "replay", "forge", "forget", "assume"]
    async with role(conn, "nologin") as app, daemon(
        conn, dsn, {"fake": ScriptedModel([*map(call, names), "done"])}
    ) as d:  # fmt: skip
        await run_all(
            conn,
            f"grant all on support_tickets, kept to {app}; select agent.grant_viewer('{app}');"
            f"insert into agent.run (tenant, kind, reason, queue_id, change)"
            f" values ('umbra', 'other', 'manual', 0, '{{}}')",
        )
        await attach(conn, f"tools=[{', '.join(names)}], run_as={app}, max_steps=20")
        await run_all(conn, "insert into support_tickets (issue) values ('x')")
        await d.until(
            "select exists (select from agent.run where attachment_id is not null"
            " and state = 'succeeded')"
        )
        said = dict(
            await rows(
                conn,
                "select content ->> 'name', content ->> 'content' from agent.step"
                " where kind = 'result'",
            )
        )
    me = "default/support_tickets/0"  # without the role viewer, it sees no run
    assert said["who"] == me
    assert said["keep"] == "kept"
    for name in ("replay", "forge", "forget"):
        assert said[name] == "nobody/nobody/0", name
    assert "permission denied" in str(said["assume"])


async def test_names_of_a_caller_do_not_open_the_policies(conn: AsyncConnection, dsn: str) -> None:
    """Functions and operators of its own come first in its search_path, and are not called."""
    await run_all(
        conn,
        DESK
        + "insert into agent.tenant (name) values ('acme'), ('umbra');"
        + "insert into agent.agent (tenant, name, model) values ('umbra', 'spy', 'fake');"
        + "insert into agent.glossary (tenant, owner, term, meaning)"
        " values ('acme', 'eve', 'a', 'b')",
    )
    async with role(conn) as login:
        await run_all(
            conn,
            f"insert into agent.principal (tenant, name, login) values ('acme', 'eve', '{login}');"
            f"select agent.grant_viewer('{login}'), agent.grant_asker('{login}');"
            f"create schema evil authorization {login}",
        )
        async with session(dsn, user=login) as eve:
            await run_all(
                eve,
                """
                create function evil.has_table_privilege(name, regclass, text) returns boolean
                    language sql as 'select true';
                create function evil.has_table_privilege(name, oid, text) returns boolean
                    language sql as 'select true';
                create function evil.current_setting(text, boolean) returns text
                    language sql as $$ select '' $$;
                create function evil.always(text, text) returns boolean
                    language sql as 'select true';
                create operator evil.= (leftarg = text, rightarg = text, procedure = evil.always);
                create function evil.alike(name, name) returns boolean
                    language sql as 'select true';
                create operator evil.= (leftarg = name, rightarg = name, procedure = evil.alike);
                set search_path = evil, pg_catalog;
                """,
            )
            assert await value(eve, "select count(*) from agent.agent") == 0
            assert await value(eve, "select count(*) from agent.glossary") == 1
            assert await value(eve, "select array_agg(name::text) from agent.tenant") == ["acme"]
            await refused(
                eve, "insert into agent.glossary (tenant, term, meaning) values ('umbra', 'x', 'y')"
            )
        await run_all(conn, "delete from agent.principal where tenant = 'acme'")


async def test_the_login_for_tools_has_no_role(conn: AsyncConnection, dsn: str) -> None:
    """Without the signature of a run it is nobody, and nobody has a role."""
    asked = "select agent.has_role(r) from unnest('{admin,approver,viewer}'::text[]) r"
    tools = await value(conn, "select agent_internal.tools_login()")
    await run_all(conn, f"create role {tools} login; select agent.grant_approver('{tools}')")
    async with session(dsn, user=str(tools)) as login:
        assert await value(login, "select agent.current_principal()") is None
        assert await column(login, asked) == [False, False, False]
    await run_all(conn, f"drop owned by {tools}")
    async with role(conn) as other:
        await run_all(conn, f"select agent.grant_approver('{other}')")
        async with session(dsn, user=other) as login:
            assert await column(login, asked) == [True, True, True]  # its privileges decide


async def test_the_login_of_a_principal_never_sees_all_tenants(
    conn: AsyncConnection, dsn: str
) -> None:
    """Also if it was granted what the runner has after it became a principal."""
    await run_all(
        conn,
        "insert into agent.tenant (name) values ('acme'), ('umbra');"
        "insert into agent.run (tenant, kind, reason, queue_id, change, state, lease,"
        " lease_expires_at) values ('umbra', 'other', 'manual', 0, '{}', 'running', 7,"
        " now() + interval '1 hour')",
    )
    run = await value(conn, "select id from agent.run")
    async with role(conn, "nologin") as group, role(conn) as login:
        await run_all(
            conn,
            f"select agent.create_principal('eve', login => '{login}', tenant => 'acme');"
            f"select agent.grant_role('eve', 'viewer', tenant => 'acme');"
            f"select agent.grant_runner('{group}'); grant {group} to {login};"
            f"select agent.grant_runner('{login}')",
        )
        async with session(dsn, user=login) as eve:
            for name in ("none", group):
                await eve.execute("select set_config('role', %s, false)", [name])
                assert await value(eve, "select count(*) from agent.run") == 0
                assert await value(eve, "select array_agg(name) from agent.tenant") == ["acme"]
                assert (await eve.execute("update agent.run set result = 'x'")).rowcount == 0
                await refused(eve, "select agent_internal.record_step(%s, 7, 0, 'note', '{}')", run)
                await refused(
                    eve, "select agent_internal.finish_run(%s, 7, 'failed', '', null, 0, 0)", run
                )
            await eve.execute("reset role")
        assert await value(conn, "select state::text from agent.run") == "running"
        await run_all(conn, "delete from agent.principal where name = 'eve'")
