"""The interface of PG Agent's library, on our engine: its example runs with another import line."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from walagent.app.client import AsyncClient
from walagent.ask.outcome import Outcome
from walagent.ask.plan import Plan
from walagent.config import Ask
from walagent.errors import WalagentError
from walagent.message import ModelSpec

# What a Supervisor asks unless it is told otherwise, by a protocol that we speak.
GEMINI: Final = ModelSpec(
    "gemini",
    "openai",
    "gemini-2.5-flash",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
    credential="GEMINI_API_KEY",
    context_window=1_000_000,
    max_output_tokens=8192,
)


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
    outcome: Outcome

    @property
    def is_complete(self) -> bool:
        """Whether there is an answer."""
        return self.outcome.status == "answered"


class Supervisor:
    """Plans, runs and judges; the sessions are kept in the database."""

    def __init__(  # noqa: PLR0913 - those of the interface, and two of ours
        self,
        api_key: str | None = None,
        db_url: str = "",
        redis_url: str | None = None,
        max_retries: int = 3,
        *,
        model: str | ModelSpec | None = None,
        settings: Ask | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            api_key: of the model.
            db_url: the database; this one is used, and no other.
            redis_url: not needed; accepted so that old programs run.
            max_retries: the same; how often is planned again is fixed.
            model: instead of Gemini.
            settings: as the section `ask` of agents.yaml has them.
        """
        del redis_url, max_retries
        self._client = AsyncClient(
            db_url, model=model or GEMINI, settings=settings, api_key=api_key
        )

    async def setup_database(self) -> int:
        """See that everything is there; give how many tables questions can be about."""
        return await self._client.index()

    async def index_database_schema(self) -> int:
        """Read the schema anew; it is read for each question anyway."""
        return await self._client.index()

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
        outcome = await self._client.ask(
            question, session=session_id, parallel=pattern == CoordinationPattern.PARALLEL
        )
        if outcome.status == "error":
            raise WalagentError(outcome.text)
        plan = outcome.plan or Plan(reasoning=outcome.text)
        results = {
            name: [dict(zip(result.rows.names, row, strict=True)) for row in result.rows]
            for name, result in outcome.results.items()
        }
        return OrchestrationState(session_id, pattern, plan, results, outcome)

    async def aclose(self) -> None:
        """Give all connections back."""
        await self._client.aclose()
