"""Which model of a cascade is asked next, and what its request alone has.  Pure.

A stage that is passed is a note among the steps, recorded before the next model is asked: each
worker that continues the run asks the same one, and none that has answered again until a person
retries the run.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from walagent.domain.agent_spec import AgentSpec
from walagent.domain.cascade import UNSURE_TOOL, Stage
from walagent.domain.run import Step, StepKind
from walagent.domain.transcript import CASCADE
from walagent.message import Request, ToolChoice
from walagent.moves import Note, Prompt

STAGE: Final = "stage"  # in a reply: the number, from 1, of the model of a cascade that gave it
CONTROL: Final = "control"  # the prompt of the control sample
_RULE = (
    " If you are not sure what is right, call unsure and nothing else: another model then decides."
    " Do not guess."
)


def stage_of(recent: Sequence[Step], agent: AgentSpec) -> Stage | None:
    """Return the stage that is asked next; None: the agent's own model is.

    Args:
        recent: the steps since the last retry.
    """
    at = _passed(recent)
    return agent.stages[at] if at < len(agent.stages) else None


def staged(prompt: Prompt, recent: Sequence[Step], agent: AgentSpec) -> Prompt:
    """Return the prompt for the stage that is asked next, instead of that for the agent's model."""
    at = min(_passed(recent), len(agent.stages))
    if at == len(agent.stages):
        return replace(prompt, about={**prompt.about, STAGE: at + 1})
    models = [*(stage.model for stage in agent.stages), agent.model]
    return Prompt(about={STAGE: at + 1}, model=models[at], next_model=models[at + 1])


def in_stage(request: Request) -> Request:
    """Let a model say that it is not sure, also where a call is required."""
    choice = request.choice if request.choice.mode == "auto" else ToolChoice("required")
    tools = (*request.tools, UNSURE_TOOL)
    return replace(request, system=request.system + _RULE, tools=tools, choice=choice)


def pass_on(model: str, to: str, why: str, *, unsure: bool = False) -> Note:
    """Ask the next model from now on.

    Args:
        unsure: it has answered; its reply is not shown to the next one.
    """
    content = {CASCADE: to, "for": model, "why": why}
    return Note(StepKind.NOTE, {**content, "unsure": True} if unsure else content)


def no_control(why: str) -> Note:
    """Record that the control of a run has no reply: it is not asked again."""
    return Note(StepKind.NOTE, {CONTROL: "none", "why": why})


def _passed(recent: Sequence[Step]) -> int:
    return sum(step.kind == StepKind.NOTE and CASCADE in step.content for step in recent)
