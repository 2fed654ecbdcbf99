"""Compare evaluations: which of two versions is right more often, and how sure that is.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from walagent.message import Json
from walagent.trial.significance import sign_test

Case = Mapping[str, Any]  # a row of agent.evaluation_case


@dataclass(frozen=True, slots=True)
class Test:
    """Two versions on the same cases.

    Args:
        cases: that both were executed on, and that have a label.
        better: on which only the second one is right.
        worse: on which only the first one is.
        p: the probability of a split at least as uneven, if neither is better.
    """

    cases: int
    first_right: int
    second_right: int
    better: int
    worse: int
    p: float


def compare_right(pairs: Sequence[tuple[bool, bool]]) -> Test:
    """Compare by what is right: pairs of the first and the second version."""
    better = sum(second and not first for first, second in pairs)
    worse = sum(first and not second for first, second in pairs)
    rights = (sum(first for first, _ in pairs), sum(second for _, second in pairs))
    return Test(len(pairs), *rights, better, worse, sign_test(better, worse))


def with_tests(counts: Mapping[str, Any], cases: Sequence[Case]) -> dict[str, Json]:
    """Add to the counts of an evaluation how its candidate compares with the recorded runs."""
    pairs = [
        (case["was_right"], case["is_right"])
        for case in cases
        if case["was_right"] is not None and case["is_right"] is not None
    ]
    return {**counts, "against_recorded": asdict(compare_right(pairs))}


def compared(
    counts: Mapping[str, Any],
    differing: Sequence[tuple[Case, Case]],
    first: Mapping[str, Any],
    second: Mapping[str, Any],
) -> dict[str, Json]:
    """Compare two evaluations: a document with the cases that differ.

    Args:
        counts: of the cases that both have, as `store.people.evaluations.compare` returns them.
        differing: these cases, as both have them.
    """
    right = Test(
        counts["tested"], counts["first_right"], counts["second_right"], counts["better"],
        counts["worse"], sign_test(counts["better"], counts["worse"]),
    )  # fmt: skip
    return {
        "first": dict(first),
        "second": dict(second),
        "cases": counts["cases"],
        "agreeing": counts["agreeing"],
        "differing": [{"first": one, "second": other} for one, other in differing],
        "right": asdict(right),
    }
