"""A plan: typed steps that depend on one another, checked before anything runs.

The planner is made to answer in this form, and whatever it answers is checked all the same: a
model may know the form and still write a circle.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from walagent.errors import InvalidCallError
from walagent.message import Json

MOST_STEPS: Final = 10
_SEARCH_INPUT: Final = 'SEARCH: {"query": "…"}; '


class StepType(StrEnum):
    """What a step does."""

    SQL = "SQL"  # one read-only statement
    ANALYZE = "ANALYZE"  # SQL over the rows of earlier steps, or one of a few operations on them
    SEARCH = "SEARCH"  # the web; results are data that nobody vouches for
    VERIFY = "VERIFY"  # checks of earlier steps


class PlanStep(BaseModel):
    """One step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(min_length=1, max_length=64, description="A short name, unique in the plan.")
    type: StepType
    description: str = Field(description="What the step finds out, in a sentence.")
    tool_input: Mapping[str, Json] | None = Field(
        default=None,
        description='SQL: {"query": "select …"}; ANALYZE: {"sql": "select … from <step id>"} or'
        ' {"operation": "sum", "column": "…"} or {"operation": "calculate", "expression": "…"};'
        ' SEARCH: {"query": "…"}; VERIFY: null.',
    )
    depends_on: Sequence[str] = Field(default=(), description="Steps whose results it needs.")
    fallback: "PlanStep | None" = Field(
        default=None, description="Taken once, when the step has failed for good."
    )

    def text(self, name: str) -> str:
        """One text of the input, "" when it is not there."""
        value = (self.tool_input or {}).get(name)
        return value if isinstance(value, str) else ""


class Plan(BaseModel):
    """What is to be done about a question: steps, or why there are none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reasoning: str = Field(description="Why these steps answer the question, in a few sentences.")
    outcome: Literal["steps", "clarify", "refuse"] = Field(
        default="steps",
        description="clarify: the question can mean several things; refuse: this database cannot"
        " answer it.",
    )
    reply: str = Field(
        default="", description="With clarify: a question back. With refuse: the reason."
    )
    assumptions: Sequence[str] = Field(default=(), description="What was taken for granted.")
    steps: Sequence[PlanStep] = ()


def plan_schema(*, search: bool = True) -> dict[str, Any]:
    """The JSON Schema of a plan, for the model's structured output.

    Args:
        search: whether a plan may search the web; else the schema does not know of it.
    """
    schema = Plan.model_json_schema()
    if not search:
        definitions = schema["$defs"]
        definitions["StepType"]["enum"].remove(StepType.SEARCH.value)
        given = definitions["PlanStep"]["properties"]["tool_input"]
        given["description"] = given["description"].replace(_SEARCH_INPUT, "")
    return schema


def read_plan(arguments: Mapping[str, Json] | None) -> Plan:
    """Check a plan as the planner wrote it.

    Raises:
        InvalidCallError: it is not a plan, or one that could not be carried out; the message is for
            the planner.
    """
    if arguments is None:
        raise InvalidCallError("the plan is not a JSON object")
    try:
        plan = Plan.model_validate(arguments)
    except ValidationError as error:
        raise InvalidCallError(f"the plan has mistakes: {_complaints(error)}") from error
    if mistakes := list(_mistakes(plan)):
        raise InvalidCallError(f"the plan has mistakes: {'; '.join(mistakes)}")
    return plan


def waves(steps: Sequence[PlanStep]) -> Iterator[tuple[str, ...]]:
    """Give the ids of steps that can go side by side, wave by wave, each in the plan's order."""
    order = {step.id: n for n, step in enumerate(steps)}
    sorter = TopologicalSorter({step.id: step.depends_on for step in steps})
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=order.__getitem__)
        yield tuple(ready)
        sorter.done(*ready)


def _complaints(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'plan'}: {each['msg']}"
        for each in error.errors(include_input=False, include_url=False)[:5]
    )


def _mistakes(plan: Plan) -> Iterator[str]:
    if plan.outcome != "steps":
        if not plan.reply.strip():
            yield f"outcome {plan.outcome} needs a reply"
        return
    if not plan.steps:
        yield "there are no steps"
    if len(plan.steps) > MOST_STEPS:
        yield f"{len(plan.steps)} steps; {MOST_STEPS} are allowed"
    yield from _mistakes_of_ids(plan.steps)
    for step in plan.steps:
        yield from _mistakes_of_input(step)


def _mistakes_of_ids(steps: Sequence[PlanStep]) -> Iterator[str]:
    ids = [step.id for step in steps]
    for twice in sorted({each for each in ids if ids.count(each) > 1}):
        yield f'two steps have the id "{twice}"'
    known = set(ids)
    for step in steps:
        for needed in step.depends_on:
            if needed == step.id:
                yield f'step "{step.id}" depends on itself'
            elif needed not in known:
                yield f'step "{step.id}" depends on "{needed}", which does not exist'
        if step.fallback is not None and step.fallback.fallback is not None:
            yield f'the fallback of step "{step.id}" has a fallback'
    if circle := _circle(steps):
        yield f"steps wait for one another: {' → '.join(circle)}"


def _circle(steps: Sequence[PlanStep]) -> Sequence[str]:
    graph = {s.id: [needed for needed in s.depends_on if needed != s.id] for s in steps}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return ()


def _mistakes_of_input(step: PlanStep) -> Iterator[str]:
    match step.type:
        case StepType.SQL if not step.text("query").strip():
            yield f'step "{step.id}" needs tool_input.query, a statement'
        case StepType.SEARCH if not step.text("query").strip():
            yield f'step "{step.id}" needs tool_input.query, words to search for'
        case StepType.ANALYZE if not (step.text("sql").strip() or step.text("operation")):
            yield f'step "{step.id}" needs tool_input.sql or tool_input.operation'
        case StepType.ANALYZE if step.text("operation") == "calculate":
            if not step.text("expression").strip():
                yield f'step "{step.id}" needs tool_input.expression'
        case StepType.ANALYZE | StepType.VERIFY if not step.depends_on:
            yield f'step "{step.id}" needs the steps it is about in depends_on'
        case _:
            pass
    if step.fallback is not None:
        yield from _mistakes_of_input(step.fallback)
