"""The commands for tenants, principals and tokens."""

import json
from pathlib import Path

import pytest

from tests.integration.cli.user import User


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """The operator."""
    return User(tmp_path, dsn)


def test_a_tenant_from_its_creation_to_its_end(user: User, tmp_path: Path) -> None:
    """Created, with an admin and a token; exported; deleted after its name was typed."""
    user.types("tenant", "add", "acme", "--display-name", "Acme").worked()
    user.types("principal", "add", "ada", "--tenant", "acme").worked()
    user.types("principal", "grant", "ada", "admin", "--tenant", "acme").worked()
    made = user.types("token", "create", "ada", "--tenant", "acme", "--label", "laptop").worked()
    token = made.out.strip()
    assert token.startswith("wla_")
    listed = json.loads(user.types("principal", "list", "--tenant", "acme", "--json").worked().out)
    assert [(p["name"], p["roles"]) for p in listed] == [("ada", ["admin"])]
    shown = user.types("token", "list", "--json").worked().out
    assert token not in shown
    assert json.loads(shown)[0]["state"] == "valid"
    user.types("token", "revoke", json.loads(shown)[0]["id"]).worked()
    assert json.loads(user.types("token", "list", "--json").worked().out)[0]["state"] == "revoked"

    user.types("tenant", "export", "acme", "--to", str(tmp_path / "out")).worked()
    principal = json.loads((tmp_path / "out" / "principal.jsonl").read_text())
    assert principal["name"] == "ada"
    assert "digest" not in (tmp_path / "out" / "token.jsonl").read_text()
    again = user.types("tenant", "export", "acme", "--to", str(tmp_path / "out"))
    assert again.code != 0

    unsure = user.types("tenant", "delete", "acme")
    assert unsure.code != 0
    assert "agent.principal" in unsure.out
    user.types("tenant", "delete", "acme", "--yes").worked()
    names = [t["name"] for t in json.loads(user.types("tenant", "list", "--json").worked().out)]
    assert names == ["default"]
