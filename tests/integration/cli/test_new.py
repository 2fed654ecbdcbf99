"""`walagent new`: a first agents.yaml, by options and at a terminal."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.integration.cli.terminal import at_terminal
from tests.integration.cli.user import DESK, User, empty_database

NO_OLLAMA = {"OLLAMA_HOST": "127.0.0.1:9"}
CHECK = "alter table support_tickets add check (category in ('bug', 'billing'))"


@pytest.fixture
def user(server: str, tmp_path: Path) -> Iterator[User]:
    """Somebody with a table, a key, and a database without walagent."""
    with empty_database(server) as dsn:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(DESK)
            conn.execute(CHECK)
        yield User(tmp_path, dsn, {**NO_OLLAMA, "OPENAI_API_KEY": "x"})


def has_schema(user: User) -> bool:
    """Whether anything of walagent is in the database."""
    with psycopg.connect(user.dsn or "") as conn:
        row = conn.execute("select to_regnamespace('agent') is not null").fetchone()
    return bool(row and row[0])


def test_the_only_table_and_the_first_model_are_taken(user: User) -> None:
    """The file is valid, nothing else was written, and three commands follow."""
    done = user.types("new", "--yes").worked()
    assert "gpt-5-mini" in done.err
    assert done.out.splitlines()[0].endswith(" try support_tickets --last 3")
    assert user.types("run", "--check").worked()
    text = (user.folder / "agents.yaml").read_text()
    assert "writes: [category]" in text
    assert "dsn" not in text  # DATABASE_URL names it
    assert not has_schema(user)


def test_options_choose_everything(user: User) -> None:
    """The password of a connection string is not stored."""
    dsn = make_conninfo(user.dsn or "", password="hunter22")
    named = User(user.folder, None, user.variables)
    options = ("--model", "claude-haiku-4-5", "--table", "public.support_tickets")
    done = named.types(
        "new", "--dsn", dsn, *options, "--writes", "category, status", "--prompt", "Sort them.",
        "--out", "first.yaml",
    ).worked()  # fmt: skip
    text = (user.folder / "first.yaml").read_text()
    assert "claude-haiku-4-5" in text
    assert "[category, status]" in text
    assert "Sort them." in text
    assert "hunter22" not in text + done.err + done.out
    assert "PGPASSWORD" in done.err
    assert "--config first.yaml" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--table", "nowhere"], "support_tickets"),
        (["--writes", "nothing"], "category"),
        (["--dsn", ""], "is empty"),
    ],
)
def test_what_does_not_exist_is_named(user: User, options: list[str], words: str) -> None:
    """Exit 2, the known names, and no file."""
    refused = user.types("new", "--yes", *options)
    assert refused.code == 2
    assert words in refused.err
    assert not (user.folder / "agents.yaml").exists()


def test_an_existing_file_is_not_replaced(user: User) -> None:
    """Not even with --yes."""
    user.writes("# mine\n")
    refused = user.types("new", "--yes")
    assert refused.code == 2
    assert "already exists" in refused.err
    assert (user.folder / "agents.yaml").read_text() == "# mine\n"


def test_a_terminal_is_asked(user: User) -> None:
    """For the table, the columns, the instructions, and before a file is replaced."""
    user.writes("# mine\n")
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("create table another (id bigint primary key, note text)")
    with at_terminal(user, "new", "--model", "gpt-4o", columns=200) as terminal:
        terminal.shows("Replace it?")
        terminal.enters("y")
        terminal.shows("support_tickets")
        terminal.shows("Table")
        terminal.enters("2")
        terminal.shows("[category]")
        terminal.enters("")
        terminal.shows("Instructions")
        terminal.enters("Sort them.")
        terminal.shows("try support_tickets")
        assert terminal.ends() == 0
    assert "Sort them." in (user.folder / "agents.yaml").read_text()


def test_no_answer_leaves_the_file(user: User) -> None:
    """The default is to keep it."""
    user.writes("# mine\n")
    with at_terminal(user, "new") as terminal:
        terminal.shows("Replace it?")
        terminal.enters("")
        assert terminal.ends() == 1
    assert (user.folder / "agents.yaml").read_text() == "# mine\n"
