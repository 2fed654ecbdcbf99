"""The commands for tenants, principals and tokens."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.integration.cli.user import User


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """The operator."""
    return User(tmp_path, dsn)


@pytest.mark.slow
def test_a_tenant_from_its_creation_to_its_end(user: User, tmp_path: Path) -> None:
    """Created, with an admin and a token; exported; deleted after its name was typed."""
    user.types("tenants", "add", "acme", "--display-name", "Acme").worked()
    user.types("tenants", "principals", "add", "ada", "--tenant", "acme").worked()
    user.types("tenants", "principals", "grant", "ada", "admin", "--tenant", "acme").worked()
    made = user.types(
        "tenants", "tokens", "create", "ada", "--tenant", "acme", "--label", "laptop"
    ).worked()
    token = made.out.strip()
    assert token.startswith("wla_")
    listed = json.loads(
        user.types("tenants", "principals", "list", "--tenant", "acme", "--json").worked().out
    )
    assert [(p["name"], p["roles"]) for p in listed] == [("ada", ["admin"])]
    shown = user.types("tenants", "tokens", "list", "--json").worked().out
    assert token not in shown
    assert json.loads(shown)[0]["state"] == "valid"
    token = json.loads(shown)[0]["id"]
    revoked = user.types("tenants", "tokens", "revoke", token, "--json").worked()
    assert json.loads(revoked.out) == {"revoked": token}
    assert not revoked.err
    assert (
        json.loads(user.types("tenants", "tokens", "list", "--json").worked().out)[0]["state"]
        == "revoked"
    )

    user.types("tenants", "export", "acme", "--to", str(tmp_path / "out")).worked()
    principal = json.loads((tmp_path / "out" / "principal.jsonl").read_text())
    assert principal["name"] == "ada"
    assert "digest" not in (tmp_path / "out" / "token.jsonl").read_text()
    again = user.types("tenants", "export", "acme", "--to", str(tmp_path / "out"))
    assert again.code != 0

    unsure = user.types("tenants", "delete", "acme")
    assert unsure.code != 0
    assert "agent.principal" in unsure.out
    user.types("tenants", "delete", "acme", "--yes").worked()
    names = [t["name"] for t in json.loads(user.types("tenants", "list", "--json").worked().out)]
    assert names == ["default"]


@pytest.fixture
def person(user: User, dsn: str) -> Iterator[User]:
    """An admin of a tenant, over the login of an application, which is nobody without a token."""
    name = f"walagent_{uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"create role {name} login".encode())
        for each in (
            f"select agent.grant_member('{name}')",
            f"select agent.create_principal('{name}', 'service', '{name}')",
            f"select agent.disable_principal('{name}')",
            "select agent.create_tenant('acme')",
            "select agent.create_principal('ada', tenant => 'acme')",
            "select agent.grant_role('ada', 'admin', tenant => 'acme')",
        ):
            conn.execute(each.encode())
        row = conn.execute(
            "select token from agent.create_token('ada', tenant => 'acme')"
        ).fetchone()
        assert row is not None
        yield User(user.folder, make_conninfo(dsn, user=name), {"WALAGENT_TOKEN": row[0]})
        conn.execute(f"drop owned by {name}; drop role {name}".encode())


def test_limits_of_a_tenant(user: User) -> None:
    """Each is set alone, removed by "none", and shown."""
    user.types("tenants", "add", "acme").worked()
    limit = ("tenant", "limit", "acme", "--json")
    for given, queued, running in (
        (["--max-queued", "100"], 100, None),
        (["--max-running", "0"], 100, 0),
        ([], 100, 0),
        (["--max-queued", "none"], None, 0),
    ):
        shown = json.loads(user.types(*limit, *given).worked().out)
        assert shown == [{"name": "acme", "max_running": running, "max_queued": queued}]
    for given in ("-1", "many", "1.5", str(1 << 31)):
        wrong = user.types(*limit, "--max-queued", given)
        assert (wrong.code, "neither a number nor" in wrong.err) == (2, True)
    wrong = user.types("tenants", "limit", "acne")
    assert (wrong.code, 'tenant "acne" does not exist' in wrong.err) == (2, True)


def test_a_token_acts_in_each_transaction(person: User) -> None:
    """From the environment or the option; a wrong one is refused and not printed."""
    person.types("tenants", "principals", "add", "bob").worked()
    listed = json.loads(person.types("tenants", "principals", "list", "--json").worked().out)
    assert [(p["tenant"], p["name"]) for p in listed] == [("acme", "ada"), ("acme", "bob")]
    without = replace(person, variables={})
    assert json.loads(without.types("tenants", "principals", "list", "--json").worked().out) == []
    token = person.variables["WALAGENT_TOKEN"]
    given = without.types("tenants", "principals", "list", "--json", "--token", token).worked()
    assert len(json.loads(given.out)) == 2
    wrong = without.types("tenants", "principals", "list", "--token", "wla_forged_forged_forged")
    assert wrong.code != 0
    assert "unknown, expired or revoked" in wrong.err
    assert "forged" not in wrong.err
