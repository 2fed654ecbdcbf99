"""The options that select runs."""

from datetime import datetime, timedelta

import click
import pytest
from click.testing import CliRunner

from walagent.cli.runs.run_filters import run_filters, since
from walagent.domain.run import RunState
from walagent.store.people.run_filter import RunFilter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("3h", timedelta(hours=3)),
        ("7 days", timedelta(days=7)),
        ("1h 30m", timedelta(minutes=90)),
        ("2026-01-31", datetime(2026, 1, 31).astimezone()),
        ("2026-01-31T14:00:00+00:00", datetime.fromisoformat("2026-01-31T14:00:00+00:00")),
    ],
)
def test_since_is_an_age_or_a_date(text: str, expected: datetime | timedelta) -> None:
    """A date without a time zone is local."""
    assert since(None, None, text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "3", "20260131", "yesterday", "99999999999 weeks", "nan", "1e9d"]
)
def test_another_text_is_no_time(text: str) -> None:
    """A number without a unit could be anything."""
    with pytest.raises(click.BadParameter, match="3h"):
        since(None, None, text)


def test_a_command_receives_what_was_chosen() -> None:
    """And an empty filter is recognized, so that no command changes every run by mistake."""
    seen = list[RunFilter]()

    @click.command()
    @run_filters(states=[RunState.FAILED, RunState.DEAD])
    def command(filters: RunFilter) -> None:
        seen.append(filters)

    def types(*words: str) -> int:
        return CliRunner().invoke(command, words).exit_code

    assert (
        types("--state", "failed", "--state", "dead", "--attachment", "desk", "--since", "3h") == 0
    )
    assert types() == 0
    assert types("--state", "running") == 2
    chosen, nothing = seen
    assert chosen.states == (RunState.FAILED, RunState.DEAD)
    assert (chosen.attachment, chosen.since) == ("desk", timedelta(hours=3))
    assert (chosen.is_empty, nothing.is_empty) == (False, True)
