"""What a run does next whose agent asks less expensive models first.  Pure.

    a stage replies → is it sure? → its calls are carried out, or the next model is asked

A stage has one try: what the loop would send back to a model as wrong is passed to the next one
instead.  None of the calls of an unsure reply is carried out.
"""

from collections.abc import Sequence

from walagent.deciders.loop import (
    Check,
    called_wrongly,
    must_call,
    next_move,
    since_fresh,
    since_retry,
)
from walagent.deciders.stages import CONTROL, STAGE, pass_on, staged
from walagent.deciders.written_calls import written_call
from walagent.domain.agent_spec import AgentSpec
from walagent.domain.cascade import UNSURE, is_sampled
from walagent.domain.run import RunSpec, RunState, Step, StepKind
from walagent.domain.transcript import is_control, reply_from_json, transcript
from walagent.message import Reply, Stop
from walagent.moves import Ask, End, Move, Note, Prompt

_BEGUN = frozenset({StepKind.INTENT, StepKind.RESULT, StepKind.APPROVAL, StepKind.DECISION})
_MOST = 300  # characters of a reason


def cascade_move(run: RunSpec, steps: Sequence[Step], check: Check) -> Move:
    """Decide from the recorded steps alone; of an agent without a cascade as `next_move` does."""
    agent = run.agent
    if not agent.stages:
        return next_move(steps, agent, check)
    acting = [step for step in steps if not is_control(step)]
    if (note := _pass_if_unsure(since_fresh(acting), agent, check)) is not None:
        return note
    match next_move(acting, agent, check):
        case Ask((prompt,)):
            return Ask((staged(prompt, since_retry(acting), agent),))
        case End(RunState.SUCCEEDED) as end:
            control = control_of(run, steps)
            return end if control is None else Ask((control,))
        case move:
            return move


def control_of(run: RunSpec, steps: Sequence[Step]) -> Prompt | None:
    """Return the prompt for the last model about what a stage has decided; None: it is not asked.

    Its reply is compared with that of the stage and has no effect.
    """
    agent, steps = run.agent, since_fresh(steps)
    if not is_sampled(run.run_id, agent.control) or any(map(is_control, steps)):
        return None
    by = {_stage(step, agent) for step in transcript(steps) if step.kind == StepKind.REPLY}
    if len(by) != 1 or not (stage := by.pop()):
        return None
    return Prompt(by=CONTROL, about={CONTROL: stage}, model=agent.model)


def steps_before(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps that the model of a control is shown: those before the stage's reply."""
    shown = transcript(steps)
    first = next(step.seq for step in shown if step.kind == StepKind.REPLY)
    return [step for step in shown if step.seq < first]


def _pass_if_unsure(steps: Sequence[Step], agent: AgentSpec, check: Check) -> Note | None:
    """Ask the next model if the last reply is that of a stage that is not sure."""
    shown = transcript(steps)
    at = next((n for n in reversed(range(len(shown))) if shown[n].kind == StepKind.REPLY), None)
    if at is None or not (stage := _stage(shown[at], agent)):
        return None
    if any(step.kind in _BEGUN for step in shown[at + 1 :]):  # it was sure
        return None
    why = why_unsure(reply_from_json(shown[at].content), shown[: at + 1], agent, check)
    if why is None:
        return None
    models = [*(each.model for each in agent.stages), agent.model]
    return pass_on(models[stage - 1], models[stage], why[:_MOST], unsure=True)


def why_unsure(reply: Reply, steps: Sequence[Step], agent: AgentSpec, check: Check) -> str | None:
    """Say why a reply of a stage does not count; None: it does.

    Args:
        steps: those that the model is shown, with the reply.
    """
    said = next((call for call in reply.calls if call.name == UNSURE), None)
    if said is not None:
        reason = (said.arguments or {}).get("reason")
        return f"unsure: {reason}" if isinstance(reason, str) and reason.strip() else UNSURE
    if reply.stop is Stop.REFUSAL:
        return f"refused ({reply.why})" if reply.why else "refused"
    if reply.stop is Stop.LENGTH:
        return "cut off by its token limit"
    must = must_call(steps, agent)
    if reply.calls:
        wrong = (called_wrongly(call, agent, check, must) for call in reply.calls[:1])
        later = reply.calls[1:]  # planted: half-a-reply
        others = (called_wrongly(call, agent, check, None) for call in later)
        return next(filter(None, (*wrong, *others)), None)
    if written_call(reply.text, {UNSURE, *(tool.name for tool in agent.tools)}):
        return "wrote a call as text"
    if must is not None:
        return "answered in words where a call is required"
    answered = any(step.kind == StepKind.RESULT for step in steps)
    return None if reply.text.strip() or answered else "answered nothing"


def _stage(reply: Step, agent: AgentSpec) -> int:
    """Return the number of the stage that gave a reply; 0: it is of no stage."""
    number = reply.content.get(STAGE, 0)
    return number if 1 <= number <= len(agent.stages) else 0
