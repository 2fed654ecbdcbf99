"""What a question's run does next: a pure function of its recorded steps, as `agent.loop` is.

Recorded are, in this order and as often as it takes: the planner's reply, the result of each step
of its plan, the critic's verdicts, and the reply that answers.  A plain question takes two replies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from walagent.ask.candidates import (
    Candidate,
    Chosen,
    asks_back,
    choose,
    read_candidate,
    ready_steps,
)
from walagent.ask.plan import Plan, PlanStep, read_plan, waves
from walagent.ask.results import StepResult
from walagent.errors import InvalidCallError
from walagent.message import Json
from walagent.run import Step, StepKind

MAX_CORRECTIONS: Final = 2  # of a plan that is no plan
MAX_REPLANS: Final = 2  # after a statement that failed, unless the question says otherwise
MAX_REVISIONS: Final = 1  # after a verdict of the critic
MAX_SILENCES: Final = 2  # replies without the answer that was asked for

By = Literal["planner", "critic", "answer", "summary"]


@dataclass(frozen=True, slots=True)
class AskPlanner:
    """Ask for a plan; `told` are the plans so far, each with what was wrong with it."""

    told: Sequence[tuple[Mapping[str, Json] | None, str]] = ()


@dataclass(frozen=True, slots=True)
class AskCandidates:
    """Ask for several plans at once: those with these numbers are not there yet."""

    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class CarryOut:
    """Carry out steps whose needs are met, side by side: of the plan, or of a candidate."""

    steps: Sequence[PlanStep]
    candidate: int = 0


@dataclass(frozen=True, slots=True)
class AskCritic:
    """Let the critic look at the plan, before, or at the results, after they are there."""

    stage: Literal["plan", "results"]


@dataclass(frozen=True, slots=True)
class AskAnswer:
    """Ask for the answer in words."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The question is dealt with."""

    status: Literal["answered", "clarify", "refused"]
    text: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It cannot be dealt with."""

    reason: str


Move = AskPlanner | AskCandidates | CarryOut | AskCritic | AskAnswer | Finish | GiveUp


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
            _read_reply(standing, step.content)
    return standing


def next_move(
    steps: Sequence[Step],
    *,
    parallel: bool,
    critic: bool = True,
    replans: int = MAX_REPLANS,
    candidates: int = 1,
) -> Move:
    """Decide what comes next.

    Args:
        parallel: whether steps that do not need one another go side by side.
        critic: whether the critic looks at what is not plain.
        replans, candidates: as for `read_standing`.
    """
    standing = read_standing(steps, replans=replans, candidates=candidates)
    if standing.plan is None:
        return _towards_a_plan(standing, parallel=parallel)
    if standing.plan.outcome != "steps":
        status = "clarify" if standing.plan.outcome == "clarify" else "refused"
        return Finish(status, standing.plan.reply)
    if critic and _wants_critic(standing, "plan"):
        return AskCritic("plan")
    if standing.failed is not None:
        return GiveUp(f"step {standing.failed.id} failed: {standing.failed.error}")
    if ready := ready_steps(standing.plan.steps, standing.results):
        return CarryOut(ready if parallel else ready[:1])
    if critic and _wants_critic(standing, "results"):
        return AskCritic("results")
    if standing.answer is None and standing.silences < MAX_SILENCES:
        return AskAnswer()
    return Finish("answered", _said(standing.answer) or "The model found no words; see the rows.")


def _towards_a_plan(standing: Standing, *, parallel: bool) -> Move:
    if standing.wanted > 1 and not standing.settled:
        return _towards_candidates(standing, parallel=parallel)
    if standing.corrections > MAX_CORRECTIONS:
        return GiveUp(f"the model made no plan that can be carried out: {standing.told[-1][1]}")
    return AskPlanner(tuple(standing.told))


def _towards_candidates(standing: Standing, *, parallel: bool) -> Move:
    numbers = range(1, standing.wanted + 1)
    if missing := [number for number in numbers if number not in standing.candidates]:
        return AskCandidates(missing)
    candidate = next(standing.candidates[n] for n in numbers if standing.candidates[n].ready)
    return CarryOut(candidate.ready if parallel else candidate.ready[:1], candidate.number)


def _read_candidate(standing: Standing, number: int, step: Step) -> None:
    """Read a reply or a result of a candidate; with the last of them, one is taken."""
    if standing.settled:
        return  # the result of a step that went beside one that failed
    if step.kind == StepKind.REPLY:
        standing.candidates[number] = read_candidate(number, step.content.get("arguments"))
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
    standing.results = dict(candidate.results)
    standing.steps = {step.id: step for step in candidate.plan.steps} if candidate.plan else {}
    standing.evaluated.add("plan")


def _read_reply(standing: Standing, content: Mapping[str, Any]) -> None:
    match content["by"]:
        case "planner":
            _read_planner(standing, content.get("arguments"))
        case "critic":
            _read_verdict(standing, content["stage"], content.get("arguments") or {})
        case "summary":
            pass  # of the questions before this one
        case _:
            given = content.get("arguments") or {"text": content.get("text")}
            standing.answer = given if _said(given) else None
            standing.silences += not _said(given)


def _read_planner(standing: Standing, arguments: Mapping[str, Json] | None) -> None:
    try:
        plan = read_plan(arguments)
    except InvalidCallError as error:
        standing.corrections += 1
        standing.told.append((arguments, str(error)))
        return
    standing.plan, standing.written = plan, arguments
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
