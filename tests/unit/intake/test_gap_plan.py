"""Which choices for the rows of a gap can be applied."""

from dataclasses import replace

import pytest

from walagent.errors import ConfigError
from walagent.intake.gap_plan import SKIP, check_choice
from walagent.store.gaps import GapChoice
from walagent.store.resyncing import ResyncCandidate

TICKETS = ResyncCandidate(
    id=1,
    version=1,
    name="desk",
    relation="public.ticket",
    ops=["insert"],
    in_threads=False,
    has_table=True,
    has_key=True,
    columns={"changed_at": "timestamp with time zone"},
)
ALL, SINCE = GapChoice("all"), GapChoice("since", "changed_at")


@pytest.mark.parametrize("choice", [SKIP, ALL, SINCE])
def test_a_choice_that_the_table_allows_is_taken(choice: GapChoice) -> None:
    """It has a primary key and the column."""
    check_choice(TICKETS, choice)


@pytest.mark.parametrize(
    ("candidate", "choice", "says"),
    [
        (replace(TICKETS, has_table=False), ALL, "does not exist"),
        (replace(TICKETS, has_key=False), ALL, "no primary key"),
        (replace(TICKETS, has_key=False), SINCE, "no primary key"),
        (TICKETS, GapChoice("since", "id"), 'no time column "id"'),
        (replace(TICKETS, columns={}), SINCE, "no time column"),
    ],
)
def test_another_choice_is_refused_with_what_can_be_done(
    candidate: ResyncCandidate, choice: GapChoice, says: str
) -> None:
    """Skipping the rows always can."""
    with pytest.raises(ConfigError, match=says) as refused:
        check_choice(candidate, choice)
    assert refused.value.hint
    check_choice(candidate, SKIP)


def test_an_agent_in_threads_needs_no_choice() -> None:
    """It takes a turn where it has not answered."""
    on = replace(TICKETS, name="bot", relation="agent.event", in_threads=True)
    check_choice(on, SKIP)
    for choice in (ALL, SINCE):
        with pytest.raises(ConfigError, match="takes a turn where it has not answered"):
            check_choice(on, choice)
