"""The interface of PG Agent's library, on our engine: its example runs with another import line."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from walagent.ask.answering import GEMINI
from walagent.ask.options import MOST_RETRIES, Options
from walagent.ask.outcome import QuestionResult
from walagent.ask.plan import Plan
from walagent.client import AsyncClient
from walagent.config import AskSettings
from walagent.errors import WalagentError
from walagent.message import ModelSpec


class CoordinationPattern(StrEnum):
    """Whether steps that do not need one another run side by side."""

    SEQUENTIAL = "SEQUENTIAL"
    PARALLEL = "PARALLEL"


@dataclass(frozen=True, slots=True)
class OrchestrationState:
    """What became of a question.

    Args:
        plan: its reasoning and steps; without steps where there was nothing to run.
        results: the rows of each step, by its id, as a list of dictionaries.
        outcome: the answer in words, and all that it rests on.
    """

    session_id: str
    pattern: CoordinationPattern
    plan: Plan
    results: Mapping[str, Any]
    outcome: QuestionResult

    @property
    def is_complete(self) -> bool:
        """Whether there is an answer."""
        return self.outcome.status == "answered"


class Supervisor:
    """Plans, runs and evaluates; the sessions are kept in the database.

    It holds no connection between calls, so nothing has to be closed.
    """

    def __init__(  # noqa: PLR0913 - those of the interface, and two of ours
        self,
        api_key: str | None = None,
        db_url: str = "",
        redis_url: str | None = None,
        max_retries: int = 3,
        *,
        model: str | ModelSpec | None = None,
        settings: AskSettings | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            api_key: of the model; without it, the key that its credential names.
            db_url: the database; this one is used, and no other.
            redis_url: not needed; accepted so that old programs run.
            max_retries: how often is planned again after a statement that failed.
            model: instead of Gemini; the name of a row of `agent.model`, or one of your own.  A row
                called gemini goes before what is built in.
            settings: as the section `ask` of agents.yaml has them.
        """
        del redis_url
        self._client = partial(
            AsyncClient,
            db_url,
            model=model or GEMINI.name,
            settings=settings,
            options=Options(retries=min(max_retries, MOST_RETRIES)),
            api_key=api_key,
        )

    async def setup_database(self) -> int:
        """See that everything is there; give how many tables questions can be about."""
        return await self.index_database_schema()

    async def index_database_schema(self) -> int:
        """Read the schema anew; give how many tables questions can be about."""
        async with self._client() as client:
            return (await client.index()).tables

    async def orchestrate(
        self,
        session_id: str,
        pattern: CoordinationPattern = CoordinationPattern.SEQUENTIAL,
        question: str = "",
    ) -> OrchestrationState:
        """Answer a question in a session.

        Raises:
            WalagentError: it could not be answered; says why.
        """
        async with self._client() as client:
            outcome = await client.ask(
                question, session=session_id, parallel=pattern == CoordinationPattern.PARALLEL
            )
        if outcome.status == "error":
            raise WalagentError(outcome.text)
        plan = outcome.plan or Plan(reasoning=outcome.text)
        results = {name: result.rows.dicts() for name, result in outcome.results.items()}
        return OrchestrationState(session_id, pattern, plan, results, outcome)
