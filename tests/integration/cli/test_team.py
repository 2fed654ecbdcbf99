"""Teams on the command line: from their creation to a decision."""

from pathlib import Path

import pytest

from tests.integration.cli.user import User


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a database."""
    return User(tmp_path, dsn)


@pytest.mark.slow
def test_a_team_decides_and_works(user: User) -> None:
    """Each command does what it says, and what is refused has a reason."""

    def types(*words: str, stdin: str = "") -> str:
        return user.types("threads", "teams", *words, stdin=stdin).worked().out.strip()

    user.types("tenants", "principals", "add", "ada").worked()
    thread = types("create", "crew", "ada", "--consensus", "0.7")
    (team,) = user.types("threads", "teams", "list", "--json").worked().json
    assert (team["name"], team["thread_id"]) == ("crew", thread)
    types("add", "crew", "ada", "--role", "critic", "--weight", "0.5")
    members = user.types("threads", "teams", "members", "crew", "--json").worked().json
    assert {"principal": "ada", "role": "critic", "weight": 0.5} in [
        {**each, "weight": float(each["weight"])} for each in members
    ]
    discussion = types("discuss", "crew", "Colors")
    assert discussion in types("discussions", "crew")
    proposal = types("propose", "crew", "Paint it", "--deadline", "2999-01-01")
    assert "Paint it" in types("proposals", "crew")
    assert types("vote", proposal, "yes", "--reason", "Nice.") == "open"
    again = user.types("threads", "teams", "vote", proposal, "no")
    assert (again.code, "has voted" in again.err) == (2, True), again.err
    first = types("task", "crew", "Dig")
    second = types("task", "crew", "Plant", "--needs", first)
    early = user.types("threads", "teams", "update", second, "started")
    assert (early.code, "Dig" in early.err) == (2, True), early.err
    types("update", first, "started")
    types("update", first, "completed", "--note", "Deep.")
    types("update", second, "started")
    states = {each["title"]: each["state"] for each in _json(user, "tasks")}
    assert states == {"Dig": "completed", "Plant": "started"}
    assert types("save", "crew", "plan", "-", stdin="Roses.") == "1"
    stale = user.types(
        "threads", "teams", "save", "crew", "plan", "-", "--expected", "0", stdin="Tulips."
    )
    assert (stale.code, "has version 1" in stale.err) == (2, True), stale.err
    assert [each["content"] for each in _json(user, "artifacts")] == ["Roses."]
    types("remove", "crew", "ada")
    assert len(_json(user, "members")) == 1


def test_a_team_that_does_not_exist(user: User) -> None:
    """Nothing is listed as if it were empty."""
    for words in (["tasks", "no"], ["discuss", "no", "x"], ["propose", "no", "x"]):
        refused = user.types("threads", "teams", *words)
        assert (refused.code, "does not exist" in refused.err) == (2, True), refused.err


def _json(user: User, part: str) -> list[dict[str, str]]:
    return user.types("threads", "teams", part, "crew", "--json").worked().json
