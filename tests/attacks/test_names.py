"""What has the name of somebody else is not that one: logins, principals and agents."""

from typing import Final

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
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
from tests.helpers.people import acting, application, person, token_of
from tests.helpers.queue import NOTHING, add_runs, claim
from tests.helpers.shapes import serving
from tests.integration.runs import test_approval_policy as policy
from tests.integration.runs.test_approval import CALL
from walagent.config import Replication
from walagent.console.sessions import exchange, make_code
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.replication.bootstrap import ensure_slot
from walagent.store import runs

MODEL: Final = (
    "insert into agent.model (name, provider, model_id, base_url, input_price, output_price)"
    " values ('fake', 'scripted', 'fake', '/none', 1, 5);"
)
PAGE: Final = {
    "name": "loot",
    "target": "public.salary",
    "model": "fake",
    "system_prompt": "x",
    "tools": [],
    "ops": ["insert"],
    "condition": "",
    "columns": ["pay"],
    "writes": [],
    "bind": {},
    "approve": [],
    "backfill": False,
}
FORBIDDEN = 403
ENDED: Final = (
    "select exists (select from agent.run where state in ('succeeded', 'failed', 'dead'))"
)
CREATE_PRINCIPAL: Final = "select agent.create_principal(%s)::text"
UNCHECKED: Final = """
alter table agent.principal disable trigger check_login_name;
insert into agent.principal (tenant, name) values ('default', '{name}');
alter table agent.principal enable trigger check_login_name;
"""
CREATE_TOKEN: Final = "select agent.create_token(%s)"


@pytest.mark.parametrize("whose", ["the daemon", "another login"])
async def test_a_principal_with_the_name_of_a_login_attaches_nothing_as_it(
    conn: AsyncConnection, dsn: str, whose: str
) -> None:
    """An admin chooses names of principals; only the operator ties them to logins."""
    ann = await person(conn, "ann", "admin")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with role(conn) as other, application(conn, dsn) as app:
        await run_all(
            conn,
            "create table public.salary (id bigint primary key, pay text);"
            f"{MODEL} select agent.grant_developer('{other}');"
            f"grant select on public.salary to {other}",
        )
        victim = conn.info.user if whose == "the daemon" else other
        async with acting(app, ann):
            await refused(app, CREATE_PRINCIPAL, victim, state="WA020")
        await run_all(conn, UNCHECKED.format(name=victim))  # one from before the login
        async with app.transaction():
            await app.execute("select agent.act_as(%s)", [ann])
            await value(app, "select agent.grant_role(%s, 'admin')::text", victim)
            token = await value(app, "select token from agent.create_token(%s)", victim)
        async with serving(conn, dsn) as served:
            given = {**PAGE, "run_as": victim}
            for who, name in ((ann, "ann"), (str(token), victim)):
                answer = await served.mutate(who, "console.attach", **given)
                assert answer.status_code == FORBIDDEN, answer.text
                assert f"(tenant, name) = ('default', '{name}')" in answer.text
            # A link of the operator ties the name to its login, and revokes the token.
            if whose == "the daemon":
                async with conn.transaction():
                    link = await exchange(conn, (await make_code(conn)).text)
                answer = await served.mutate(str(token), "console.attach", **given)
                assert answer.is_client_error, answer.text
                async with acting(app, ann):
                    await refused(app, CREATE_TOKEN, victim, state="42501")
                answer = await served.mutate(link, "console.attach", **given)
                assert answer.is_success, answer.text
        await run_all(conn, "delete from agent.attachment; drop table public.salary")


async def test_an_admin_creates_no_token_that_acts_as_another_login(
    conn: AsyncConnection, dsn: str
) -> None:
    """One of its own, one of a principal without a login, and one of a login that it can become."""
    ann = await person(conn, "ann", "admin")
    async with role(conn) as login, role(conn) as other, application(conn, dsn) as app:
        await run_all(
            conn,
            f"select agent.create_principal('dev', login => '{other}');"
            "select agent.create_principal('eve');"
            f"update agent.principal set login = '{login}' where name = 'ann'",
        )
        async with acting(app, ann):
            error = await refused(app, CREATE_TOKEN, "dev", state="42501")
            assert other in message_of(error)
        async with acting(app, ann):
            await value(app, "select token from agent.create_token('eve')")
            await value(app, "select token from agent.create_token('ann')")
        await run_all(conn, f"grant {other} to {login}")
        async with acting(app, ann):
            await value(app, "select token from agent.create_token('dev')")
        await run_all(conn, "update agent.principal set login = null")


@pytest.mark.parametrize("kind", ["login", "group"])
async def test_four_eyes_hold_for_the_principal_of_the_login_that_attached(
    conn: AsyncConnection, dsn: str, kind: str
) -> None:
    """The attachment names a login, and who decides is its principal, of another name."""
    await run_all(conn, DESK)
    await run_all(conn, "update agent.tenant set settings = '{\"four_eyes\": true}'")
    spec = "model=fake, name=mine, tools=[refund_user], approve=[refund_user]"
    async with policy.person(conn, "ann", "{approver,developer}") as ann, role(
        conn, "nologin"
    ) as group:  # fmt: skip
        await run_all(
            conn,
            f"grant {group} to {ann}; select agent.grant_developer('{group}');"
            f"grant select on support_tickets to {group}; grant usage on schema public to {group};"
            f"grant select, insert on refund to {group};"
            f"grant execute on function refund_user to {group}",
        )
        async with session(dsn, user=ann) as own:
            await run_all(own, f"set role {ann if kind == 'login' else group}")
            await value(own, "select agent.attach('support_tickets', %s)", spec)
            await run_all(own, "reset role")
            _, approval = await policy.waiting(conn)
            await refused(own, "select agent.approve(%s)", approval, state="WA006")
            await run_all(conn, f"select agent.approve({approval}); delete from agent.attachment")


