"""What a matched change starts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.build import WHEN, attachment, change, changed
from walagent.domain.change import Begin, Op, Value
from walagent.domain.run import NewRun, RunState
from walagent.intake.deferred_codec import read_change
from walagent.intake.new_runs import new_run, state_of, unabsorbed
from walagent.intake.verdicts import Deferred, Gone, Raised, Verdict
from walagent.matching.document import SizeLimits, cut_off, is_found, unnamed
from walagent.matching.match import Match, TooDeep
from walagent.matching.origin import Origin
from walagent.postgres.lsn import Lsn

ON = attachment(key_columns=("id", "code"))
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=6), st.just("x\udcff"))


@given(VALUES, VALUES)
def test_a_run_is_pending_if_its_row_can_be_found(id: Value, code: Value) -> None:  # noqa: A002
    """The quick look and the two that say what is wrong agree about every row."""
    it, room = change(Op.INSERT, {"id": id, "code": code}), SizeLimits(value=4)
    wrong = unnamed(it, ON) or cut_off(it, ON, room)
    assert is_found(it, ON, room) is not bool(wrong)
    assert state_of(Match(ON, it, None), room)[0] is (RunState.DEAD if wrong else RunState.PENDING)


BEGIN = Begin(4711, Lsn(100), WHEN)
ORIGIN = Origin(9, 2, 3)
IT = change(Op.INSERT, {"id": 1, "code": "a"})
LATER = attachment(key_columns=("id",), debounce=5.0, ordering_key=("code",))
MATCH = Match(LATER, IT, ORIGIN)
# What came of a match: the state of its run, its SQLSTATE, and whether other changes join the run.
OUTCOMES: dict[str, tuple[Verdict | TooDeep, RunState, str | None, bool]] = {
    "true": (MATCH, RunState.PENDING, None, True),
    "broken": (Deferred(MATCH, "no column"), RunState.PENDING, None, False),
    "an error": (Raised(MATCH, "22012", "division by zero"), RunState.DEAD, "22012", False),
    "gone": (Gone(MATCH), RunState.DEAD, "02000", False),
    "hidden": (Gone(MATCH, hidden=True), RunState.SKIPPED, "02000", False),
    "too deep": (TooDeep(LATER, IT, ORIGIN), RunState.SKIPPED, None, False),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_each_outcome_is_a_run_that_says_why(name: str) -> None:
    """A run that ends at once has a reason, and no other change joins it."""
    outcome, state, sqlstate, collects = OUTCOMES[name]
    run = new_run(BEGIN, outcome)
    assert (run.state, (run.error or {}).get("sqlstate")) == (state, sqlstate)
    assert (run.error is None) == (name == "true")
    assert run.debounce == (5.0 if collects else None)
    assert (run.deferred is not None) == (name == "broken") == ("deferred" in run.change)
    assert run.deferred is None or read_change(run.deferred) == IT
    assert (run.cause_run, run.depth) == (9, 4)
    assert (run.commit_lsn, run.ordinal, run.key) == (100, 0, "1")
    assert run.ordering_key is not None


def test_a_write_of_a_person_has_no_cause() -> None:
    """And is at depth 0."""
    run = new_run(BEGIN, replace(MATCH, origin=None))
    assert (run.cause_run, run.depth) == (None, 0)


def test_a_run_has_the_priority_of_its_version_and_a_turn_ten_more() -> None:
    """A person waits for a turn."""
    assert new_run(BEGIN, replace(MATCH, attachment=changed(LATER, priority=-7))).priority == -7
    agent = changed(attachment(key_columns=("id",), turns={}), priority=5)
    event = change(Op.INSERT, {"id": 1, "thread_id": "x", "number": 1})
    assert new_run(BEGIN, Match(agent, event, None)).priority == 15


RUNS = st.lists(
    st.builds(
        lambda at, key, kind, state: replace(
            PLAIN, attachment_id=at, ordering_key=key, kind=kind, state=state
        ),
        st.integers(1, 2),
        st.sampled_from(["x", "y"]),
        st.sampled_from(["turn", "turn", "agent"]),
        st.sampled_from([RunState.PENDING, RunState.PENDING, RunState.DEAD]),
    ),
    max_size=12,
)
PLAIN = NewRun(1, 1, Lsn(1), 0, WHEN, {}, None, None, 5)


@given(RUNS)
def test_one_turn_is_left_of_each_agent_and_thread(runs: list[NewRun]) -> None:
    """The first one; runs of other kinds, and those that have ended, are all left, in order."""
    runs = [replace(run, ordinal=n) for n, run in enumerate(runs)]
    first = dict[tuple[int, str | None], int]()
    for run in runs:
        if run.kind == "turn" and run.state is RunState.PENDING:
            first.setdefault((run.attachment_id, run.ordering_key), run.ordinal)
    assert unabsorbed(runs) == [
        run
        for run in runs
        if run.kind != "turn"
        or run.state is not RunState.PENDING
        or first[run.attachment_id, run.ordering_key] == run.ordinal
    ]
