"""Who may not administer asks the console to: each request is refused, and changes nothing."""

import json
from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all, value
from tests.helpers.people import person, token_of
from tests.helpers.shapes import Served, serving

ROLES = ("admin", "developer", "approver", "auditor", "viewer")
KEPT = """
select to_jsonb(p) from agent.principal p
union all select to_jsonb(g) from agent.role_grant g
union all select to_jsonb(t) from agent.token t
order by 1
"""
REFUSED = """
select principal::text, object from agent.audit where action = 'request.refused' order by number
"""


def requests(name: str, token: str) -> dict[str, dict[str, str]]:
    """Everything that the page can ask for, about a principal and a token."""
    changes = json.dumps([[name, role, granted] for role in ROLES for granted in (True, False)])
    return {
        "add_principal": {"name": "new", "kind": "user", "display_name": "", "email": ""},
        "change_roles": {"changes": changes, "days": ""},
        "enable_principal": {"name": name},
        "disable_principal": {"name": name},
        "create_token": {"principal": name, "label": "", "scopes": "", "days": ""},
        "revoke_token": {"id": token},
    }


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server; ann administers a tenant, and eve another one."""
    await person(conn, "ann", "admin")
    await person(conn, "eve", "admin", tenant="other")
    await person(conn, "vic", "viewer")
    await person(conn, "dan", "developer", "approver", "auditor", "viewer")
    async with serving(conn, dsn) as found:
        yield found


@pytest.mark.parametrize(
    "who", [("vic", "default"), ("dan", "default"), ("eve", "other"), ("ann", "default")]
)
async def test_who_may_not_administer_changes_nothing(
    conn: AsyncConnection, served: Served, who: tuple[str, str]
) -> None:
    """A viewer, a developer, another tenant's admin, an admin's token for something else."""
    name, tenant = who
    scopes = ("read", "post", "approve", "develop") if name == "ann" else ()
    token = await token_of(conn, name, *scopes, tenant=tenant)
    for each in "ann", "vic", "dan":
        of = await value(conn, "select min(id::text) from agent.token where principal = %s", each)
        for mutation, given in requests(each, of).items():
            if mutation == "add_principal" and name == "eve":
                continue  # in its own tenant, it may
            if mutation == "revoke_token" and each == name:
                continue  # it is its own
            before = await rows(conn, KEPT)
            answer = await served.mutate(token, f"console.{mutation}", **given)
            assert answer.status_code in {400, 403, 404}, (mutation, answer.text)
            assert await rows(conn, KEPT) == before, mutation
    if name != "eve":  # for which the others do not exist
        assert (name, "mutation console.disable_principal") in await rows(conn, REFUSED)


async def test_nobody_gives_more_than_it_has(conn: AsyncConnection, served: Served) -> None:
    """Neither a role that outlasts its own, nor a scope that its token lacks."""
    await run_all(conn, "select agent.create_principal('bob')")
    await conn.execute("select agent.grant_role('bob', 'admin', now() + interval '1 h')")
    lasting, narrow = await token_of(conn, "bob"), await token_of(conn, "ann", "admin", "read")
    for days in "", "2":
        changes = json.dumps([["vic", "approver", True]])
        answer = await served.mutate(lasting, "console.change_roles", changes=changes, days=days)
        assert (answer.status_code, answer.json()["code"]) == (403, "42501"), answer.text
    for scopes in "", "read,approve":
        given = {"principal": "ann", "label": "", "scopes": scopes, "days": "1"}
        answer = await served.mutate(narrow, "console.create_token", **given)
        assert (answer.status_code, answer.json()["code"]) == (403, "42501"), answer.text


async def test_the_last_admin_stays(conn: AsyncConnection, served: Served) -> None:
    """By each way of the page; and several changes are made together, or none of them."""
    token = await token_of(conn, "ann")

    async def change(*changes: tuple[str, str, bool], days: str = "") -> int:
        sent = {"changes": json.dumps(changes), "days": days}
        return (await served.mutate(token, "console.change_roles", **sent)).status_code

    assert await change(("vic", "approver", True), ("ann", "admin", False)) == 400
    assert await change(("ann", "admin", True), days="1") == 400
    answer = await served.mutate(token, "console.disable_principal", name="ann")
    assert (answer.status_code, answer.json()["code"]) == (400, "WA020")
    roles = "select role from agent.role_grant where tenant = 'default' and principal = %s"
    assert await rows(conn, roles, "vic") == [("viewer",)]
    assert await change(("ann", "admin", False), ("dan", "admin", True)) == 200
    assert await rows(conn, roles, "ann") == []
