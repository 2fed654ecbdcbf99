"""What the lists look like on terminals of 80, 120 and 200 columns."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from tests.helpers.golden import GOLDEN, check_golden, normalized
from tests.integration.cli.terminal import CTRL_C, at_terminal
from tests.integration.cli.user import DESK, User, empty_database

WIDTHS = (80, 120, 200)
SCREENS = {
    "agents": ["agents", "list", "--all"],
    "approvals": ["approvals"],
    "budgets": ["budgets"],
    "changes": ["changes"],
    "compared": ["evaluations", "compare", "1", "2"],
    "dataset": ["evaluations", "datasets", "show", "golden"],
    "datasets": ["evaluations", "datasets"],
    "evaluation": ["evaluations", "show", "2"],
    "evaluations": ["evaluations"],
    "models": ["models"],
    "runs": ["runs"],
    "show": ["show", "5"],
    "unscored": ["runs", "unscored", "--since", "90d"],
    "why": ["why", "support_tickets", "4"],
}
STATE = Path(__file__).with_name("terminal_screens.sql")
_COLORS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
# The column is as wide as the time until the period ends, and its title is at the right.
_RESETS = re.compile(r" +(?:in \d+[mhdw]|(resets))$", re.MULTILINE)


@pytest.fixture(scope="module")
def user(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """An operator of three attachments with runs in most states."""
    with empty_database(server) as dsn:
        user = User(tmp_path_factory.mktemp("screens"), dsn)
        user.writes("replication: {slot: screens}")
        with psycopg.connect(dsn, autocommit=True) as conn:
            user.types("database", "migrate").worked()
            conn.execute(f"{DESK}; {STATE.read_text()}".encode())
            yield user
            conn.execute("drop owned by screens_app; drop role screens_app")


def rendered(user: User, *arguments: str, columns: int) -> list[str]:
    """The lines that a terminal shows."""
    with at_terminal(user, *arguments, columns=columns) as terminal:
        terminal.ends()
    return _COLORS.sub("", terminal.shown).replace("\r\n", "\n").split("\n")


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_expected(
    name: str, columns: int, user: User, *, update_golden: bool
) -> None:
    """A row is a line of the terminal, with the same columns on each."""
    lines = rendered(user, *SCREENS[name], columns=columns)
    if name != "show":  # a long value without blanks
        assert max(map(len, lines)) <= columns
    assert not any(line.startswith("note: omitted") for line in lines)
    assert user.dsn is not None
    database = conninfo_to_dict(user.dsn)["dbname"]
    text = normalized("\n".join(lines), {str(database): "DATABASE"})
    check_golden(
        f"terminal/{name}.{columns}.txt",
        _RESETS.sub(lambda end: f" {end[1] or 'in N'}", text),
        update=update_golden,
    )


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_paused_agent_takes_few_lines(columns: int, user: User) -> None:
    """Its row and the reason."""
    lines = rendered(user, "agents", columns=columns)
    at = next(n for n, line in enumerate(lines) if line.startswith("translate"))
    assert lines[at + 1].startswith("    paused: column ")
    assert not lines[at + 2].startswith("  ")


@pytest.mark.slow
def test_a_watched_list_changes_until_ctrl_c(user: User) -> None:
    """On a screen of its own: what was on the terminal comes back."""
    assert user.dsn is not None
    with (
        psycopg.connect(user.dsn, autocommit=True) as conn,
        at_terminal(user, "runs", "list", "--watch", "--state", "cancelled") as terminal,
    ):
        terminal.shows("no matching runs")
        _cancel(conn)
        terminal.shows("cancelled")
        terminal.types(CTRL_C)
        assert terminal.ends() == 0
        conn.execute("delete from agent.run where state = 'cancelled'")
    assert terminal.shown.rstrip().endswith("\x1b[?1049l")
    piped = user.types("runs", "list", "--watch")
    assert (piped.code, "--watch" in piped.err) == (2, True)


def _cancel(conn: Connection[Any]) -> None:
    conn.execute(
        "insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, key,"
        " state, finished_at) select 'manual', id, id, 1, '{}', '9', 'cancelled', now()"
        " from agent.attachment where name = 'support'"
    )


def test_no_screen_is_left_of_a_command_that_is_gone() -> None:
    """Each file belongs to a screen."""
    expected = {f"{name}.{columns}.txt" for name in SCREENS for columns in WIDTHS}
    assert {path.name for path in Path(GOLDEN / "terminal").iterdir()} == expected
