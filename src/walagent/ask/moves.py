"""What a question's run does next: a pure function of its recorded steps, as in `agent.loop`.

Recorded are, in this order and as often as it takes: the planner's reply, the result of each step
of its plan, the critic's verdicts, and the reply that answers.  A plain question takes two replies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from walagent.agent.transcript import reply_from_json
from walagent.ask.candidates import (
    Candidate,
    Chosen,
    asks_back,
    choose,
    read_candidate,
    ready_steps,
)
from walagent.ask.options import MAX_REPLANS, Options
from walagent.ask.plan import Plan, PlanStep, StepType, read_plan, waves
from walagent.ask.results import StepResult
from walagent.errors import InvalidCallError
from walagent.message import Json, ToolCall
from walagent.moves import Act, Ask, Call, End, Move, Prompt, fail
from walagent.run import RunState, Step, StepKind
from walagent.tool_spec import Effect, Tool

MAX_CORRECTIONS: Final = 2  # of a plan that is no plan
MAX_REVISIONS: Final = 1  # after a verdict of the critic
MAX_SILENCES: Final = 2  # replies without the answer that was asked for


@dataclass(slots=True)
class Standing:
    """Where a question stands, read from its steps.

    Args:
        told: rejected plans, and why.
        objections: what the critic has said and nobody could mend; the answer says it, too.
        settled: whether one of the candidates was taken, or none could be.
        chosen: the candidate that was taken, for as long as its plan stands.
    """

    most_replans: int = MAX_REPLANS
    wanted: int = 1  # plans for the question
    candidates: dict[int, Candidate] = field(default_factory=dict[int, Candidate])
    settled: bool = False
    chosen: Chosen | None = None
    plan: Plan | None = None
    results: dict[str, StepResult] = field(default_factory=dict[str, StepResult])
    told: list[tuple[Mapping[str, Json] | None, str]] = field(
        default_factory=list[tuple[Mapping[str, Json] | None, str]]
    )
    corrections: int = 0
    replans: int = 0
    revisions: int = 0
    evaluated: set[str] = field(default_factory=set[str])
    objections: list[str] = field(default_factory=list[str])
    answer: Mapping[str, Any] | None = None
    silences: int = 0
    written: Mapping[str, Json] | None = None  # the present plan as the planner wrote it
    planned_at: int = 0  # the step with the present plan
    steps: dict[str, PlanStep] = field(default_factory=dict[str, PlanStep])  # of the last plan

    @property
    def failed(self) -> StepResult | None:
        """A step that has failed for good, if there is one."""
        return next((each for each in self.results.values() if each.error), None)

    @property
    def findings(self) -> Sequence[str]:
        """What checks have found in the results, and whether other plans came to others."""
        found = [f"{each.id}: {said}" for each in self.results.values() for said in each.findings]
        if self.chosen and self.chosen.agree < self.chosen.of:
            found.append(f"only {self.agreement}")
        return found

    @property
    def agreement(self) -> str:
        """How many plans came to the result; "" when there was one plan."""
        return f"{self.chosen.agree} of {self.chosen.of} plans came to this" if self.chosen else ""


def read_standing(
    steps: Sequence[Step], *, replans: int = MAX_REPLANS, candidates: int = 1
) -> Standing:
    """Read where a question stands.

    Args:
        replans: how often is planned again after a statement that failed.
        candidates: how many plans were asked for at first.
    """
    standing = Standing(most_replans=replans, wanted=candidates)
    for step in steps:
        if number := step.content.get("candidate"):
            _read_candidate(standing, number, step)
        elif step.kind == StepKind.RESULT:
            _read_result(standing, StepResult.from_json(step.content))
        elif step.kind == StepKind.REPLY:
            _read_reply(standing, step)
    return standing


def next_move(steps: Sequence[Step], options: Options) -> Move:
    """Decide what comes next."""
    standing = read_standing(steps, replans=options.retries, candidates=options.candidates)
    if standing.plan is None:
        return _towards_a_plan(standing, options)
    if standing.plan.outcome != "steps":
        status = "clarify" if standing.plan.outcome == "clarify" else "refused"
        return _end(status, standing.plan.reply)
    if options.critic and _wants_critic(standing, "plan"):
        return Ask((Prompt("critic", {"stage": "plan"}),))
    if standing.failed is not None:
        return fail(f"step {standing.failed.id} failed: {standing.failed.error}")
    if ready := ready_steps(standing.plan.steps, standing.results):
        return _act(ready if options.parallel else ready[:1], standing.planned_at)
    if options.critic and _wants_critic(standing, "results"):
        return Ask((Prompt("critic", {"stage": "results"}),))
    if standing.answer is None and standing.silences < MAX_SILENCES:
        return Ask((Prompt("answer"),))
    return _end("answered", _said(standing.answer) or "The model found no words; see the rows.")


def _end(status: str, text: str) -> End:
    return End(RunState.SUCCEEDED, text, about={"status": status})


def _act(steps: Sequence[PlanStep], planned_at: int, candidate: int = 0) -> Act:
    about: dict[str, Json] = {"candidate": candidate} if candidate else {}
    return Act(
        tuple(Call(_call(step, planned_at), _TOOLS[step.type], about=about) for step in steps)
    )


def _call(step: PlanStep, planned_at: int) -> ToolCall:
    """Give a step of a plan as a call; its id names the plan, too, as plans may repeat ids."""
    return ToolCall(f"{planned_at}.{step.id}", step.type.value, step.model_dump(mode="json"))


_TOOLS: Final[Mapping[StepType, Tool]] = {
    kind: Tool(kind.value, "plan", kind.value, "", {"type": "object"}, Effect.READ)
    for kind in StepType
}


def _towards_a_plan(standing: Standing, options: Options) -> Move:
    if standing.wanted > 1 and not standing.settled:
        return _towards_candidates(standing, options)
    if standing.corrections > MAX_CORRECTIONS:
        return fail(f"the model made no plan that can be carried out: {standing.told[-1][1]}")
    return Ask((Prompt("planner", keep=True),))


def _towards_candidates(standing: Standing, options: Options) -> Move:
    numbers = range(1, standing.wanted + 1)
    if missing := [number for number in numbers if number not in standing.candidates]:
        return Ask(tuple(Prompt("planner", {"candidate": number}, keep=True) for number in missing))
    candidate = next(standing.candidates[n] for n in numbers if standing.candidates[n].ready)
    ready = candidate.ready if options.parallel else candidate.ready[:1]
    return _act(ready, candidate.planned_at, candidate.number)


def _read_candidate(standing: Standing, number: int, step: Step) -> None:
    """Read a reply or a result of a candidate; with the last of them, one is taken."""
    if standing.settled:
        return  # the result of a step that went beside one that failed
    if step.kind == StepKind.REPLY:
        standing.candidates[number] = read_candidate(number, arguments_of(step), step.seq)
    else:
        result = StepResult.from_json(step.content)
        standing.candidates[number].results[result.id] = result
    if len(standing.candidates) == standing.wanted:
        _settle(standing)


def _settle(standing: Standing) -> None:
    candidates = [standing.candidates[number] for number in sorted(standing.candidates)]
    if (asking := asks_back(candidates)) is not None:
        _take(standing, asking)
    elif not all(each.is_over for each in candidates):
        return
    elif (chosen := choose(candidates)) is not None:
        _take(standing, chosen.candidate)
        standing.chosen = chosen
    elif failed := [(each, each.failed) for each in candidates if each.failed is not None]:
        candidate, result = failed[0]
        _take(standing, candidate)
        _read_result(standing, standing.results.pop(result.id))
    else:
        standing.corrections += 1
        standing.told += [(each.written, each.mistake) for each in candidates]
    standing.settled = True


def _take(standing: Standing, candidate: Candidate) -> None:
    """Go on with a candidate as if it had been the only one; that others agree is its review."""
    standing.plan, standing.written = candidate.plan, candidate.written
    standing.planned_at = candidate.planned_at
    standing.results = dict(candidate.results)
    standing.steps = {step.id: step for step in candidate.plan.steps} if candidate.plan else {}
    standing.evaluated.add("plan")


def arguments_of(step: Step) -> Mapping[str, Json] | None:
    """Give the arguments of the call that a reply was made to give; None: it has none."""
    calls = reply_from_json(step.content).calls
    return calls[0].arguments if calls else None


def _read_reply(standing: Standing, step: Step) -> None:
    match step.content["by"]:
        case "planner":
            _read_planner(standing, step)
        case "critic":
            _read_verdict(standing, step.content["stage"], arguments_of(step) or {})
        case "summary":
            pass  # of the questions before this one
        case _:
            given = arguments_of(step) or {"text": reply_from_json(step.content).text}
            standing.answer = given if _said(given) else None
            standing.silences += not _said(given)


def _read_planner(standing: Standing, step: Step) -> None:
    arguments = arguments_of(step)
    try:
        plan = read_plan(arguments)
    except InvalidCallError as error:
        standing.corrections += 1
        standing.told.append((arguments, str(error)))
        return
    standing.plan, standing.written, standing.planned_at = plan, arguments, step.seq
    standing.results = dict(_still_good(plan, standing))
    standing.steps = {step.id: step for step in plan.steps}


def _still_good(plan: Plan, standing: Standing) -> Iterator[tuple[str, StepResult]]:
    """Keep the results of steps that the new plan has as they were, needs included."""
    kept: set[str] = set()
    for wave in waves(plan.steps):
        for step in (each for each in plan.steps if each.id in wave):
            needs_kept = all(needed in kept for needed in step.depends_on)
            if needs_kept and step == standing.steps.get(step.id) and step.id in standing.results:
                kept.add(step.id)
                yield step.id, standing.results[step.id]


def _read_result(standing: Standing, result: StepResult) -> None:
    if not result.error or standing.replans >= standing.most_replans:
        standing.results[result.id] = result
        return
    standing.replans += 1
    _plan_again(standing, f"step {result.id} failed: {result.error}", keep=True)


def _read_verdict(standing: Standing, stage: str, arguments: Mapping[str, Any]) -> None:
    standing.evaluated.add(stage)
    if arguments.get("approved", True):
        return
    reason = str(arguments.get("reason") or "no reason given")
    if standing.revisions < MAX_REVISIONS:
        standing.revisions += 1
        _plan_again(standing, f"the critic rejects the {stage}: {reason}", keep=False)
    else:
        standing.objections.append(reason)


def _said(answer: Mapping[str, Any] | None) -> str:
    text = (answer or {}).get("text")
    return text.strip() if isinstance(text, str) else ""


def _plan_again(standing: Standing, why: str, *, keep: bool) -> None:
    standing.told.append((standing.written, why))
    standing.plan = None
    standing.chosen = None
    standing.evaluated.clear()
    if not keep:
        standing.results.clear()


def _wants_critic(standing: Standing, stage: Literal["plan", "results"]) -> bool:
    """Whether the critic should look: at plans of several statements, at results with findings."""
    if stage in standing.evaluated or standing.plan is None:
        return False
    if stage == "plan":
        return len(standing.plan.steps) > 1
    return bool(standing.findings)
