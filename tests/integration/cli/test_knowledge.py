"""`walagent knowledge memories`, `document` and `answer`, as a person types them."""

import json
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from tests.integration.cli.user import User


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with an empty database."""
    return User(tmp_path, dsn)


@pytest.mark.slow
def test_memories_are_stored_found_corrected_and_deleted(user: User) -> None:
    """What `add` prints is the ID that the others take."""
    added = user.types(
        "knowledge", "memories", "add", "desk", "Ann handles refunds", "--key", "refunds"
    ).worked()
    first = added.out.strip()
    assert UUID(first)
    assert 'no agent "desk" yet' in added.err
    listed = json.loads(
        user.types("knowledge", "memories", "list", "--agent", "desk", "--json").worked().out
    )
    assert [(row["id"], row["value"], row["trust"]) for row in listed] == [
        (first, "Ann handles refunds", "trusted")
    ]
    found = user.types(
        "knowledge", "memories", "list", "--agent", "desk", "--query", "who refunds?"
    ).worked()
    assert "Ann handles refunds" in found.out
    second = (
        user.types("knowledge", "memories", "correct", first, "Bob handles refunds")
        .worked()
        .out.strip()
    )
    shown = json.loads(user.types("knowledge", "memories", "show", first, "--json").worked().out)
    assert shown["superseded_by"] == second
    assert "Bob" in user.types("knowledge", "memories", "show", second).worked().out
    user.types("knowledge", "memories", "forget", second, "--retract").worked()
    assert json.loads(user.types("knowledge", "memories", "list", "--json").worked().out) == []
    assert (
        len(json.loads(user.types("knowledge", "memories", "list", "--all", "--json").worked().out))
        == 2
    )
    assert "deleted 2" in user.types("knowledge", "memories", "prune", "--keep", "0").worked().err
    missing = user.types("knowledge", "memories", "forget", first)
    assert (missing.code, "does not exist" in missing.err) == (2, True)
    assert user.types("knowledge", "memories", "list", "--query", "x").code == 2
    assert user.types("knowledge", "memories", "show", "nothing").code == 2


@pytest.mark.slow
def test_documents_are_stored_searched_and_removed(user: User) -> None:
    """All files or none."""
    (user.folder / "refunds.md").write_text("Money back within 30 days.")
    (user.folder / "binary.bin").write_bytes(b"\xff\xfe")
    failed = user.types("knowledge", "documents", "add", "refunds.md", "binary.bin")
    assert (failed.code, "UTF-8" in failed.err) == (2, True)
    assert json.loads(user.types("knowledge", "documents", "list", "--json").worked().out) == []
    added = user.types(
        "knowledge", "documents", "add", "refunds.md", "--metadata", '{"a": 1}'
    ).worked()
    (found,) = json.loads(
        user.types("knowledge", "documents", "search", "money", "--json").worked().out
    )
    assert (found["id"], found["title"]) == (added.out.strip(), "refunds")
    (listed,) = json.loads(user.types("knowledge", "documents", "list", "--json").worked().out)
    assert (listed["bytes"], listed["source"]) == (26, "refunds.md")
    user.types("knowledge", "documents", "rm", found["id"]).worked()
    assert user.types("knowledge", "documents", "rm", found["id"]).code == 2
    assert "no document" in user.types("knowledge", "documents", "search", "money").worked().err


def test_a_question_that_does_not_wait_has_no_answer(user: User) -> None:
    """The error says so."""
    ended = user.types("approvals", "answer", "1", "yes")
    assert (ended.code, "not a question" in ended.err) == (2, True)
    assert user.dsn is not None
    with psycopg.connect(user.dsn) as conn:
        assert conn.execute("select count(*) from agent.approval").fetchone() == (0,)
