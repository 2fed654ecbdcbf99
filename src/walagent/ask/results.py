"""What a step of a plan gave: rows, or why there are none.  It is what the run's step records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from walagent.ask.plan import PlanStep, StepType
from walagent.message import Json
from walagent.rows.rows import Rows


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step.

    Args:
        query: the statement or words that were asked.
        error: why it failed, for the planner and for people; "" when it did not.
        findings: what checks or the kind of the source have to say about it.
        fallback: whether the step's fallback gave it.
        first_error: why the step itself failed, if its fallback gave it.
    """

    id: str
    type: StepType
    rows: Rows = field(default_factory=lambda: Rows(()))
    query: str = ""
    error: str = ""
    findings: Sequence[str] = ()
    fallback: bool = False
    first_error: str = ""

    def to_json(self) -> dict[str, Json]:
        """Write it for the run's step."""
        return {
            "step": self.id,
            "type": self.type.value,
            **self.rows.to_json(),
            "query": self.query,
            "error": self.error,
            "findings": list(self.findings),
            "fallback": self.fallback,
            "first_error": self.first_error,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "StepResult":
        """Read what `to_json` wrote."""
        return cls(
            document["step"],
            StepType(document["type"]),
            Rows.from_json(document),
            document["query"],
            document["error"],
            tuple(document["findings"]),
            document["fallback"],
            document.get("first_error", ""),
        )


def scope_of(results: Mapping[str, StepResult]) -> Sequence[str]:
    """Say why there may be rows that the reader was not shown; each reason once."""
    return list(dict.fromkeys(said for each in results.values() for said in each.rows.scope))


def rests_on(steps: Sequence[PlanStep], results: Mapping[str, StepResult]) -> StepResult | None:
    """Give what the answer rests on: the last step's result that has rows, else that has none."""
    found = [results[step.id] for step in steps if step.id in results]
    shown = [each for each in found if each.rows.columns and each.type != StepType.VERIFY]
    with_rows = [each for each in shown if each.rows.texts]
    return next(reversed(with_rows or shown), None)


def shown_of(steps: Sequence[PlanStep], results: Mapping[str, StepResult]) -> Sequence[StepResult]:
    """Give the results that no analysis was made of, in the plan's order."""
    used = {name for step in steps if step.type == StepType.ANALYZE for name in step.depends_on}
    found = [results[each.id] for each in steps if each.id in results and each.id not in used]
    shown = [each for each in found if each.rows.columns and each.type != StepType.VERIFY]
    last = rests_on(steps, results)
    if last is None or any(each.rows.texts for each in shown):
        return shown
    return [last]
