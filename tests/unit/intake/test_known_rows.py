"""Which rows were ingested before a gap, so that they are not worked again after it."""

from typing import Any

import pytest

from walagent.cli.wal.resync import read_choice
from walagent.errors import ConfigError
from walagent.intake.known_rows import RowTime, is_known
from walagent.store.gaps import GapChoice
from walagent.store.resyncing import LastRun

ROW = {"id": 1, "text": "a", "status": "new", "at": "10:00"}
EARLY, LATE = RowTime("10:00:00.5+00", "t"), RowTime("10:00:00.5+00", "f")
ROUND = RowTime("10:00:00+00", "t")


def known(
    now: dict[str, Any],
    told: RowTime = EARLY,
    *,
    wrote: bool = False,
    **former: Any,  # noqa: ANN401
) -> bool:
    """Ask about a row that is *now* so, and whose last run was about ROW."""
    change = {"op": "update", "new": ROW, **former}
    return is_known({"new": {**ROW, **now}}, LastRun(change, wrote), told, "at", ["status"])


def test_a_row_without_a_run_is_not_known() -> None:
    """Nor is one of which the last that was heard is that it was deleted."""
    assert not is_known({"new": ROW}, None, EARLY, "at", [])
    deleted = LastRun({"op": "delete", "old": {}}, wrote=True)
    assert not is_known({"new": ROW}, deleted, EARLY, "at", [])


def test_a_row_that_has_not_moved_is_known() -> None:
    """Whatever its own agent has written to it by any tool, at whatever time."""
    assert known({})
    assert known({"status": "done", "text": "b"}, LATE)


def test_a_round_figure_proves_little() -> None:
    """Two changes of one second, or of one day, have the same."""
    assert known({"status": "done"}, ROUND)
    assert not known({"text": "b"}, ROUND)


@pytest.mark.parametrize("change", [{"text": "b"}, {"status": "done"}])
def test_a_row_that_has_changed_and_moved_is_not_known(change: dict[str, str]) -> None:
    """In the gap, or before it in a transaction that committed in it."""
    assert not known({"at": "10:05", **change}, EARLY)
    assert not known({"at": "10:05", **change}, LATE)


def test_a_row_that_has_moved_alone_is_known_only_if_that_was_early() -> None:
    """Before the gap such a change was ingested, and started no run; in it, nobody knows."""
    assert known({"at": "10:05"}, EARLY)
    assert not known({"at": "10:05"}, LATE)


def test_a_row_that_its_own_run_has_written_is_known() -> None:
    """Unless the application has changed it, too."""
    assert known({"at": "11:00", "status": "done"}, LATE, wrote=True)
    assert not known({"at": "11:00", "status": "done", "text": "b"}, LATE, wrote=True)


def test_a_value_that_the_wal_left_out_is_not_compared() -> None:
    """It was not changed by the last change that was ingested."""
    former = {name: value for name, value in ROW.items() if name != "text"}
    assert known({"at": "10:05"}, EARLY, new=former, unchanged=["text"])


def test_a_column_that_the_agent_is_not_shown_is_not_needed() -> None:
    """Then what it is shown decides, but for what it writes itself."""
    shown = {"id": 1, "text": "a", "status": "new"}
    former = LastRun({"op": "insert", "new": shown}, wrote=False)
    assert is_known({"new": {**shown, "status": "done"}}, former, EARLY, "at", ["status"])
    assert not is_known({"new": {**shown, "text": "b"}}, former, EARLY, "at", ["status"])
    assert not is_known({"new": shown}, former, LATE, "at", ["status"])


@pytest.mark.parametrize(
    ("word", "choice"),
    [
        ("skip", GapChoice("skip")),
        ("All", GapChoice("all")),
        ("since:updated_at", GapChoice("since", "updated_at")),
        ("since: Changed At ", GapChoice("since", "Changed At")),
        ("since:a:b", GapChoice("since", "a:b")),
    ],
)
def test_a_choice_is_read(word: str, choice: GapChoice) -> None:
    """As options and answers have it."""
    assert read_choice(word) == choice


@pytest.mark.parametrize("word", ["", "none", "since", "since:", "all:x", "skip:"])
def test_what_is_no_choice_is_refused(word: str) -> None:
    """With what one looks like."""
    with pytest.raises(ConfigError) as caught:
        read_choice(word)
    assert "since:updated_at" in caught.value.hint
