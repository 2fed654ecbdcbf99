"""What somebody types in the first hour, in the wrong order or misspelled: the hint helps."""

from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.user import DESK, User, empty_database

ANYWHERE = [
    ("stauts", "walagent status"),
    ("logs", "walagent runs list"),
    ("list", "walagent runs list"),
    ("start", "walagent run"),
]
FILES = [
    ("replication: {slot: My-Slot}", "must have only a-z, 0-9 and _"),
    ("http_tools: {a: {url: example.com/x, description: d}}", "begins with http:// or https://"),
    ("mcp_servers: {a: {url: example.com, tools: {x: {}}}}", "begins with http:// or https://"),
    ("http: {public_url: example.com}", "begins with http:// or https://"),
    ("sync: {shapes: {My_Shape: {query: select 1, key: [a]}}}", "must begin with a-z"),
]


@pytest.mark.parametrize(("typed", "meant"), ANYWHERE)
def test_the_nearest_command_is_named(tmp_path: Path, typed: str, meant: str) -> None:
    """Also what other programs call it."""
    refused = User(tmp_path, None).types(typed)
    assert refused.code == 2
    assert f"The nearest is {meant}." in refused.err


@pytest.mark.few(2)
@pytest.mark.parametrize(("text", "words"), FILES)
def test_a_value_of_another_form_is_explained_in_words(
    tmp_path: Path, text: str, words: str
) -> None:
    """A regular expression is no explanation."""
    user = User(tmp_path, None)
    user.writes(text)
    said = user.types("run", "--check").err
    assert words in said
    assert "pattern" not in said
    assert "^" not in said


@pytest.mark.slow
def test_before_init_each_command_says_init(server: str, tmp_path: Path) -> None:
    """And before setup, ask says setup."""
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(DESK)
        user = User(tmp_path, dsn)
        user.writes("agents: {}\n")
        for command in ("apply", "runs", "why support_tickets 1", "agents list", "status"):
            refused = user.types(*command.split())
            assert (refused.code, "hint: Run walagent init." in refused.err) == (3, True), command
        assert "walagent database setup" in user.types("ask", "how many?").err
        user.types("database", "setup").worked()
        refused = user.types("ask", "--model", "embedded/e5", "how many?")
        assert (refused.code, "not a language model" in refused.err) == (2, True)
        nowhere = tmp_path / "missing" / "agents.yaml"
        refused = user.types("new", "--yes", "--model", "gpt-4o", "--out", str(nowhere))
        assert (refused.code, "cannot write" in refused.err) == (2, True), refused
        assert "Traceback" not in refused.err


@pytest.mark.slow
def test_a_role_that_was_dropped_is_named_with_what_to_do(server: str, tmp_path: Path) -> None:
    """Not with a grant for a role that does not exist."""
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        user = User(tmp_path, dsn)
        user.types("init").worked()
        role = f"dropped_{conn.info.backend_pid}"
        conn.execute(DESK)
        conn.execute(f"create role {role}; grant select on support_tickets to {role}".encode())
        conn.execute("select agent.attach('support_tickets', %s)", [f"model=gpt-4o, run_as={role}"])
        conn.execute("select agent.pause('support_tickets', 'holiday')")
        conn.execute(f"drop owned by {role} cascade; drop role {role}".encode())
        refused = user.types("agents", "resume", "support_tickets")
        assert f"Run create role {role}, or set another run_as." in refused.err
