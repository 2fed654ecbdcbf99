"""Several plans for one question, each carried out: what most of them come to is taken.

Choosing is a pure function of what was recorded, and no model has a say in it.  Plans that agree
are not proved right: they may share a misunderstanding.  Those that do not are worth a second look.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from walagent.ask.plan import Plan, PlanStep, read_plan
from walagent.ask.results import StepResult, rests_on
from walagent.errors import InvalidCallError
from walagent.message import Json
from walagent.postgres import pgtypes
from walagent.rows.rows import Rows

MOST: Final = 5  # each is a call of the model, and its statements


@dataclass(slots=True)
class PlanCandidate:
    """One of several plans.

    Args:
        number: from 1.
        written: as the planner wrote it.
        mistake: why it is no plan; "" when it is one.
    """

    number: int
    written: Mapping[str, Json] | None
    plan: Plan | None = None
    mistake: str = ""
    planned_at: int = 0  # the step with the planner's reply
    results: dict[str, StepResult] = field(default_factory=dict[str, StepResult])

    @property
    def has_steps(self) -> bool:
        """Whether there is something to carry out."""
        return self.plan is not None and self.plan.outcome == "steps"

    @property
    def failed(self) -> StepResult | None:
        """A step that has failed, if there is one: it is not planned again for a candidate."""
        return next((each for each in self.results.values() if each.error), None)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left to carry out."""
        if not self.has_steps or self.failed is not None:
            return True
        return len(self.results) == len(self._steps)

    @property
    def ready(self) -> Sequence[PlanStep]:
        """Steps whose needs are met."""
        return () if self.is_over else ready_steps(self._steps, self.results)

    @property
    def findings(self) -> int:
        """How much checks have found in its results."""
        return sum(len(each.findings) for each in self.results.values())

    @property
    def _steps(self) -> Sequence[PlanStep]:
        return self.plan.steps if self.plan else ()

    def comes_to(self) -> Hashable:
        """Give what its answer would rest on, so that equal results are equal."""
        found = rests_on(self._steps, self.results)
        return _comparable(found.rows) if found else None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The plan that is taken, and how many of those that could be carried out agree with it."""

    candidate: PlanCandidate
    agree: int
    of: int


def read_candidate(
    number: int, arguments: Mapping[str, Json] | None, planned_at: int = 0
) -> PlanCandidate:
    """Read what the planner has answered for one of them."""
    try:
        return PlanCandidate(number, arguments, read_plan(arguments), planned_at=planned_at)
    except InvalidCallError as error:
        return PlanCandidate(number, arguments, mistake=str(error), planned_at=planned_at)


def ready_steps(steps: Sequence[PlanStep], results: Mapping[str, Any]) -> Sequence[PlanStep]:
    """Give the steps that have no result yet, and whose needs have one."""
    return [
        step
        for step in steps
        if step.id not in results and all(needed in results for needed in step.depends_on)
    ]


def asks_back(candidates: Sequence[PlanCandidate]) -> PlanCandidate | None:
    """Give the first that asks back or refuses, if more than half of all plans do."""
    plans = [each for each in candidates if each.plan is not None]
    without = [each for each in plans if not each.has_steps]
    return without[0] if 2 * len(without) > len(plans) else None


def choose(candidates: Sequence[PlanCandidate]) -> Chosen | None:
    """Choose: the result that most came to, then the fewest findings, then the first.

    None when not one could be carried out.
    """
    done = [each for each in candidates if each.has_steps and each.failed is None]
    if not done:
        return None
    counts = Counter(each.comes_to() for each in done)
    best = min(done, key=lambda each: (-counts[each.comes_to()], each.findings, each.number))
    return Chosen(best, counts[best.comes_to()], len(done))


def _comparable(rows: Rows) -> Hashable:
    """Rows without order and column names, which differ between plans."""
    oids = [column.type_oid for column in rows.columns]
    plain = [
        tuple(_plain(text, oid) for text, oid in zip(row, oids, strict=True)) for row in rows.texts
    ]
    return tuple(sorted(plain, key=repr))


def _plain(text: str | None, oid: int) -> Hashable:
    if text is None or oid not in pgtypes.NUMBERS:
        return text
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    # As text: a number of the same value may have any number of zeros, and NaN equals nothing.
    return f"{number.normalize():f}" if number.is_finite() else text
