"""The next move of a question's run: a pure function of its recorded steps, as in `deciders.loop`.

Steps are, in this order and as often as needed: the planner's reply, the result of each step of its
plan, the critic's verdicts, and the reply that answers.  A simple question takes two replies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from walagent.ask.candidates import (
    Chosen,
    PlanCandidate,
    asks_back,
    choose,
    read_candidate,
    ready_steps,
)
from walagent.ask.options import MAX_REPLANS, Options
from walagent.ask.plan import Plan, PlanStep, StepType, read_plan, waves
from walagent.ask.results import StepResult
from walagent.domain.run import RunState, Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import reply_from_json
from walagent.errors import InvalidCallError
from walagent.message import Json, ToolCall
from walagent.moves import Act, Ask, Call, End, Move, Prompt, fail

MAX_CORRECTIONS: Final = 2  # of an invalid plan
MAX_REVISIONS: Final = 1  # after a verdict of the critic
MAX_SILENCES: Final = 2  # replies without the requested answer


@dataclass(slots=True)
class QuestionProgress:
    """The progress of a question, read from its steps.

    Args:
        rejected: plans with the reason of their rejection.
        objections: of the critic after the last revision; the answer contains them.
        settled: whether a candidate was chosen, or all were rejected.
        chosen: the chosen candidate, while its plan is current.
    """

    most_replans: int = MAX_REPLANS
    wanted: int = 1  # plans for the question
    candidates: dict[int, PlanCandidate] = field(default_factory=dict[int, PlanCandidate])
    settled: bool = False
    chosen: Chosen | None = None
    plan: Plan | None = None
    results: dict[str, StepResult] = field(default_factory=dict[str, StepResult])
    rejected: list[tuple[Mapping[str, Json] | None, str]] = field(
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
        """A step that has failed permanently, if any."""
        return next((each for each in self.results.values() if each.error), None)

    @property
    def findings(self) -> Sequence[str]:
        """Findings of checks, and whether plans disagree."""
        found = [f"{each.id}: {said}" for each in self.results.values() for said in each.findings]
        if self.chosen and self.chosen.agree < self.chosen.of:
            found.append(f"only {self.agreement}")
        return found

    @property
    def agreement(self) -> str:
        """How many plans had the same result; "" for one plan."""
        return f"{self.chosen.agree} of {self.chosen.of} plans came to this" if self.chosen else ""


def read_standing(
    steps: Sequence[Step], *, replans: int = MAX_REPLANS, candidates: int = 1
) -> QuestionProgress:
    """Read the progress of a question.

    Args:
        replans: maximum replans after failed statements.
        candidates: number of plans requested first.
    """
    standing = QuestionProgress(most_replans=replans, wanted=candidates)
    for step in steps:
        if number := step.content.get("candidate"):
            _read_candidate(standing, number, step)
        elif step.kind == StepKind.RESULT:
            _read_result(standing, StepResult.from_json(step.content))
        elif step.kind == StepKind.REPLY:
            _read_reply(standing, step)
    return standing


def next_move(steps: Sequence[Step], options: Options) -> Move:
    """Return the next move."""
    standing = read_standing(steps, replans=options.retries, candidates=options.candidates)
    if standing.plan is None:
        return _towards_a_plan(standing, options)
    if standing.plan.outcome != "steps":
        status = "clarify" if standing.plan.outcome == "clarify" else "refused"
        return _end(status, standing.plan.reply)
    if _wants_critic(standing, "plan", options):
        return Ask((Prompt("critic", {"stage": "plan"}),))
    if standing.failed is not None:
        return fail(f"step {standing.failed.id} failed: {standing.failed.error}")
    if ready := ready_steps(standing.plan.steps, standing.results):
        return _act(ready if options.parallel else ready[:1], standing.planned_at)
    if _wants_critic(standing, "results", options):
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
    """Return a step of a plan as a call; its ID includes the plan, because plans can share IDs."""
    return ToolCall(f"{planned_at}.{step.id}", step.type.value, step.model_dump(mode="json"))


_TOOLS: Final[Mapping[StepType, Tool]] = {
    kind: Tool(kind.value, "plan", kind.value, "", {"type": "object"}, Effect.READ)
    for kind in StepType
}


def _towards_a_plan(standing: QuestionProgress, options: Options) -> Move:
    if standing.wanted > 1 and not standing.settled:
        return _towards_candidates(standing, options)
    if standing.corrections > MAX_CORRECTIONS:
        return fail(f"the model made no plan that can be carried out: {standing.rejected[-1][1]}")
    return Ask((Prompt("planner", keep=True),))


def _towards_candidates(standing: QuestionProgress, options: Options) -> Move:
    numbers = range(1, standing.wanted + 1)
    if missing := [number for number in numbers if number not in standing.candidates]:
        return Ask(tuple(Prompt("planner", {"candidate": number}, keep=True) for number in missing))
    candidate = next(standing.candidates[n] for n in numbers if standing.candidates[n].ready)
    ready = candidate.ready if options.parallel else candidate.ready[:1]
    return _act(ready, candidate.planned_at, candidate.number)


def _read_candidate(standing: QuestionProgress, number: int, step: Step) -> None:
    """Read a reply or a result of a candidate; after the last one, choose a candidate."""
    if standing.settled:
        return  # the result of a step that ran concurrently with one that failed
    if step.kind == StepKind.REPLY:
        standing.candidates[number] = read_candidate(number, arguments_of(step), step.seq)
    else:
        result = StepResult.from_json(step.content)
        standing.candidates[number].results[result.id] = result
    if len(standing.candidates) == standing.wanted:
        _settle(standing)


def _settle(standing: QuestionProgress) -> None:
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
        standing.rejected += [(each.written, each.mistake) for each in candidates]
    standing.settled = True


def _take(standing: QuestionProgress, candidate: PlanCandidate) -> None:
    """Continue with a candidate as if it were the only one; agreement replaces its review."""
    standing.plan, standing.written = candidate.plan, candidate.written
    standing.planned_at = candidate.planned_at
    standing.results = dict(candidate.results)
    standing.steps = {step.id: step for step in candidate.plan.steps} if candidate.plan else {}
    standing.evaluated.add("plan")


def arguments_of(step: Step) -> Mapping[str, Json] | None:
    """Return the arguments of the required call of a reply; None: it has no call."""
    calls = reply_from_json(step.content).calls
    return calls[0].arguments if calls else None


def _read_reply(standing: QuestionProgress, step: Step) -> None:
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


def _read_planner(standing: QuestionProgress, step: Step) -> None:
    arguments = arguments_of(step)
    try:
        plan = read_plan(arguments)
    except InvalidCallError as error:
        standing.corrections += 1
        standing.rejected.append((arguments, str(error)))
        return
    standing.plan, standing.written, standing.planned_at = plan, arguments, step.seq
    standing.results = dict(_still_good(plan, standing))
    standing.steps = {step.id: step for step in plan.steps}


def _still_good(plan: Plan, standing: QuestionProgress) -> Iterator[tuple[str, StepResult]]:
    """Yield the results of steps that the new plan repeats with the same dependencies."""
    kept: set[str] = set()
    for wave in waves(plan.steps):
        for step in (each for each in plan.steps if each.id in wave):
            needs_kept = all(needed in kept for needed in step.depends_on)
            if needs_kept and step == standing.steps.get(step.id) and step.id in standing.results:
                kept.add(step.id)
                yield step.id, standing.results[step.id]


def _read_result(standing: QuestionProgress, result: StepResult) -> None:
    if not result.error or standing.replans >= standing.most_replans:
        standing.results[result.id] = result
        return
    standing.replans += 1
    _plan_again(standing, f"step {result.id} failed: {result.error}", keep=True)


def _read_verdict(standing: QuestionProgress, stage: str, arguments: Mapping[str, Any]) -> None:
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


def _plan_again(standing: QuestionProgress, why: str, *, keep: bool) -> None:
    standing.rejected.append((standing.written, why))
    standing.plan = None
    standing.chosen = None
    standing.evaluated.clear()
    if not keep:
        standing.results.clear()


def _wants_critic(
    standing: QuestionProgress, stage: Literal["plan", "results"], options: Options
) -> bool:
    """Whether the critic reviews: plans of several statements, and results with findings or all."""
    if not options.critic or stage in standing.evaluated or standing.plan is None:
        return False
    if stage == "plan":
        return len(standing.plan.steps) > 1
    return options.critic == "always" or bool(standing.findings)
