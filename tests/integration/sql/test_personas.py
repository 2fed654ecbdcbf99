"""Personas: what an agent is, as versions that runs keep."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    message_of,
    refused,
    role,
    rows,
    run_all,
    value,
)
from walagent.message import Json

CLERK = """
insert into agent.persona (name, system_prompt, traits, rules, model, parameters, max_steps,
                           max_output_tokens)
values ('clerk', 'You are a clerk.', '{"tone": "dry", "age": 41}', '{"Be brief.", "Never guess."}',
        'fake', '{"temperature": 0.2, "top_p": 0.5}', 5, 300);
update agent.model set parameters = '{"temperature": 1, "seed": 7}' where name = 'fake';
"""
PROMPT = """\
You are a clerk.

Rules:
1. Be brief.
2. Never guess.

Traits:
- age: 41
- tone: dry

Handle tickets."""


async def clerk(conn: AsyncConnection) -> None:
    """An attached agent with a persona."""
    await run_all(conn, DESK)
    await run_all(conn, CLERK)
    await attach(conn, 'system_prompt="Handle tickets.", max_steps=9')
    await run_all(
        conn,
        "update agent.agent set model = null, persona = 'clerk', parameters = '{\"top_p\": 0.9}'",
    )


async def definition(conn: AsyncConnection) -> dict[str, Json]:
    """What runs use that start now."""
    return await value(conn, "select definition from agent.attachment")


async def test_what_follows_from_model_persona_and_agent(conn: AsyncConnection) -> None:
    """Parameters in this order; prompts one after the other; of limits, the lower one."""
    await clerk(conn)
    found = await definition(conn)
    wanted = {"temperature": 0.2, "top_p": 0.9, "seed": 7}
    assert found["parameters"] == wanted
    assert await value(conn, "select agent.effective_parameters('support_tickets')") == wanted
    assert (found["model"], found["system_prompt"]) == ("fake", PROMPT)
    assert (found["max_steps"], found["max_output_tokens"]) == (5, 300)
    assert (found["persona"], found["persona_version"]) == ("clerk", 1)


async def test_a_change_of_a_persona_is_a_version_of_its_agents(conn: AsyncConnection) -> None:
    """Runs that are pinned keep the old one; an agent that keeps a version is left alone."""
    await clerk(conn)
    before = await value(conn, "select version from agent.attachment")
    await run_all(conn, "update agent.persona set rules = '{Be long.}'")
    found = await definition(conn)
    assert "1. Be long." in found["system_prompt"]
    assert (found["persona_version"], found["version"]) == (2, before + 1)
    assert (
        await value(
            conn,
            "select definition ->> 'system_prompt' from agent.attachment_version"
            " where version = %s",
            before,
        )
        == PROMPT
    )
    await run_all(conn, "update agent.agent set persona_version = 1")
    assert (await definition(conn))["system_prompt"] == PROMPT
    kept = await value(conn, "select version from agent.attachment")
    await run_all(conn, "update agent.persona set rules = '{}'")
    assert await value(conn, "select version from agent.attachment") == kept
    versions = "select version, definition -> 'rules' from agent.persona_version order by 1"
    assert await rows(conn, versions) == [
        (1, ["Be brief.", "Never guess."]),
        (2, ["Be long."]),
        (3, []),
    ]


async def test_an_old_version_becomes_current_again(conn: AsyncConnection) -> None:
    """As a new version, with the persona as it was."""
    await clerk(conn)
    old = await value(conn, "select version from agent.agent")
    await run_all(
        conn,
        "update agent.persona set system_prompt = 'You are rude.';"
        "update agent.agent set system_prompt = 'Shout.', max_steps = 3, persona = null,"
        " model = 'fake'",
    )
    assert (await definition(conn))["system_prompt"] == "Shout."
    new = await value(conn, "select agent.rollback('support_tickets', %s)", old)
    assert new == await value(conn, "select version from agent.agent") == old + 3
    found = await definition(conn)
    assert (found["system_prompt"], found["max_steps"], found["persona_version"]) == (PROMPT, 5, 1)
    error = await refused(conn, "select agent.rollback('support_tickets', 99)", state="WA021")
    assert "no version 99" in message_of(error)


async def test_references_are_checked(conn: AsyncConnection) -> None:
    """A persona that is not there, one in use, an agent without a model."""
    await clerk(conn)
    error = await refused(conn, "update agent.agent set persona = 'clark'", state="WA021")
    assert "clerk" in message_of(error)
    await refused(conn, "update agent.agent set persona_version = 9", state="WA021")
    await refused(conn, "delete from agent.persona", state="WA021")
    await refused(conn, "update agent.persona set name = 'x'", state="WA021")
    await refused(conn, "update agent.persona set model = null", state="WA014")
    await refused(conn, "update agent.persona set model = 'no such'", state="WA014")
    await refused(
        conn, "update agent.agent set persona = null, persona_version = null", state="23514"
    )


async def test_developers_change_personas(conn: AsyncConnection) -> None:
    """Roles that were granted, and principals with the role."""
    await clerk(conn)
    async with role(conn) as developer, role(conn) as viewer:
        await run_all(
            conn, f"select agent.grant_developer('{developer}'), agent.grant_viewer('{viewer}')"
        )
        async with as_role(conn, developer):
            await run_all(conn, "insert into agent.persona (name, model) values ('p', 'fake')")
            await value(conn, "select agent.effective_parameters('support_tickets')")
        async with as_role(conn, viewer):
            assert await value(conn, "select count(*) from agent.persona") == 2
            await refused(conn, "delete from agent.persona", state="42501")


KEYS = [
    "sk-" + "a1B2" * 10,
    "sk-ant-api03-" + "x" * 40,
    "AKIA" + "ABCDEFGH12345678",
    "-----BEGIN RSA " + "PRIVATE KEY-----",
    "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "c2lnbmF0dXJlLXNpZ25hdHVyZQ",
    "ghp_" + "a" * 36,
]


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("persona", "system_prompt"),
        ("persona", "traits"),
        ("persona", "rules"),
        ("persona", "parameters"),
        ("agent", "system_prompt"),
        ("agent", "parameters"),
        ("model", "credential"),
        ("model", "base_url"),
        ("model", "parameters"),
        ("tool", "description"),
        ("policy", "message"),
    ],
)
async def test_what_looks_like_a_key_is_refused(
    conn: AsyncConnection, table: str, column: str
) -> None:
    """The error names the column and says where keys belong; the key itself is not repeated."""
    await clerk(conn)
    await run_all(
        conn, "insert into agent.policy (name, point, action) values ('never', 'tool', 'deny')"
    )
    expression = {
        "traits": "jsonb_build_object('a', %s::text)",
        "parameters": "jsonb_build_object('headers', jsonb_build_object('x', 'Bearer ' || %s))",
        "rules": "array['use ' || %s]",
    }.get(column, "'key: ' || %s")
    for key in KEYS:
        error = await refused(
            conn, f"update agent.{table} set {column} = {expression}", key, state="23514"
        )
        assert f'column "{column}"' in message_of(error)
        assert "environment variable" in message_of(error)
        assert key not in message_of(error)


@pytest.mark.parametrize(
    "text",
    [
        "task-list of the sketch",
        "OPENAI_API_KEY",
        "ask-" + "a" * 30,
        "a risk-based-approach-to-the-work",
    ],
)
async def test_plain_words_are_no_keys(conn: AsyncConnection, text: str) -> None:
    """Nor the names of variables."""
    await clerk(conn)
    await conn.execute("update agent.persona set system_prompt = %s", [text])
