"""Read what became of a question from the steps of its run."""

from collections.abc import Sequence

from walagent.ask.figures import note, unfounded
from walagent.ask.moves import QuestionProgress
from walagent.ask.outcome import QuestionResult, Status
from walagent.ask.results import scope_of
from walagent.domain.run import Step, StepKind
from walagent.store.questions import ClaimedQuestion


def read_outcome(  # noqa: PLR0913, PLR0917 - the question, its end and its steps
    asked: ClaimedQuestion,
    session: str,
    status: Status,
    text: str,
    standing: QuestionProgress,
    steps: Sequence[Step],
    before: str = "",
) -> QuestionResult:
    """Give the outcome with its evidence.

    Args:
        before: the session before the question, whose numbers the answer may repeat.
    """
    instead = [
        f"{each.id}: the fallback was used, because the step failed: {each.first_error}"
        for each in standing.results.values()
        if each.fallback
    ]
    if status == "answered" and (
        numbers := unfounded(text, _around(asked, standing, before), standing.results)
    ):
        instead.append(note(numbers))
    costs = [step.cost for step in steps if step.kind == StepKind.REPLY]
    said: Sequence[str] = (standing.answer or {}).get("caveats") or ()
    return QuestionResult(
        status,
        text,
        session,
        asked.claim.run_id,
        standing.plan,
        standing.results,
        (*said, *instead, *standing.objections, *standing.findings, *scope_of(standing.results)),
        sum(step.tokens for step in steps),
        None if None in costs else sum(cost for cost in costs if cost is not None),
        standing.agreement,
        asked.text,
        tuple(standing.objections),
    )


def _around(asked: ClaimedQuestion, standing: QuestionProgress, before: str) -> str:
    """Return the texts whose numbers an answer may repeat, beside results and statements."""
    assumed = standing.plan.assumptions if standing.plan else ()
    return "\n".join([asked.text, *assumed, *standing.findings, before])
