"""Asks the questions one after the other and grades what comes back."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from evals.by_hand import answer_to
from evals.grade import grade
from evals.questions import Question, session_of
from walagent import AsyncClient
from walagent.ask.outcome import ModelAsked, QuestionEvent, QuestionResult
from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Json

_IN_A_ROW = 3  # questions that the provider leaves unanswered before the rest is not asked


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one question.

    Args:
        why: what is wrong with the answer; "" where nothing is.
        calls: of the model.
        cost: in US dollars; None where a price is unknown.
    """

    question: Question
    why: str
    status: str
    calls: int
    tokens: int
    cost: float | None
    seconds: float
    text: str = ""
    sql: Sequence[str] = ()

    @property
    def right(self) -> bool:
        """Whether the answer is."""
        return not self.why

    def to_json(self) -> dict[str, Json]:
        """Write it for the report."""
        return {
            "id": self.question.id,
            "level": self.question.level,
            "question": self.question.text,
            "expect": self.question.expect,
            "right": self.right,
            "why": self.why,
            "status": self.status,
            "calls": self.calls,
            "tokens": self.tokens,
            "cost": self.cost,
            "seconds": round(self.seconds, 3),
            "answer": self.text,
            "sql": list(self.sql),
        }


async def measure(
    client: AsyncClient, questions: Sequence[Question], told: Callable[[Result], None]
) -> WalagentError | None:
    """Ask every question; give what ended the measurement early, if anything did.

    Args:
        told: hears of each result as it is there.

    Raises:
        ModelUnauthorizedError: the key is missing, wrong or spent.
    """
    run = f"eval-{uuid4().hex[:8]}"
    silent = 0
    for asked, question in enumerate(questions, 1):
        result, error = await _ask(client, question, session_of(question, run))
        told(result)
        silent = silent + 1 if error else 0
        if error and silent in {asked, _IN_A_ROW}:
            return error  # nobody is there
    return None


async def _ask(
    client: AsyncClient, question: Question, session: str
) -> tuple[Result, WalagentError | None]:
    calls = 0

    def count(event: QuestionEvent) -> None:
        nonlocal calls
        calls += isinstance(event, ModelAsked)

    began = time.monotonic()
    try:
        outcome = await client.ask(question.text, session=session, on_event=count)
    except (ModelLimitedError, ModelRejectedError, ModelUnavailableError) as error:
        seconds = time.monotonic() - began
        return Result(question, str(error), "error", calls, 0, None, seconds), error
    return _graded(question, outcome, calls, time.monotonic() - began), None


def _graded(question: Question, outcome: QuestionResult, calls: int, seconds: float) -> Result:
    expected = answer_to(question.id) if question.expect == "rows" else []
    return Result(
        question,
        grade(question, expected, outcome).why,
        outcome.status,
        calls,
        outcome.tokens,
        outcome.cost,
        seconds,
        outcome.text,
        outcome.sql,
    )
