"""Carries the steps of a plan out: tool calls whose effect is `read`."""

from collections.abc import Mapping
from dataclasses import dataclass

from walagent.ask.decider import QuestionDecider
from walagent.ask.plan import PlanStep
from walagent.ask.results import StepResult
from walagent.ask.statements import Statements
from walagent.domain.run import RunSpec, StepKind
from walagent.message import Json
from walagent.moves import Call, RunLog

_SHOWN = 2000  # characters of a statement that the result repeats


@dataclass(frozen=True, slots=True)
class PlanActor:
    """Implements `Actor`."""

    statements: Statements
    decider: QuestionDecider

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        """Carry a step of a plan out and record its result; a failure is a result, too."""
        del run
        step = step_of(call)
        standing = self.decider.standing(log.steps)
        number = call.about.get("candidate", 0)
        results = standing.candidates[number].results if number else standing.results
        result = await self.statements.carry_out(step, results)
        await log.record(StepKind.RESULT, {**content_of(call, result), **call.about})


def step_of(call: Call) -> PlanStep:
    """Give the step of the plan that a call carries out."""
    return PlanStep.model_validate(call.call.arguments)


def content_of(call: Call, result: StepResult) -> Mapping[str, Json]:
    """Write a result as every tool call's is written, with the rows beside it."""
    return {
        "call_id": call.call.id,
        "name": call.call.name,
        "is_error": bool(result.error),
        "content": result.error or f"{len(result.rows):,} rows",
        **result.to_json(),
    }
