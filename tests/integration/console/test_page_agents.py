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
