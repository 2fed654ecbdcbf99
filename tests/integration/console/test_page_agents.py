"""Agents on the console's page: versions, who may change them, and as which login."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, role, run_all, value
from tests.helpers.people import person, token_of
from tests.helpers.shapes import Served, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot

TABLES = """
create table ticket (id bigint primary key, category text, secret text);
insert into agent.model (name, provider, model_id, base_url)
values ('one', 'scripted', 'one', '/none'), ('two', 'scripted', 'two', '/none');
"""
GRANTS = """
select agent.grant_developer('{login}');
grant select (id, category), update (category) on ticket to {login};
update agent.principal set login = '{login}' where name = 'ann';
"""
ATTACH = """
select agent.attach('ticket', 'name=triage, model=one, columns=[category], writes=[category],
    tools=[update_row], system_prompt="Sort it."')
"""
PUBLISH = {
    "agent": "triage",
    "base": 1,
    "model": "two",
    "system_prompt": "Sort it well. 100 %",
    "max_steps": 5,
    "max_tokens": 8000,
    "max_cost": None,
    "max_seconds": 60,
    "max_attempts": 5,
    "max_output_tokens": None,
}
ATTACH_NEW = {
    "name": "second",
    "target": "public.ticket",
    "model": "one",
    "system_prompt": "100 % sure",
    "tools": ["update_row"],
    "ops": ["insert", "update"],
    "condition": "new.category like 'b%'",
    "columns": ["category"],
    "writes": ["category"],
    "bind": {},
    "approve": [],
    "backfill": False,
}
VERSIONS = "select version || ' ' || made_by from agent.agent_version order by version"


@dataclass(frozen=True, slots=True)
class People:
    """A server, tokens by name, and the login of ann."""

    served: Served
    tokens: dict[str, str]
    login: str


@asynccontextmanager
async def people(conn: AsyncConnection, dsn: str) -> AsyncIterator[People]:
    """A developer with a login that attached an agent, one without, a viewer, and nobody."""
    await run_all(conn, TABLES)
    tokens = {
        "ann": await person(conn, "ann", "developer"),
        "dan": await person(conn, "dan", "developer"),
        "vic": await person(conn, "vic", "viewer"),
        "apo": await person(conn, "apo", "approver"),
        "nob": await person(conn, "nob"),
        "bob": await person(conn, "bob", "admin", tenant="b"),
    }
    tokens["read"] = await token_of(conn, "ann", "read")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with role(conn) as login:
        await run_all(conn, GRANTS.format(login=login))
        await run_all(conn, f"set role {login}; {ATTACH}; reset role")
        async with serving(conn, dsn) as served:
            yield People(served, tokens, login)
        await run_all(conn, "update agent.principal set login = null")
        await run_all(conn, "delete from agent.attachment; delete from agent.agent")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("who", "status"),
    [("ann", 200), ("dan", 403), ("vic", 403), ("apo", 403), ("nob", 403), ("read", 403)],
)
async def test_developers_change_agents_as_their_login(
    conn: AsyncConnection, dsn: str, who: str, status: int
) -> None:
    """Each mutation; those without the role, the scope or a login change nothing."""
    async with people(conn, dsn) as found:
        before = await value(conn, "select to_jsonb(a)::text from agent.attachment a")
        for name, given in (
            ("publish_agent", PUBLISH),
            ("rollback_agent", {"agent": "triage", "version": 1}),
            ("pause", {"name": "triage"}),
            ("resume", {"name": "triage"}),
            ("detach", {"name": "triage"}),
        ):
            answer = await found.served.mutate(found.tokens[who], f"console.{name}", **given)
            assert answer.status_code == status, (name, answer.text)
            assert answer.status_code == 200 or answer.json()["hint"], name
        if status == 200:
            assert await value(conn, "select count(*) from agent.attachment") == 0
        else:
            assert await value(conn, "select to_jsonb(a)::text from agent.attachment a") == before
            assert len(await column(conn, VERSIONS)) == 1


@pytest.mark.slow
async def test_a_version_is_published_once_and_rolled_back(conn: AsyncConnection, dsn: str) -> None:
    """Of two drafts from one version, the second is refused; attachments get each version."""
    async with people(conn, dsn) as found:
        served, ann = found.served, found.tokens["ann"]
        answer = await served.mutate(ann, "console.publish_agent", **PUBLISH)
        assert answer.json()["result"] == 2, answer.text
        late = await served.mutate(
            ann,
            "console.publish_agent",
            **PUBLISH,
        )
        assert late.status_code == 404
        versions = (await served.query(ann, "console.agent_versions", agent="triage")).json()[
            "rows"
        ]
        assert [(v["version"], v["made_by"], v["is_current"]) for v in versions] == [
            (2, "ann", True),
            (1, conn.info.user, False),
        ]
        assert [each["refusal"] for each in versions] == [None, None]
        assert versions[0]["system_prompt"] == PUBLISH["system_prompt"]
        assert versions[0]["limits"]["max_tokens"] == 8000
        back = await served.mutate(ann, "console.rollback_agent", agent="triage", version=1)
        assert back.status_code == 200, back.text
        current = "select version, model, system_prompt, max_tokens from agent.agent"
        row = await (await conn.execute(current)).fetchone()
        assert row == (3, "one", "Sort it.", None)
        none = await served.mutate(ann, "console.rollback_agent", agent="triage", version=9)
        assert (none.status_code, none.json()["code"]) == (400, "WA021")


async def test_an_agent_has_the_models_that_are_asked_before_its_own(
    conn: AsyncConnection, dsn: str
) -> None:
    """In their order, as they are written; a draft of a page leaves them as they are."""
    async with people(conn, dsn) as found:
        served, ann = found.served, found.tokens["ann"]
        await conn.execute("update agent.agent set cascade = '{embedded/e5>0.6,two}'")
        (row,) = (await served.query(ann, "console.attachments")).json()["rows"]
        assert (row["cascade"], row["model"]) == (["embedded/e5>0.6", "two"], "one")
        draft = {**PUBLISH, "model": "one", "base": row["agent_version"]}
        answer = await served.mutate(ann, "console.publish_agent", **draft)
        assert answer.status_code == 200, answer.text
        cursor = await conn.execute("select cascade from agent.agent")
        assert await cursor.fetchone() == (["embedded/e5>0.6", "two"],)


@pytest.mark.slow
async def test_prompts_are_read_by_those_who_see_runs(conn: AsyncConnection, dsn: str) -> None:
    """And by developers; not by members without a role, nor by another tenant."""
    async with people(conn, dsn) as found:
        seen, refusals = dict[str, list[str]](), dict[str, list[str | None]]()
        for who in ("ann", "dan", "vic", "apo", "nob", "bob"):
            token = found.tokens[who]
            rows = (
                await found.served.query(token, "console.agent_versions", agent="triage")
            ).json()
            attached = await found.served.query(token, "console.attachments")
            assert attached.status_code == 200, attached.text
            listed = attached.json()["rows"]
            old = (
                await found.served.query(token, "console.attachment_versions", attachment="triage")
            ).json()["rows"]
            refusals[who] = [each["refusal"] for each in (*rows["rows"], *listed)]
            prompts = [each["system_prompt"] for each in (*rows["rows"], *listed, *old)]
            seen[who] = [each for each in prompts if each]
        assert seen == {
            "ann": ["Sort it."] * 3,
            "dan": ["Sort it."] * 3,
            "vic": ["Sort it."] * 3,
            "apo": ["Sort it."] * 3,
            "nob": [],
            "bob": [],
        }
        assert refusals == {
            "ann": [None, None],
            "dan": ["login", "login"],
            "vic": ["role", "role"],
            "apo": ["role", "role"],
            "nob": ["role"],
            "bob": [],
        }


@pytest.mark.slow
async def test_a_login_changes_no_agent_of_others(conn: AsyncConnection, dsn: str) -> None:
    """A developer whose login did not attach it is refused by PostgreSQL."""
    async with people(conn, dsn) as found, role(conn) as other:
        await run_all(
            conn,
            f"select agent.grant_developer('{other}');"
            f"update agent.principal set login = '{other}' where name = 'dan'",
        )
        for name, given in (("publish_agent", PUBLISH), ("pause", {"name": "triage"})):
            answer = await found.served.mutate(found.tokens["dan"], f"console.{name}", **given)
            assert answer.status_code == 403, answer.text
            assert "belongs to role" in answer.json()["message"]
        await run_all(conn, "update agent.principal set login = null where name = 'dan'")
        assert len(await column(conn, VERSIONS)) == 1


@pytest.mark.slow
async def test_agents_are_attached_as_the_login(conn: AsyncConnection, dsn: str) -> None:
    """A new one, one that exists; of its tables and roles alone."""
    async with people(conn, dsn) as found:
        served, ann = found.served, found.tokens["ann"]
        tables = (await served.query(ann, "console.attach_tables")).json()["rows"]
        assert tables == [{"relation": "public.ticket", "columns": ["id", "category"]}]
        (options,) = (await served.query(ann, "console.attach_options")).json()["rows"]
        assert (options["login"], options["roles"]) == (found.login, [found.login])
        given = {**ATTACH_NEW, "run_as": found.login}
        answer = await served.mutate(ann, "console.attach", **given)
        assert answer.status_code == 200, answer.text
        other = {k: v for k, v in given.items() if k not in {"model", "system_prompt", "tools"}}
        answer = await served.mutate(
            ann,
            "console.attach_agent",
            **{**other, "name": "third", "agent": "triage", "columns": "", "ops": ["insert"]},
        )
        # Nothing chosen means all columns, one of which the role cannot read.
        assert (answer.status_code, answer.json()["code"]) == (403, "42501"), answer.text
        answer = await served.mutate(
            ann, "console.attach_agent", **{**other, "name": "third", "agent": "triage"}
        )
        assert answer.status_code == 200, answer.text
        made = "select name, agent, attached_by, run_as, ops, condition, columns, writes"
        cursor = await conn.execute(f"{made} from agent.attachment order by id".encode())
        rest = (
            found.login,
            found.login,
            ["insert", "update"],
            "new.category like 'b%'",
            ["category"],
            ["category"],
        )
        assert (await cursor.fetchall())[1:] == [
            ("second", "second", *rest),
            ("third", "triage", *rest),
        ]
        prompt = "select system_prompt from agent.agent where name = 'second'"
        assert await value(conn, prompt) == "100 % sure"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("changed", "status", "text"),
    [
        ({"name": "triage"}, 404, ""),  # an agent of others would be overwritten
        ({"target": "public.none"}, 400, "does not exist"),
        ({"target": "agent.run"}, 400, "system table"),
        ({"condition": "new.nothing = 1"}, 400, "nothing"),
        ({"condition": "exists (select from ticket)"}, 400, "subquery"),
        ({"condition": "true); drop table ticket; --"}, 400, "single expression"),
        ({"columns": ["none"]}, 400, "columns: column"),
        ({"columns": ["secret"]}, 403, "lacks SELECT"),
        ({"run_as": "postgres"}, 403, "member of role"),
        ({"model": "none"}, 400, "model"),
        ({"tools": ["none"]}, 400, "none"),
        ({"ops": []}, 400, ""),
        ({"ops": "insert"}, 400, "json"),
    ],
)
async def test_what_cannot_be_attached_is_named(
    conn: AsyncConnection, dsn: str, changed: dict[str, object], status: int, text: str
) -> None:
    """Nothing of it stays."""
    async with people(conn, dsn) as found:
        given = {**ATTACH_NEW, "run_as": found.login, **changed}
        answer = await found.served.mutate(found.tokens["ann"], "console.attach", **given)
        assert answer.status_code == status, answer.text
        assert text in answer.json()["message"]
        assert await column(conn, "select name from agent.attachment") == ["triage"]
        assert await column(conn, "select system_prompt from agent.agent") == ["Sort it."]


@pytest.mark.few(1)
@pytest.mark.parametrize("who", ["dan", "vic", "apo", "nob", "read"])
async def test_who_may_not_attach_is_offered_nothing(
    conn: AsyncConnection, dsn: str, who: str
) -> None:
    """Neither tables, roles nor tools; and both mutations are refused."""
    async with people(conn, dsn) as found:
        token = found.tokens[who]
        for name in ("attach_tables", "attach_options"):
            answer = await found.served.query(token, f"console.{name}")
            assert answer.json()["rows"] == [], name
        given = {**ATTACH_NEW, "run_as": found.login}
        answer = await found.served.mutate(token, "console.attach", **given)
        assert answer.status_code == 403
        del given["model"], given["system_prompt"], given["tools"]
        answer = await found.served.mutate(
            token, "console.attach_agent", **{**given, "agent": "triage"}
        )
        assert answer.status_code == 403
        assert await column(conn, "select name from agent.attachment") == ["triage"]


@pytest.mark.slow
async def test_a_pause_of_a_person_is_no_break(conn: AsyncConnection, dsn: str) -> None:
    """What walagent pauses waits for a person; what a person pauses says who did, and why."""
    states = {}
    async with people(conn, dsn) as on:
        for name, pause in (
            ("broken", "select agent_internal.pause_broken(id, 'gone') from agent.attachment"),
            ("paused", "select agent.pause('triage', 'until Monday')"),
        ):
            await run_all(conn, pause)
            found = (await on.served.query(on.tokens["ann"], "console.attachments")).json()
            (row,) = [each for each in found["rows"] if each["attachment"] == "triage"]
            table = (await on.served.query(on.tokens["ann"], "console.tables")).json()["rows"][0]
            waits = (await on.served.query(on.tokens["ann"], "console.waits")).json()["rows"]
            states[name] = (row["state"], row["paused_reason"], table["is_broken"], len(waits))
            assert (row["paused_by"] is None) == (name == "broken")
            await run_all(conn, "select agent.resume('triage')")
        found = (await on.served.query(on.tokens["ann"], "console.attachments")).json()
        assert [each["paused_by"] for each in found["rows"]] == [None]
    assert states == {
        "broken": ("broken", "gone", True, 1),
        "paused": ("paused", "until Monday", False, 0),
    }
