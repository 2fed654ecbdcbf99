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


@dataclass(frozen=True, slots=True)
class Pair:
    """The same case in two evaluations."""

    first: Case
    second: Case

    @property
    def agrees(self) -> bool:
        """Whether both candidates had the same effects."""
        return effects(self.first) == effects(self.second)


def pairs_of(first: Sequence[Case], second: Sequence[Case]) -> list[Pair]:
    """Pair the cases of two evaluations: by the question, the run, or the case of the dataset."""
    others = {_identity(case): case for case in second}
    return [Pair(case, others[_identity(case)]) for case in first if _identity(case) in others]


def _identity(case: Case) -> tuple[str, int]:
    if "question" in case["candidate"]:
        return "question", case["case_id"]
    if case["run_id"] is not None:
        return "run", case["run_id"]
    return "case", case["case_id"]


def effects(case: Case) -> tuple[bool, list[tuple[str, Json]]]:
    """Return whether the candidate succeeded, and its calls that acted.

    Of a question, whether its rows are the expected ones stands for them.
    """
    candidate = case["candidate"]
    if "question" in candidate:
        return candidate["state"] == "succeeded", [("answer", case["is_right"])]
    calls = [
        (call["tool"], call["arguments"])
        for call in candidate["calls"]
        if call["state"] == "done" and not call["reads"]
    ]
    return candidate["state"] == "succeeded", calls


def compared(
    pairs: Sequence[Pair], first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, Json]:
    """Compare two evaluations: a document with the cases that differ."""
    labelled = [
        (pair.first["is_right"], pair.second["is_right"])
        for pair in pairs
        if pair.first["is_right"] is not None and pair.second["is_right"] is not None
        and pair.first["expected"] == pair.second["expected"]
    ]  # fmt: skip
    differing = [pair for pair in pairs if not pair.agrees]
    return {
        "first": dict(first),
        "second": dict(second),
        "cases": len(pairs),
        "agreeing": len(pairs) - len(differing),
        "differing": [{"first": pair.first, "second": pair.second} for pair in differing],
        "right": asdict(compare_right(labelled)),
    }
