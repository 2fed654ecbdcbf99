"""The interface of PG Agent's library: its example programs run with another import line."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from walagent.ask.model_choice import GEMINI
from walagent.ask.options import MOST_RETRIES, Options
from walagent.ask.outcome import QuestionResult
from walagent.ask.plan import Plan
from walagent.client import AsyncClient
from walagent.config import AskSettings
from walagent.errors import WalagentError
from walagent.message import ModelSpec


class CoordinationPattern(StrEnum):
    """Whether independent steps run concurrently."""

    SEQUENTIAL = "SEQUENTIAL"
    PARALLEL = "PARALLEL"


@dataclass(frozen=True, slots=True)
class OrchestrationState:
    """The result of a question.

    Args:
        plan: its reasoning and steps; no steps if none were needed.
        results: the rows of each step, by its ID, as a list of dictionaries.
        outcome: the answer in words, and what it is based on.
    """

    session_id: str
    pattern: CoordinationPattern
    plan: Plan
    results: Mapping[str, Any]
    outcome: QuestionResult

    @property
    def is_complete(self) -> bool:
        """Return whether there is an answer."""
        return self.outcome.status == "answered"


class Supervisor:
    """Plans, executes and verifies; sessions are stored in the database.

    It keeps no connection between calls, so it need not be closed.
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
        """Store the parameters; nothing is connected.

        Args:
            api_key: of the model; by default, from its credential.
            db_url: the database; no other is used.
            redis_url: ignored; accepted for existing programs.
            max_retries: maximum replans after failed statements.
            model: instead of Gemini; the name of a row of `agent.model`, or a model object.  A row
                named gemini takes precedence over the built-in one.
            settings: as in section `ask` of agents.yaml.
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
        """Check that everything is installed; return the number of indexed tables."""
        return await self.index_database_schema()

    async def index_database_schema(self) -> int:
        """Refresh the schema index; return the number of indexed tables."""
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
            WalagentError: there is no answer, for the reason in the message.
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
