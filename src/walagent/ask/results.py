"""What a step of a plan gave: rows, or why there are none.  It is what the run's step records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from walagent.ask.plan import StepType
from walagent.message import Json
from walagent.store.guard.rows import Rows


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step.

    Args:
        query: the statement or words that were asked.
        error: why it failed, for the planner and for people; "" when it did not.
        findings: what checks or the kind of the source have to say about it.
        fallback: whether the step's fallback gave it.
    """

    id: str
    type: StepType
    rows: Rows = field(default_factory=lambda: Rows(()))
    query: str = ""
    error: str = ""
    findings: Sequence[str] = ()
    fallback: bool = False

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
        )
