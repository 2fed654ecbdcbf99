"""Personas, tools, grants and policies on the command line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.integration.cli.user import User


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a database."""
    return User(tmp_path, dsn)


@pytest.fixture
def db(dsn: str) -> Iterator[Connection[Any]]:
    """A hand in the database."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


SEED = """
insert into agent.persona (name, rules) values ('clerk', '{Be brief.}');
update agent.persona set rules = '{Be kind.}';
insert into agent.policy (name, point, action) values ('never', 'tool', 'deny');
"""


def test_personas_are_shown(user: User, db: Connection[Any]) -> None:
    """With their versions."""
    db.execute(SEED)
    (persona,) = user.types("agents", "personas", "list", "--json").worked().json
    assert (persona["name"], persona["version"], persona["agents"]) == ("clerk", 2, 0)
    assert user.types("agents", "personas", "show", "clerk", "--json").worked().json["rules"] == [
        "Be kind."
    ]
    versions = user.types("agents", "personas", "versions", "clerk", "--json").worked().json
    assert [each["version"] for each in versions] == [2, 1]
    assert user.types("agents", "personas", "show", "nobody").code == 2


@pytest.mark.slow
def test_tools_are_disabled_and_granted(user: User) -> None:
    """A grant has what may be given; without one there is nothing to deny."""
    user.types("agents", "tools", "disable", "do_nothing", "--version", "1").worked()
    (version,) = user.types("agents", "tools", "versions", "do_nothing", "--json").worked().json
    assert version["enabled"] is False
    user.types("agents", "tools", "enable", "do_nothing").worked()
    first = user.types(
        "agents", "tools", "grant", "viewer", "query", "--allowed", '{"sql": true}'
    ).worked()
    assert "each call needs one" in first.err
    again = user.types(
        "agents", "tools", "grant", "viewer", "query", "--allowed", '{"sql": true}'
    ).worked()
    assert "each call needs one" not in again.err
    user.types("agents", "tools", "deny", "viewer", "query", "--denied", '{"sql": ["x"]}').worked()
    shown = user.types("agents", "tools", "show", "query", "--json").worked().json
    grant = {"role": "viewer", "allowed": {"sql": True}, "denied": {"sql": ["x"]}}
    assert shown["grants"] == [grant]
    user.types("agents", "tools", "deny", "viewer", "query").worked()
    assert user.types("agents", "tools", "deny", "viewer", "query").code == 2
    assert user.types("agents", "tools", "grant", "viewer", "query", "--allowed", "[1]").code == 2
    assert user.types("agents", "tools", "disable", "no_such").code == 2
    assert "query" in {
        each["name"] for each in user.types("agents", "tools", "list", "--json").worked().json
    }


def test_policies_are_shown_and_disabled(user: User, db: Connection[Any]) -> None:
    """In the order of evaluation."""
    db.execute(SEED)
    user.types("tenants", "policies", "disable", "never").worked()
    (policy,) = user.types("tenants", "policies", "list", "--json").worked().json
    assert (policy["name"], policy["action"], policy["enabled"]) == ("never", "deny", False)
    user.types("tenants", "policies", "enable", "never").worked()
    assert (
        user.types("tenants", "policies", "show", "never", "--json").worked().json["enabled"]
        is True
    )
    assert user.types("tenants", "policies", "enable", "other").code == 2
