"""A login of no principal is not the principal or the agent that has its name, and no more."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import message_of, refused, role, rows, run_all, session, value
from tests.helpers.people import acting, application, person
from walagent.doctor.roles import check_isolation
from walagent.store.install.server_facts import unconfined_roles

WHO: Final = "select agent.current_tenant(), agent.current_principal(), agent.has_role('developer')"
ADDS: Final = {
    "principal": "select agent.create_principal('{name}')",
    "service": "select agent.create_principal('{name}', 'service')",
    "agent principal": "select agent.create_principal('{name}', 'agent')",
    "row": "insert into agent.principal (tenant, name) values ('default', '{name}')",
    "agent": "insert into agent.agent (name, model) values ('{name}', 'fake')",
}
MODEL: Final = (
    "insert into agent.model (name, provider, model_id, base_url)"
    " values ('fake', 'scripted', 'fake', '/none') on conflict do nothing"
)


@pytest.fixture
async def ready(conn: AsyncConnection) -> AsyncIterator[AsyncConnection]:
    """A database with a model, without principals at the end."""
    await run_all(conn, MODEL)
    yield conn
    await run_all(
        conn, "delete from agent.thread; delete from agent.agent; delete from agent.principal"
    )


@pytest.mark.parametrize("what", sorted(ADDS))
async def test_what_is_called_as_a_login_is_refused(ready: AsyncConnection, what: str) -> None:
    """Its owner would act as the login, and the login as it."""
    async with role(ready) as login:
        error = await refused(ready, ADDS[what].format(name=login), state="WA020")
        assert "acts under its own name" in message_of(error)


@pytest.mark.parametrize("what", sorted(ADDS))
async def test_a_login_that_is_made_later_is_nobody(
    ready: AsyncConnection, dsn: str, what: str
) -> None:
    """Who may create roles chooses a name; it gives no principal."""
    name = f"later_{ready.info.dbname}"[:60]
    await run_all(ready, ADDS[what].format(name=name))
    try:
        await run_all(ready, f"create role {name} login; select agent.grant_developer('{name}')")
        async with session(dsn, user=name) as own:
            assert await rows(own, WHO) == [(None, None, False)]
        assert [(r.used_by, r.role) for r in await unconfined_roles(ready)] == [("nobody", name)]
        # The operator ties them, and nobody else does.
        if what != "agent":
            await run_all(ready, f"update agent.principal set login = name where name = '{name}'")
        else:
            await run_all(ready, f"select agent.create_principal('{name}', 'agent', '{name}')")
        await run_all(ready, f"select agent.grant_role('{name}', 'developer')")
        async with session(dsn, user=name) as own:
            assert await rows(own, WHO) == [("default", name, True)]
        # And may untie them.
        await run_all(ready, f"delete from agent.principal where name = '{name}'")
        await run_all(ready, "delete from agent.agent")
        async with session(dsn, user=name) as own:
            assert await rows(own, WHO) == [("default", name, True)]
    finally:
        await run_all(ready, f"drop owned by {name}; drop role {name}")


async def test_a_role_that_gets_the_name_of_a_login_later_is_nobody(
    ready: AsyncConnection, dsn: str
) -> None:
    """The login of a principal was dropped, and who may create roles makes another one."""
    name = f"again_{ready.info.dbname}"[:60]
    made = f"create role {name} login; select agent.grant_developer('{name}')"
    await run_all(
        ready,
        f"{made}; select agent.create_principal('ann', login => '{name}');"
        "select agent.grant_role('ann', 'developer');"
        f"drop owned by {name}; drop role {name}; {made}",
    )
    try:
        async with session(dsn, user=name) as own:
            assert await rows(own, WHO) == [(None, None, False)]
        # Nor after any other change of the principal.
        await run_all(ready, "update agent.principal set display_name = 'Ann', active = true")
        async with session(dsn, user=name) as own:
            assert await rows(own, WHO) == [(None, None, False)]
        (found,) = await unconfined_roles(ready)
        assert (found.used_by, found.role) == ("later", name)
        (finding,) = check_isolation([found])
        await run_all(ready, finding.fix)
        async with session(dsn, user=name) as own:
            assert await rows(own, WHO) == [("default", "ann", True)]
        assert await unconfined_roles(ready) == []
    finally:
        await run_all(
            ready,
            f"update agent.principal set login = null; drop owned by {name}; drop role {name}",
        )


async def test_another_server_has_other_roles_and_adopting_ties_them(
    ready: AsyncConnection, dsn: str
) -> None:
    """After a restore there, all logins of principals are nobody until the operator adopts."""
    async with role(ready) as login:
        await run_all(
            ready,
            f"select agent.grant_member('{login}');"
            f"select agent.create_principal('ann', login => '{login}');"
            "select agent_internal.check_database();"
            "update agent_internal.login set role = 1 where taken_by = 'login';"
            "update agent_internal.database set system_id = '1'",
        )
        who = "select agent.current_principal()"
        async with session(dsn, user=login) as own:
            assert await value(own, who) is None
        await run_all(ready, "select agent_internal.adopt_database(true)")
        async with session(dsn, user=login) as own:
            assert await value(own, who) == "ann"
        await run_all(ready, "update agent.principal set login = null")


async def test_a_superuser_of_a_taken_name_gets_its_link(ready: AsyncConnection, dsn: str) -> None:
    """It administers as before, and its link ties the name to it."""
    name = f"super_{ready.info.dbname}"[:60]
    await run_all(ready, ADDS["principal"].format(name=name))
    try:
        await run_all(ready, f"create role {name} login superuser")
        async with session(dsn, user=name) as own:
            assert await value(own, "select agent.current_principal()") is None
            made = await rows(own, "select * from agent_internal.make_link('1 minute')")
            assert made[0][1] == f"default/{name}"
            assert await value(own, "select agent.current_principal()") == name
    finally:
        await run_all(ready, f"drop role {name}")


async def test_a_login_that_takes_part_in_a_thread_stays_itself(
    ready: AsyncConnection, dsn: str
) -> None:
    """Its principal is made on first use, and is that of the login."""
    async with role(ready) as login:
        await run_all(
            ready, f"select agent.grant_developer('{login}'); select agent.grant_member('{login}')"
        )
        async with session(dsn, user=login) as own:
            await value(own, "select agent.open_thread('x')::text")
            assert await rows(own, WHO) == [("default", login, True)]


@pytest.mark.parametrize("name", ["(walagent)", "walagent"])
async def test_nobody_is_called_as_walagent_acts(ready: AsyncConnection, name: str) -> None:
    """Calls that no agent makes, and their policies, act under a name that nothing else has."""
    ann = await person(ready, "ann", "admin")
    async with application(ready, ready.info.dsn) as app, acting(app, ann):
        if name == "walagent":
            await value(app, "select agent.create_principal(%s)::text", name)
        else:
            await refused(app, "select agent.create_principal(%s)", name, state="WA020")
    if name != "walagent":
        insert = "insert into agent.agent (name, model) values (%s, 'fake')"
        await refused(ready, insert, name, state="23514")
    async with ready.transaction():
        await ready.execute("select agent_internal.assume_agent('default', null)")
        assert await value(ready, "select agent.current_principal()") == "(walagent)"
