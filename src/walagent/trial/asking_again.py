"""Ask saved questions again, and compare with the rows of the statements that people confirmed.

    agent.verified_query → questions of one session, each by itself → agent.evaluation_case

Nothing is rolled back: a question only reads.  Its run and its cost are those of `walagent ask`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from walagent.ask.answering import open_asker
from walagent.ask.asking import Asker
from walagent.ask.options import Options
from walagent.ask.outcome import QuestionResult
from walagent.config import AskSettings
from walagent.config.dsn import Places
from walagent.errors import (
    CircuitBreakerOpenError,
    ConfigError,
    DatabaseLostError,
    WalagentError,
)
from walagent.guard.redact import without_values
from walagent.message import Json
from walagent.rows.equal import same_rows
from walagent.rows.rows import Rows
from walagent.store import evaluations, questions
from walagent.store.errors import translating
from walagent.store.evaluations import NewEvaluation
from walagent.store.questions import SavedQuery
from walagent.trial.charging import Account
from walagent.trial.held import held, open_keeper


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """A saved question that was asked again.

    Args:
        is_right: whether its rows are those of the saved statement; None: that cannot be executed.
        differs: what is wrong with the answer, or why nothing was compared; "": nothing is.
        answer: None: the model was not asked.
    """

    number: int
    saved: SavedQuery
    is_right: bool | None
    differs: str
    answer: QuestionResult | None = None
    seconds: float | None = None

    def to_json(self, tenant: str) -> dict[str, Json]:
        """Write the case as agent.evaluation_case has it.

        Rows are not among it: who sees evaluations need not see what the analyst does.
        """
        answer = self.answer
        answered = answer is not None and answer.status == "answered"
        return {
            "number": self.number,
            "run_id": None,  # the question's own run is the candidate's
            "case_id": self.saved.id,
            "key": None,
            "recorded": None,
            "candidate": {
                "state": "succeeded" if answered else "failed",
                "question": self.saved.question,
                "sql": list(answer.sql) if answer is not None else [],
                "run": answer.run_id if answer is not None else None,
                "error": None if self.is_right else self.differs,
                "result": None,
                "calls": [],
                "tokens": answer.tokens if answer is not None else 0,
                "cost": answer.cost if answer is not None else None,
                "seconds": self.seconds,
            },
            "agrees": None,
            "expected": {"sql": self.saved.sql},
            "was_right": None,
            "is_right": self.is_right,
            "verdict": None,
            "tenant": tenant,
        }


@dataclass(frozen=True, slots=True)
class QuestionReplay:
    """Saved questions that are asked again.

    Args:
        model: that answers; None: the one of the settings.
        last: the maximum number of questions, those that were saved last.
    """

    places: Places
    settings: AskSettings
    model: str | None
    last: int
    differs: Mapping[str, Json] = field(default_factory=dict[str, Json])

    async def execute(
        self, begun: Callable[[int, int, str], None], asked: Callable[[AskedAgain], None]
    ) -> int:
        """Ask the questions; return the ID of the evaluation.

        Args:
            begun: called once, before a model is asked, with the ID of the evaluation, the number
                of questions, and the name of the model.
            asked: called with each question.

        Raises:
            ConfigError: no question is saved, or the model is not valid.
            WalagentError: the evaluation is broken off.
        """
        options = Options(alone=True)
        async with (
            open_keeper(self.places.dsn) as keeper,
            open_asker(self.places, self.settings, options, model=self.model) as asker,
        ):
            with translating():
                saved = await questions.saved_queries(keeper, most=self.last)
                tenant = await evaluations.tenant(keeper)
            if not saved:
                raise ConfigError(
                    "no saved question to ask again",
                    hint='Save some: save in walagent chat, or "Save as verified" in the console.',
                )
            name = asker.model.spec.name
            new = NewEvaluation(None, None, name, tenant, self.differs, len(saved))
            with translating():
                evaluation = await evaluations.begin(keeper, new)
            begun(evaluation, len(saved), name)
            account = Account(keeper, evaluation)
            async with held(account):
                for number, each in enumerate(saved, 1):
                    done = await _ask_again(asker, f"evaluation-{evaluation}", number, each)
                    with translating():
                        async with account.lock:
                            await evaluations.record(keeper, evaluation, done.to_json(tenant))
                    asked(done)
            return evaluation


async def _ask_again(asker: Asker, session: str, number: int, saved: SavedQuery) -> AskedAgain:
    """Ask a saved question, unless its statement cannot be executed."""
    try:
        expected = await asker.query(saved.sql)
    except (DatabaseLostError, CircuitBreakerOpenError):
        raise
    except WalagentError as error:
        reason = f"the saved statement cannot be executed: {without_values(error)}"
        return AskedAgain(number, saved, None, reason)
    if expected.cut:
        return AskedAgain(number, saved, None, f"the saved statement: {expected.cut[0]}")
    start = time.monotonic()
    answer = await asker.ask(saved.question, session)
    differs = difference(expected, answer)
    seconds = round(time.monotonic() - start, 3)
    return AskedAgain(number, saved, not differs, differs, answer, seconds)


def difference(expected: Rows, answer: QuestionResult) -> str:
    """Say in which way the rows of an answer are not the expected ones; "": they are."""
    if answer.status != "answered":
        return f"not answered, but {answer.status}"
    found = answer.rows
    if found.cut:
        return found.cut[0]
    if len(found) != len(expected):
        return f"{len(found)} rows instead of {len(expected)}"
    return "" if same_rows(expected.texts, found.texts) else "other values"
