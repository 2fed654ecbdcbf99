"""A canary gives nobody a right: it is made with those of who begins it, and of its attachment."""

from psycopg import AsyncConnection

from tests.helpers.database import (
    DESK,
    attach,
    message_of,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)

SECOND = "insert into agent.model (name, provider, model_id) values ('second', 'scripted', 'x');"
FORGED = """
update agent.attachment
   set canary = '{"changes": {"max_steps": 3}, "min_runs": 1}', canary_share = 0.5,
       canary_definition = definition || '{"run_as": "postgres", "version": 9, "tools": []}'
 where name = 'own'
"""
OWN = (
    "create table own (id int primary key);"
    "select agent.attach('own'::regclass, model => 'fake', name => 'own')"
)


async def test_only_developers_begin_and_end_canaries(conn: AsyncConnection, dsn: str) -> None:
    """Not who looks, decides or asks; and of its own attachments alone."""
    await run_all(conn, DESK + SECOND)
    await attach(conn, "name=desk")
    begin = "select agent.canary('desk', 'model=second')"
    others = (
        "select agent.canary('desk', share => 0.9)",
        "select agent.promote_canary('desk')",
        "select agent.roll_back_canary('desk')",
        "update agent.attachment set canary = null, canary_share = null where name = 'desk'",
    )
    for calls in ((begin,), others):
        for capability in ("viewer", "approver", "asker", "member", "developer"):
            async with role(conn) as login:
                await run_all(conn, f"select agent.grant_{capability}('{login}')")
                async with session(dsn, user=login) as own:
                    for call in calls:
                        await refused(own, call, state="42501")
        if calls == (begin,):
            await value(conn, begin)
    assert await rows(conn, "select state, share from agent.canary") == [("running", 0.1)]


async def test_a_definition_of_a_canary_is_made_by_walagent_alone(
    conn: AsyncConnection, dsn: str
) -> None:
    """What the statement says instead is overwritten; the record is nobody's to write."""
    await run_all(conn, DESK + SECOND)
    async with role(conn) as login:
        await run_all(
            conn,
            f"select agent.grant_developer('{login}'); grant create on schema public to {login}",
        )
        async with session(dsn, user=login) as own:
            await run_all(own, OWN)
            await run_all(own, FORGED)
            ((definition,),) = await rows(
                conn, "select definition from agent.attachment_version where version = 2"
            )
            assert (definition["run_as"], definition["version"]) == (login, 2)
            assert definition["max_steps"] == 3
            forged = "update agent.attachment set canary_definition = '{}' where name = 'own'"
            await run_all(own, forged)
            assert await value(
                conn, "select canary_definition ->> 'run_as' from agent.attachment"
            ) == str(login)
            for statement in (
                "update agent.canary set state = 'promoted'",
                "insert into agent.canary default values",
                "delete from agent.canary",
                "update agent.attachment_version set share = 1",
                "select agent_internal.check_canary(1)",
                "select agent_internal.follow_canary(null, null)",
            ):
                await refused(own, statement, state="42501")
        await run_all(conn, "delete from agent.attachment; delete from agent.agent")


async def test_a_canary_uses_no_agent_and_no_role_of_others(
    conn: AsyncConnection, dsn: str
) -> None:
    """As attaching does not."""
    await run_all(conn, DESK + SECOND)
    await attach(conn, "name=desk, tools=[refund_user]")
    async with role(conn) as login:
        await run_all(
            conn,
            f"select agent.grant_developer('{login}'); grant create on schema public to {login};"
            "revoke execute on function refund_user from public",
        )
        async with session(dsn, user=login) as own:
            await run_all(own, OWN)
            error = await refused(own, "select agent.canary('own', 'agent=desk')", state="42501")
            assert '"desk"' in message_of(error)
            await refused(own, "select agent.canary('own', 'run_as=postgres')", state="WA010")
            await refused(own, "select agent.canary('own', 'tools=[refund_user]')")
            await refused(own, "select agent.canary('own', 'tools=[query], query_as=postgres')")
        await run_all(conn, "delete from agent.attachment; delete from agent.agent")


async def test_a_canary_of_another_tenant_is_not_seen(conn: AsyncConnection, dsn: str) -> None:
    """Neither its record nor its figures; its attachment does not exist."""
    await run_all(conn, DESK + SECOND)
    await attach(conn, "name=desk")
    await value(conn, "select agent.canary('desk', 'model=second')")
    await run_all(
        conn,
        "select agent.create_tenant('acme');"
        "select agent.create_principal('ann', 'user', tenant => 'acme');"
        "select agent.grant_role('ann', 'developer', tenant => 'acme'),"
        "       agent.grant_role('ann', 'viewer', tenant => 'acme')",
    )
    secret = await value(conn, "select token from agent.create_token('ann', tenant => 'acme')")
    async with role(conn) as login:
        for capability in ("developer", "viewer", "member"):
            await run_all(conn, f"select agent.grant_{capability}('{login}')")
        async with session(dsn, user=login) as own, own.transaction(force_rollback=True):
            await value(own, "select agent.act_as(%s)", secret)
            assert await rows(own, "select * from agent.canary") == []
            assert await rows(own, "select * from agent.canary_figures") == []
            error = await refused(own, "select agent.promote_canary('desk')", state="WA013")
            assert "does not exist" in message_of(error)
            assert "desk" not in (error.diag.message_hint or "")


async def test_a_rule_is_never_executed(conn: AsyncConnection) -> None:
    """Whatever it says, it is a rule or refused."""
    await run_all(conn, DESK + SECOND)
    await attach(conn, "name=desk")
    for rule in (
        "failures > (select 1)",
        "failures > pg_sleep(1)",
        "failures > 1 and cost > 1",
        "failures > 1 or",
        "or",
        "failures > 1e9",
        "failures > -1",
        "failures > 1) or (true",
        "failures\x0b> $$1$$",
        "1 > failures",
        "failures > 1 * 2 * baseline",
        "x" * 2000,
    ):
        statement = "select agent.canary('desk', 'model=second', rollback_if => %s)"
        await refused(conn, statement, rule, state="WA010")
