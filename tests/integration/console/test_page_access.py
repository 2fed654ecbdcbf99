"""People and tokens as a page: listed for those who see them, changed by admins, all audited."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, rows, value
from tests.helpers.people import person
from tests.helpers.shapes import Served, serving

AUDITED = """
select action || ' ' || object from agent.audit
 where tenant = 'default' and principal = 'ann' and action not like 'token.%' order by number
"""


@pytest.fixture
async def desk(conn: AsyncConnection, dsn: str) -> AsyncIterator[tuple[Served, str, str]]:
    """A server, and tokens of an admin and of a viewer."""
    ann = await person(conn, "ann", "admin")
    vic = await person(conn, "vic", "viewer")
    await person(conn, "eve", "admin", tenant="other")
    async with serving(conn, dsn) as served:
        yield served, ann, vic


async def people(served: Served, token: str) -> dict[str, dict[str, Any]]:
    """What the page lists, by name."""
    answer = await served.query(token, "console.access_people")
    assert answer.status_code == 200, answer.text
    return {each["name"]: each for each in answer.json()["rows"]}


async def tokens(served: Served, token: str) -> list[dict[str, Any]]:
    """The tokens that somebody sees."""
    answer = await served.query(token, "console.access_tokens")
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


async def done(served: Served, token: str, name: str, /, **given: str) -> Any:  # noqa: ANN401 - JSON
    """The result of a mutation."""
    answer = await served.mutate(token, f"console.{name}", **given)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def test_an_admin_adds_people_and_changes_their_roles(
    conn: AsyncConnection, desk: tuple[Served, str, str]
) -> None:
    """All that was chosen at once; each change is in the audit, with who made it."""
    served, ann, _ = desk
    assert (await people(served, ann))["ann"]["is_last_admin"] is True
    given = {"kind": "user", "display_name": "Omar", "email": "omar@harbour.example"}
    await done(served, ann, "add_principal", name="omar", **given)
    changes = [("omar", "approver", True), ("vic", "viewer", False), ("omar", "viewer", True)]
    assert await done(served, ann, "change_roles", changes=json.dumps(changes), days="7") == "3"
    found = await people(served, ann)
    assert set(found) == {"ann", "vic", "omar"}
    assert set(found["omar"]["roles"]) == {"approver", "viewer"}
    assert all(found["omar"]["roles"].values())  # when they end
    assert (found["omar"]["email"], found["vic"]["roles"]) == ("omar@harbour.example", {})
    await done(served, ann, "disable_principal", name="omar")
    assert (await people(served, ann))["omar"]["active"] is False
    await done(served, ann, "enable_principal", name="omar")
    promote = json.dumps([["omar", "admin", True]])
    await done(served, ann, "change_roles", changes=promote, days="")
    assert (await people(served, ann))["ann"]["is_last_admin"] is False
    assert await column(conn, AUDITED) == [
        "principal.created omar",
        "role_grant.created omar approver",
        "role_grant.created omar viewer",
        "role_grant.deleted vic viewer",
        "principal.changed omar",
        "principal.changed omar",
        "role_grant.created omar admin",
    ]


async def test_a_token_is_shown_once_and_can_be_revoked(
    conn: AsyncConnection, desk: tuple[Served, str, str]
) -> None:
    """It works until then; others see neither it nor that there is one."""
    served, ann, vic = desk
    given = {"principal": "vic", "label": "pipeline", "scopes": "read", "days": "30"}
    made = await done(served, ann, "create_token", **given)
    secret = made["token"]
    assert secret.startswith("wla_")
    assert set(await people(served, secret)) == {"ann", "vic"}
    (row,) = [each for each in await tokens(served, ann) if each["id"] == made["id"]]
    assert (row["principal"], row["label"], row["scopes"]) == ("vic", "pipeline", ["read"])
    assert (row["state"], row["purpose"]) == ("valid", "token")
    assert {each["principal"] for each in await tokens(served, vic)} == {"vic"}
    assert secret not in json.dumps(await tokens(served, ann))
    await done(served, ann, "revoke_token", id=made["id"])
    assert (await served.query(secret, "console.access_people")).status_code == 401
    (row,) = [each for each in await tokens(served, ann) if each["id"] == made["id"]]
    assert row["state"] == "revoked"
    kept = "select count(*) from agent.audit a where a.detail::text || a.object like %s"
    assert await value(conn, kept, f"%{secret}%") == 0
    acts = "select action from agent.audit where object = %s and principal = 'ann' order by number"
    assert await rows(conn, acts, made["id"]) == [("token.created",), ("token.revoked",)]


SESSION = """
update agent.token set purpose = %s, expires_at = now() + interval '1 hour' where label = %s
"""


async def test_an_admin_ends_all_sessions(
    conn: AsyncConnection, desk: tuple[Served, str, str]
) -> None:
    """Of its tenant, its own too, and links; tokens of programs stay, as do other tenants."""
    served, ann, vic = desk
    secrets = dict[str, str]()
    for label, purpose, name, tenant in (
        ("desk", "session", "ann", "default"),
        ("lost", "session", "vic", "default"),
        ("link", "link", "vic", "default"),
        ("apart", "session", "eve", "other"),
    ):
        made = "select token from agent.create_token(%s, %s, tenant => %s)"
        secrets[label] = await value(conn, made, name, label, tenant)
        await conn.execute(SESSION, (purpose, label))
    refused = await served.mutate(vic, "console.end_sessions", tenant="default")
    assert refused.status_code == 403
    assert await done(served, ann, "end_sessions", tenant="other") == "0"
    assert await done(served, secrets["desk"], "end_sessions", tenant="default") == "3"
    ended = "select label from agent.token where revoked_at is not null order by 1"
    assert await column(conn, ended) == ["desk", "link", "lost"]
    for token in secrets["desk"], secrets["lost"]:
        assert (await served.query(token, "console.access_tokens")).status_code == 401
    assert len(await tokens(served, vic)) > 0