async def test_the_role_that_an_agent_runs_as_does_not_decide_by_a_token(
    conn: AsyncConnection, dsn: str
) -> None:
    """With a token the session is that of another login."""
    await run_all(conn, DESK)
    await attach(conn, "name=mine, tools=[refund_user], approve=[refund_user]")
    async with policy.person(conn, "ann") as ann, application(conn, dsn, "approver") as app:
        await add_runs(conn, await value(conn, "select id from agent.attachment"), None)
        (held,) = await claim(conn)
        approval = await runs.ask_approval(conn, held, 0, CALL, ann, 3600, NOTHING)
        token = await token_of(conn, "ann")
        async with session(dsn, user=ann) as own:
            await refused(own, "select agent.approve(%s)", approval, state="WA006")
        async with acting(app, token):
            await refused(app, "select agent.approve(%s)", approval, state="WA006")
    assert await rows(conn, "select state from agent.approval") == [("pending",)]


async def test_an_agent_does_not_have_the_name_of_a_person(conn: AsyncConnection, dsn: str) -> None:
    """What it calls would be done as that person; nor does a person get the name of an agent."""
    await run_all(conn, MODEL)
    await person(conn, "boss")
    await run_all(conn, "select agent.create_principal('robot', 'agent')")
    async with role(conn) as dev:
        await run_all(
            conn,
            f"select agent.grant_developer('{dev}'); create schema devs authorization {dev}",
        )
        async with session(dsn, user=dev) as own:
            await run_all(own, "create table devs.t (id int primary key)")
            attach_ = "select agent.attach('devs.t', %s)"
            error = await refused(
                own, attach_, "name=boss, model=fake, tools=[vote]", state="WA013"
            )
            assert "boss" in message_of(error)
            await value(own, attach_, "name=robot, model=fake")
            await value(own, attach_, "name=helper, model=fake")
            await refused(own, "update agent.agent set name = 'boss'", state="WA013")
        for statement in (
            "select agent.create_principal('helper')",
            "update agent.principal set kind = 'user' where name = 'robot'",
            "update agent.principal set name = 'helper' where name = 'boss'",
        ):
            await refused(conn, statement, state="WA020")
        await run_all(conn, "delete from agent.attachment; drop schema devs cascade")


async def test_an_agent_of_before_calls_nothing_as_a_person(
    conn: AsyncConnection, dsn: str
) -> None:
    """Of another tenant, or of an earlier version: each call is refused."""
    boss = await person(conn, "boss")
    pat = await person(conn, "pat")
    await run_all(conn, f"{MODEL} create table t (id int primary key)")
    async with application(conn, dsn) as app:
        async with app.transaction():
            await app.execute("select agent.act_as(%s)", [boss])
            await value(app, "select agent.create_team('crew', '{pat}')::text")
        async with app.transaction():
            await app.execute("select agent.act_as(%s)", [pat])
            proposal = await value(app, "select agent.propose('crew', 'Give all to pat')::text")
    await run_all(conn, "alter table agent.agent disable trigger check_name")
    script = ScriptedModel([call("vote", proposal=proposal, choice="yes"), "done"])
    async with daemon(conn, dsn, {"fake": script}) as d:
        await attach(conn, "name=boss, tools=[vote]", "t")
        await run_all(conn, "insert into t values (1)")
        await d.until(ENDED)
    assert await rows(conn, "select choice from agent.vote") == []
    (said,) = await rows(conn, "select content::text from agent.step where kind = 'result'")
    assert "has the name of a principal" in str(said)


@pytest.mark.parametrize("how", ["threads", "table", "workflow"])
async def test_who_may_not_change_an_agent_does_not_attach_it(
    conn: AsyncConnection, dsn: str, how: str
) -> None:
    """What its table says would be done as that agent, with what the agent remembers."""
    attach_ = {
        "threads": "select agent.attach_to_threads('sarah', name => %s)",
        "table": "select agent.attach('t', 'agent=sarah, name=' || %s)",
        "workflow": 'select agent.create_workflow(%s, \'[{"name": "a", "kind": "model",'
        ' "agent": "sarah"}]\')',
    }[how]
    async with role(conn) as ada, role(conn) as eve:
        await run_all(
            conn,
            f"{MODEL} select agent.grant_developer('{ada}'), agent.grant_developer('{eve}');"
            "create table t (id int primary key);"
            f"grant select on t to {ada}, {eve}",
        )
        async with session(dsn, user=ada) as own, session(dsn, user=eve) as other:
            await value(own, "select agent.attach('t', 'name=sarah, model=fake')")
            error = await refused(other, attach_, "evil", state="42501")
            assert ada in message_of(error)
            await value(own, attach_, "second")
            await run_all(conn, "delete from agent.attachment where name = 'second'")
            await value(conn, attach_, "operators")
        await run_all(conn, "delete from agent.attachment")
