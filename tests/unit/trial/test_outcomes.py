"""What counts as the same outcome, and as a right one."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from walagent.domain.tool_spec import Effect
from walagent.message import Json
from walagent.trial.outcomes import Outcome, agree, is_right, label_of, outcome_of
from walagent.trial.significance import sign_test

EFFECTS = {"look": Effect.READ, "do_nothing": Effect.READ, "close": Effect.TRANSACTIONAL}


def run(
    *calls: tuple[str, Mapping[str, Json], bool | None],
    state: str = "succeeded",
    result: str = "Done.",
    more: Sequence[Mapping[str, Any]] = (),
) -> Outcome:
    """A run with these calls: name, arguments, whether it failed (None: it has no result)."""
    parts = [
        {"call": str(n), "name": name, "arguments": given}
        for n, (name, given, _) in enumerate(calls)
    ]
    steps: list[Mapping[str, Any]] = [
        {"kind": "reply", "content": {"parts": parts, "stop": "tool"}, "duration_ms": 1500},
        *more,
        *(
            {
                "kind": "result",
                "content": {"call_id": str(n), "name": name, "content": "", "is_error": failed},
                "duration_ms": 7,
            }
            for n, (name, _, failed) in enumerate(calls)
            if failed is not None
        ),
    ]
    numbered = [{"seq": n, **step} for n, step in enumerate(steps)]
    found = {"state": state, "result": result, "error": None, "tokens": 3, "cost": None}
    return outcome_of({**found, "steps": numbered}, EFFECTS)


def test_what_was_read_and_what_failed_is_not_compared() -> None:
    """Only effects count, with their arguments."""
    first = run(("close", {"id": 1}, False))
    assert agree(
        first, run(("look", {}, False), ("close", {"id": 2}, True), ("close", {"id": 1}, False))
    )
    assert not agree(first, run(("close", {"id": 2}, False)))
    assert not agree(first, run(("close", {"id": 1}, False), ("close", {"id": 1}, False)))
    assert first.seconds == 1.5


def test_a_text_counts_where_nothing_was_called() -> None:
    """Beside calls it only says what they did."""
    assert agree(run(("close", {}, False), result="x"), run(("close", {}, False), result="y"))
    assert agree(run(result="No  bug."), run(result="No bug."))
    assert not agree(run(result="No bug."), run(result="A bug."))
    assert not agree(run(("look", {}, False), result="No bug."), run(result="A bug."))
    assert agree(run(("do_nothing", {}, False), result="x"), run(result="y"))


def test_a_failure_agrees_with_a_failure_alone() -> None:
    """Whatever its reason."""
    assert agree(run(state="dead"), run(state="failed", result="x"))
    assert not agree(run(), run(state="failed"))


def test_arguments_are_those_that_a_person_made_of_them() -> None:
    """The effect had them."""
    edit = {
        "kind": "decision",
        "content": {"call_id": "0", "edited": {"id": 7}},
        "duration_ms": None,
    }
    edited = run(("close", {"id": 1}, False), more=[edit])
    assert agree(edited, run(("close", {"id": 7}, False)))


@pytest.mark.parametrize(
    ("label", "right"),
    [
        ({"values": {"id": "1"}}, True),
        ({"values": {"id": 2}}, False),
        ({"values": {"other": None}}, False),
        ({"tools": ["close"]}, True),
        ({"tools": ["close", "close"]}, False),
        ({"tools": ["close"], "values": {"id": 1}, "result": " Done. "}, True),
        ({"result": "Not done."}, False),
    ],
)
def test_a_run_is_right_if_all_of_its_label_is_true(label: dict[str, Any], *, right: bool) -> None:
    """A number is equal to its text: a label can come from a column."""
    assert is_right(label, run(("look", {"id": 9}, False), ("close", {"id": 1}, False))) is right
    assert not is_right(label, run(("close", {"id": 1}, False), state="failed"))


def test_a_run_is_right_by_its_own_label() -> None:
    """Also one that called nothing."""
    for each in (run(), run(("close", {"id": 1}, False), ("close", {"note": None}, False))):
        assert is_right(label_of(each), each)


@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (5, 5, 1.0),
        (5, 0, 0.0625),
        (1, 9, 22 / 1024),
        (12, 3, 1152 / 32768),
    ],
)
def test_the_p_value_is_exact(better: int, worse: int, p: float) -> None:
    """Of the binomial distribution with both sides, as McNemar's exact test has it."""
    assert sign_test(better, worse) == pytest.approx(p, rel=1e-12)
    assert sign_test(worse, better) == sign_test(better, worse)


def test_the_p_value_of_many_cases_is_a_number() -> None:
    """No overflow."""
    assert 0 < sign_test(2100, 1900) < 0.002
