"""Who administers principals, roles and tokens, and when what they were given ends."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import message_of, refused, role, rows, run_all, session, value
from tests.helpers.people import acting, application, person, token_of

WHO = "select agent.current_tenant(), agent.current_principal()"


async def test_an_admin_administers_its_tenant_and_nobody_else_does(
    conn: AsyncConnection, dsn: str
) -> None:
    """It creates people, roles and tokens; those of another tenant do not exist for it."""
    boss = await person(conn, "boss", "admin", tenant="acme")
    clerk = await person(conn, "clerk", "developer", "approver", tenant="acme")
    await person(conn, "other", tenant="zeta")
    async with application(conn, dsn) as app:
        async with acting(app, boss):
            await value(app, "select agent.create_principal('new')")
            await value(app, "select agent.grant_role('new', 'viewer')::text")
            token = await value(app, "select token from agent.create_token('new')")
            await value(app, "select agent.act_as(%s)::text", token)
            assert await rows(app, WHO) == [("acme", "new")]
            assert await value(app, "select agent.has_role('viewer')") is True
        for act in (
            "select agent.create_principal('x')",
            "select agent.grant_role('clerk', 'admin')",
            "select agent.revoke_role('boss', 'admin')",
            "select agent.disable_principal('boss')",
            "select agent.create_token('boss')",
        ):
            async with acting(app, clerk):
                await refused(app, act, state="42501")
        for act in (
            "select agent.create_principal('x', tenant => 'zeta')",
            "select agent.grant_role('other', 'admin', tenant => 'zeta')",
            "select agent.create_token('other', tenant => 'zeta')",
            "select agent.create_tenant('mine')",
            "select agent.disable_tenant('zeta')",
        ):
            async with acting(app, boss):
                await refused(app, act, state="42501")
        async with acting(app, boss):
            await refused(app, "select agent.grant_role('other', 'viewer')", state="WA020")


async def test_a_role_that_has_expired_is_none(conn: AsyncConnection, dsn: str) -> None:
    """Its next statement is refused; a new grant replaces the end."""
    token = await person(conn, "temp", tenant="acme")
    await conn.execute(
        "insert into agent.role_grant (tenant, principal, role, granted_by, expires_at)"
        " values ('acme', 'temp', 'admin', 'x', clock_timestamp() + interval '50 ms')"
    )
    await conn.execute("select pg_sleep(0.1)")
    async with application(conn, dsn) as app, acting(app, token):
        assert await value(app, "select agent.has_role('admin')") is False
        await refused(app, "select agent.create_principal('x')", state="42501")
    await conn.execute("select agent.grant_role('temp', 'admin', null, 'acme')")
    async with application(conn, dsn) as app, acting(app, token):
        assert await value(app, "select agent.has_role('admin')") is True


async def test_nobody_gives_more_than_it_has(conn: AsyncConnection, dsn: str) -> None:
    """No scope that its token lacks, and nothing beyond the end of its own right."""
    await person(conn, "boss", "admin", tenant="acme")
    narrow = await token_of(conn, "boss", "admin", "read", tenant="acme")
    lasting = await person(conn, "guest", tenant="acme")
    await conn.execute("select agent.grant_role('guest', 'admin', now() + interval '1 h', 'acme')")
    async with application(conn, dsn) as app:
        async with acting(app, narrow):
            await refused(app, "select agent.create_token('boss')", state="42501")
        async with acting(app, narrow):
            act = "select agent.create_token('boss', '', '{approve}')"
            assert "admin, read" in message_of(await refused(app, act, state="42501"))
        async with acting(app, narrow):
            await value(app, "select token from agent.create_token('boss', '', '{read}')")
        for act in (
            "select agent.grant_role('guest', 'admin')",
            "select agent.grant_role('boss', 'viewer', now() + interval '2 h')",
            "select agent.create_token('guest')",
        ):
            async with acting(app, lasting):
                await refused(app, act, state="42501")
        async with acting(app, lasting):
            await value(
                app, "select agent.grant_role('boss', 'viewer', now() + interval '1 min')::text"
            )


async def test_the_last_admin_stays(conn: AsyncConnection, dsn: str) -> None:
    """It cannot revoke its role, let it expire, or disable itself; a second one changes that."""
    boss = await person(conn, "boss", "admin", tenant="acme")
    async with application(conn, dsn) as app:
        for act in (
            "select agent.revoke_role('boss', 'admin')",
            "select agent.grant_role('boss', 'admin', now() + interval '1 day')",
            "select agent.disable_principal('boss')",
        ):
            async with acting(app, boss):
                await refused(app, act, state="WA020")
        async with acting(app, boss):
            await value(app, "select agent.create_principal('second')")
            await value(app, "select agent.grant_role('second', 'admin')::text")
            await value(app, "select agent.revoke_role('boss', 'admin')::text")
            await refused(app, "select agent.create_principal('third')", state="42501")
    await conn.execute("select agent.revoke_role('boss', 'admin', 'acme')")  # the operator may


async def test_a_token_ends_with_the_transaction_in_which_it_does(
    conn: AsyncConnection, dsn: str
) -> None:
    """Revoked, expired, its principal disabled, its tenant disabled: the next act_as is refused."""
    ends = {
        "update agent.token set revoked_at = now() where principal = 'p1'": "p1",
        "update agent.token set expires_at = now() where principal = 'p2'": "p2",
        "select agent.disable_principal('p3', 'acme')": "p3",
        "select agent.disable_tenant('acme')": "p4",
    }
    tokens = {name: await person(conn, name, tenant="acme") for name in ends.values()}
    async with application(conn, dsn) as app:
        for end, name in ends.items():
            async with acting(app, tokens[name]):
                await run_all(conn, end)
                assert await rows(app, WHO) == [("acme", name)]
            await refused(app, "select agent.act_as(%s)", tokens[name], state="WA018")
            assert await rows(app, WHO) == [(None, None)]
    await conn.execute("select agent.enable_tenant('acme')")
    await conn.execute("select agent.enable_principal('p3', 'acme')")
    async with application(conn, dsn) as app, acting(app, tokens["p3"]):
        assert await rows(app, WHO) == [("acme", "p3")]


async def test_a_login_creates_tokens_for_itself_that_only_read(
    conn: AsyncConnection, dsn: str
) -> None:
    """For half a day, and not for others; who acts by a token cannot make it last longer."""
    async with role(conn) as ann, role(conn) as bob:
        for name in (ann, bob):
            await run_all(conn, f"select agent.grant_member('{name}')")
        create = "select token from agent.create_token(%s, 'own', %s, now() + %s::interval)"
        async with session(dsn, user=ann) as own:
            token = await value(own, create, ann, ["read"], "12 h")
            for wrong in (
                (bob, ["read"], "1 h"), (ann, [], "1 h"), (ann, ["post"], "1 h"),
                (ann, ["read", "post"], "1 h"), (ann, ["read"], "13 h"), (ann, ["read"], None),
            ):  # fmt: skip
                await refused(own, create, *wrong, state="42501")
            async with acting(own, token) as acted:
                assert await value(acted, "select agent.current_principal()") == ann
                await refused(acted, create, ann, ["read"], "1 h", state="42501")
            await run_all(conn, f"update agent.principal set active = false where name = '{ann}'")
            await refused(own, create, ann, ["read"], "1 h")


async def test_a_principal_revokes_its_own_token_and_only_that(
    conn: AsyncConnection, dsn: str
) -> None:
    """That of another does not exist for it."""
    mine = await person(conn, "me", tenant="acme")
    await person(conn, "other", tenant="acme")
    ids = dict(
        await rows(conn, "select principal::text, id from agent.token where tenant = 'acme'")
    )
    async with application(conn, dsn) as app:
        async with acting(app, mine):
            error = await refused(app, "select agent.revoke_token(%s)", ids["other"])
            assert error.sqlstate in ("WA020", "42501")
        async with app.transaction():
            await app.execute("select agent.act_as(%s)", [mine])
            await app.execute("select agent.revoke_token(%s)", [ids["me"]])
        await refused(app, "select agent.act_as(%s)", mine, state="WA018")


@pytest.mark.slow
async def test_scopes_limit_what_roles_allow(conn: AsyncConnection, dsn: str) -> None:
    """An admin's token for approvals is an approver's, and nothing else."""
    await person(conn, "boss", "admin", tenant="acme")
    asked = (
        "select array(select r from unnest('{admin,developer,approver,viewer}'::text[]) r"
        " where agent.has_role(r))"
    )
    expected = {
        (): ["admin", "developer", "approver", "viewer"],
        ("approve",): ["approver"],
        ("read", "develop"): ["developer", "viewer"],
        ("admin",): ["admin"],
        ("post",): [],
    }
    async with application(conn, dsn, "developer") as app:
        for scopes, roles in expected.items():
            token = await token_of(conn, "boss", *scopes, tenant="acme")
            async with acting(app, token):
                assert await value(app, asked) == roles
            async with acting(app, token):
                if scopes in ((), ("post",)):
                    await value(app, "select agent.open_thread('t')")
                elif scopes != ("approve",):
                    await refused(app, "select agent.open_thread('t')", state="42501")
            async with acting(app, token):
                if "admin" not in roles:
                    await refused(app, "select agent.create_principal('x')", state="42501")


async def test_a_viewer_over_a_login_of_developers_changes_no_definition(
    conn: AsyncConnection, dsn: str
) -> None:
    """What the login may do, its principals may not all do."""
    await run_all(
        conn, "insert into agent.model (name, provider, model_id) values ('m', 'fake', 'm')"
    )
    viewer = await person(conn, "looks", "viewer")
    maker = await person(conn, "makes", "developer")
    narrow = await token_of(conn, "makes", "read")
    insert = "insert into agent.agent (name, model) values ('a', 'm')"
    async with application(conn, dsn, "developer") as app:
        for token in (viewer, narrow):
            for act in (
                insert,
                "delete from agent.attachment",
                "update agent.agent set name = 'b'",
            ):
                async with acting(app, token):
                    await refused(app, act, state="42501")
        async with acting(app, maker):
            await app.execute(insert)


async def test_only_the_operator_ties_a_login(conn: AsyncConnection, dsn: str) -> None:
    """And to no login that sees all tenants, that does not exist, or that is taken."""
    boss = await person(conn, "boss", "admin", tenant="acme")
    async with role(conn) as name, application(conn, dsn) as app:
        async with acting(app, boss):
            await refused(
                app, f"select agent.create_principal('x', 'user', '{name}')", state="42501"
            )
        await refused(conn, "select agent.create_principal('x', 'user', 'no_such')", state="WA020")
        await refused(
            conn, "select agent.create_principal('x', 'user', current_user)", state="WA020"
        )
        await value(conn, f"select agent.create_principal('x', 'user', '{name}', tenant => 'acme')")
        await refused(conn, f"select agent.create_principal('y', 'user', '{name}')", state="WA020")
        await run_all(conn, f"select agent.grant_member('{name}')")
        async with session(dsn, user=name) as own:
            assert await rows(own, WHO) == [("acme", "x")]
            await conn.execute("select agent.disable_principal('x', 'acme')")
            assert await rows(own, WHO) == [(None, None)]


async def test_the_runner_administers_nothing(conn: AsyncConnection, dsn: str) -> None:
    """It sees all tenants, and is not their operator."""
    async with role(conn) as name:
        await run_all(conn, f"select agent.grant_runner('{name}')")
        async with session(dsn, user=name) as runner:
            for act in (
                "select agent.create_principal('x')",
                "select agent.create_tenant('x')",
                "select agent.grant_role('x', 'admin')",
            ):
                await refused(runner, act, state="42501")


async def test_errors_name_what_is_wrong(conn: AsyncConnection) -> None:
    """Each with its SQLSTATE; nothing is changed."""
    await person(conn, "amelie", tenant="acme")
    for act, word in {
        "select agent.create_tenant('a b')": "a b",
        "select agent.create_tenant('default')": "already exists",
        "select agent.disable_tenant('default')": "cannot be disabled",
        "select agent.disable_tenant('acm')": "acme",
        "select agent.create_principal('amelie', tenant => 'acme')": "already exists",
        "select agent.create_principal('x', 'robot')": "agent and service",
        "select agent.create_principal('x', tenant => 'nowhere')": "nowhere",
        "select agent.create_principal('x', email => 'notmail')": 'address "notmail"',
        "select agent.create_principal('x', email => 'a@b.test, c@d.test')": "address",
        "select agent.grant_role('amelie', 'agent', tenant => 'acme')": '"amelie" is a person',
        "select agent.grant_role('amelia', 'viewer', tenant => 'acme')": "amelie",
        "select agent.grant_role('amelie', 'king', tenant => 'acme')": "king",
        "select agent.grant_role('amelie', 'viewer', now() - interval '1 s', 'acme')": "future",
        "select agent.revoke_role('amelie', 'viewer', 'acme')": "does not have",
        "select agent.create_token('amelie', '', '{all}', null, 'acme')": "approve",
        "select agent.revoke_token(gen_random_uuid())": "does not exist",
    }.items():
        assert word in message_of(await refused(conn, act, state="WA020")), act


async def test_what_is_administered_is_in_the_audit(conn: AsyncConnection, dsn: str) -> None:
    """With the principal that did it, and no token."""
    boss = await person(conn, "boss", "admin", tenant="acme")
    async with application(conn, dsn) as app, app.transaction():
        await app.execute("select agent.act_as(%s)", [boss])
        await app.execute("select agent.create_principal('new')")
        await app.execute("select agent.grant_role('new', 'viewer')")
        await app.execute("select agent.create_token('new')")
    found = await rows(
        conn,
        "select action from agent.audit where tenant = 'acme' and principal = 'boss'"
        " order by number",
    )
    assert [row[0] for row in found] == ["principal.created", "role_grant.created", "token.created"]
    assert await value(conn, "select count(*) from agent.audit a where a::text ~ 'wla_'") == 0
