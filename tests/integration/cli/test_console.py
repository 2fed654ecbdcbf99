"""`walagent console`: links and the end of sessions."""

import json
import re
import socket
from pathlib import Path

import pytest

from tests.integration.cli.user import User


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """The operator."""
    return User(tmp_path, dsn)


def test_a_link_has_a_code_that_expires(user: User) -> None:
    """It is a token of five minutes that can only read, of a principal that was made for it."""
    ended = user.types("console", "--link", "--http", "127.0.0.1:9").worked()
    assert re.fullmatch(r"http://127\.0\.0\.1:9/sign-in#code=wla_\S+", ended.out.strip())
    (token,) = json.loads(user.types("tenants", "tokens", "list", "--json").worked().out)
    assert (token["label"], token["scopes"]) == ("console link", ["read"])
    assert token["expires_at"] is not None
    assert user.types("console", "--link").worked()  # the principal exists now
    (principal,) = json.loads(user.types("tenants", "principals", "list", "--json").worked().out)
    assert principal["roles"] == ["admin"]


def test_nothing_answers_at_the_address(user: User) -> None:
    """A link to nowhere is not printed; the hint says what to start, and no code is left."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ended = user.types("console", "--http", str(free.getsockname()[1]))
    assert ended.code == 2
    assert "nothing answers" in ended.err
    assert "walagent run" in ended.err
    assert json.loads(user.types("tenants", "tokens", "list", "--json").worked().out) == []


def test_all_sessions_end_with_one_command(user: User) -> None:
    """Unused links end, too; other tokens stay."""
    user.types("console", "--link").worked()
    user.types("console", "--link").worked()
    (principal,) = json.loads(user.types("tenants", "principals", "list", "--json").worked().out)
    user.types("tenants", "tokens", "create", principal["name"], "--label", "mine").worked()
    assert "ended 2" in user.types("console", "--sign-out-all").worked().err
    states = {
        (each["label"], each["state"])
        for each in json.loads(user.types("tenants", "tokens", "list", "--json").worked().out)
    }
    assert states == {("console link", "revoked"), ("mine", "valid")}
