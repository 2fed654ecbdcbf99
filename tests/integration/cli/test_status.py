"""`walagent status`: who reads, how far behind, what waits, on one screen."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.terminal import at_terminal
from tests.integration.cli.test_terminal_screens import STATE
from tests.integration.cli.user import DESK, User, empty_database

TITLES = ["reader", "lag", "wal", "queue", "waits", "paused", "today", "problem"]
_COLORS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def user(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """An operator of three attachments with runs in most states; nothing runs."""
    with empty_database(server) as dsn:
        user = User(tmp_path_factory.mktemp("status"), dsn)
        user.writes("replication: {slot: status}\nhttp: {enabled: false}")
        with psycopg.connect(dsn, autocommit=True) as conn:
            user.types("init").worked()
            conn.execute(f"{DESK}; {STATE.read_text()}".encode())
            yield user
            conn.execute("drop owned by screens_app; drop role screens_app")
            user.types("database", "uninstall", "--yes").worked()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_screen_fits_each_terminal(user: User, columns: int) -> None:
    """Titles at the left, in one order; what is longer continues beside its title."""
    with at_terminal(user, "status", columns=columns) as terminal:
        assert terminal.ends() == 3
    lines = _COLORS.sub("", terminal.shown).replace("\r\n", "\n").rstrip().split("\n")
    assert max(map(len, lines)) <= columns
    assert len(lines) <= 24
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == TITLES


@pytest.mark.slow
def test_a_person_must_start_a_reader_and_decide(user: User) -> None:
    """The same in JSON, in bytes and seconds, with the exit code of what needs a person."""
    ended = user.types("status", "--json")
    assert ended.code == 3
    found = ended.json
    assert found["reader"] is None
    assert found["wal"]["slot"] == "status"
    assert isinstance(found["wal"]["retained"], int)
    assert found["wal"]["alarm"] == 1 << 30
    assert found["waiting"]["approvals"] >= 1
    assert found["queue"]["running"] >= 1
    (paused,) = found["paused"]
    assert paused["attachment"] == "translate"
    assert 'column "language"' in paused["reason"]
    shown = user.types("status").out
    assert "none: start walagent run" in shown
    assert "walagent approvals list" in shown
    assert "retained by slot status" in shown


@pytest.fixture
def other(server: str, tmp_path: Path) -> Iterator[User]:
    """An operator of a database of its own."""
    with empty_database(server) as dsn:
        user = User(tmp_path, dsn)
        user.writes(
            "replication: {slot: status_other}\nhttp: {enabled: false}\nlog: {format: json}"
        )
        yield user
        user.types("database", "uninstall", "--yes").worked()


@pytest.mark.slow
def test_a_running_daemon_with_nothing_to_decide_is_fine(other: User) -> None:
    """The exit code is 0, and the reader has a name."""
    with other.starts("run") as daemon:
        daemon.says("reader.streaming")
        found = other.types("status", "--json").worked().json
        assert found["reader"]["pid"] > 0
        assert found["reader"]["name"]
        assert found["problems"] == []
        assert "(PID " in other.types("status").worked().out
        daemon.ends(signal.SIGTERM)


@pytest.mark.slow
def test_a_lost_slot_is_a_problem_with_its_fix(other: User) -> None:
    """As doctor reports it."""
    other.types("init").worked()
    other.types("wal", "drop-slot", "--yes").worked()
    ended = other.types("status")
    assert ended.code == 3
    assert "walagent wal resync" in ended.out
