"""The interface of PG Agent's library: its example programs run with another import line."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, Field, PrivateAttr, field_validator

from walagent.ask.analyst_role import make_analyst
from walagent.ask.answering import open_reading
from walagent.ask.catalog import IndexSummary
from walagent.ask.health import Health
from walagent.ask.model_choice import GEMINI
from walagent.ask.options import MOST_RETRIES, Options
from walagent.ask.outcome import QuestionResult
from walagent.ask.plan import Plan, PlanStep, StepType
from walagent.ask.results import StepResult
from walagent.client import AsyncClient
from walagent.config import AskSettings
from walagent.config.dsn import Places, places_of
from walagent.errors import (
    CircuitBreakerOpenError,
    ConfigError,
    ModelLimitedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Json, ModelSpec
from walagent.rows.rows import Rows
from walagent.store.errors import translating
from walagent.store.install.migrate import migrate
from walagent.store.people.question_runs import AnsweredQuestion
from walagent.store.sessions.connections import connect

ExecutionError = WalagentError
"""What `Supervisor` raises: `CircuitBreakerOpenError` is one."""

_USER, _SUPERVISOR = "user", "supervisor"
_EXTENSIONS: Final = "select extname from pg_extension where extname in ('vector', 'pg_trgm')"


class CoordinationPattern(StrEnum):
    """Whether independent steps run concurrently."""

    SEQUENTIAL = "SEQUENTIAL"
    PARALLEL = "PARALLEL"


class AgentMessage(BaseModel):
    """A question or an answer of a session."""

    message_id: str
    sender: str
    receiver: str
    payload: dict[str, Any]
    timestamp: datetime


class OrchestrationState(BaseModel):
    """The result of a question.

    Args:
        plan: its reasoning and steps; no steps if none were needed.
        results: of each step, by its ID; values are plain JSON.  SQL and ANALYZE: `results` (rows
            as dictionaries) and `row_count`.  SEARCH: also `answer` and `sources`.  VERIFY:
            `verifications` and `overall_pass`.  A failed step: `error`.
        history: the questions and answers of the session, oldest first, this one included.
        is_complete: whether there is an answer to which the critic does not object.
        answer: the answer in words.
        error: why there is no answer; "" if there is one.
        caveats: what limits the answer.
    """

    session_id: str
    pattern: CoordinationPattern = CoordinationPattern.SEQUENTIAL
    plan: Plan = Field(default_factory=lambda: Plan(reasoning=""))
    results: dict[str, Any] = Field(default_factory=dict)
    history: list[AgentMessage] = Field(default_factory=list[AgentMessage])
    is_complete: bool = False
    answer: str = ""
    error: str = ""
    caveats: list[str] = Field(default_factory=list)
    _outcome: QuestionResult | None = PrivateAttr(None)

    @field_validator("plan", mode="before")
    @classmethod
    def _planned(cls, plan: object) -> object:
        return Plan(reasoning="") if plan is None else plan

    @classmethod
    def of(
        cls,
        outcome: QuestionResult,
        pattern: CoordinationPattern,
        turns: Sequence[AnsweredQuestion],
    ) -> Self:
        """Convert the result of a question, and the turns of its session."""
        failed = outcome.status == "error"
        state = cls(
            session_id=outcome.session,
            pattern=pattern,
            plan=outcome.plan or Plan(reasoning=outcome.text),
            results={name: _result(result) for name, result in outcome.results.items()},
            history=[message for n, turn in enumerate(turns) for message in _messages(n, turn)],
            is_complete=outcome.status == "answered" and not outcome.objections,
            answer="" if failed else outcome.text,
            error=outcome.text if failed else "",
            caveats=list(outcome.caveats),
        )
        state._outcome = outcome
        return state

    @property
    def outcome(self) -> QuestionResult:
        """The answer with its exact rows and statements, as `Client.ask` returns it."""
        if self._outcome is None:
            raise ConfigError("this state is not the result of a question")
        return self._outcome


@dataclass(slots=True)
class _OpenClient:
    """The client that the concurrent questions of one event loop share."""

    client: AsyncClient
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Supervisor:
    """Plans, executes and verifies; sessions are stored in the database.

    Connections are open while a question is answered, so it need not be closed.  Failures of the
    database and of the model count across questions.
    """

    def __init__(  # noqa: PLR0913 - those of the interface, and three of ours
        self,
        api_key: str | None = None,
        db_url: str = "",
        redis_url: str | None = None,
        max_retries: int = 3,
        *,
        model: str | ModelSpec | None = None,
        settings: AskSettings | None = None,
        critic: bool | Literal["always"] = True,
    ) -> None:
        """Store the parameters; nothing is connected.

        Args:
            api_key: of the model; by default, from its credential.
            db_url: the database; no other is used.
            redis_url: ignored; accepted for existing programs.
            max_retries: maximum replans after failed statements.
            model: the name of a row of `agent.model`, or a model object; by default, the row named
                gemini, else that of gemini-2.5-flash, wherever its requests go.
            settings: as in section `ask` of agents.yaml.
            critic: as in `Options`; "always" reviews the results of every question.
        """
        del redis_url
        self._dsn = db_url
        self._model = model or GEMINI
        self._settings = settings or AskSettings()
        self._options = Options(retries=min(max_retries, MOST_RETRIES), critic=critic)
        self._api_key = api_key
        self._health = Health()
        self._open_clients: dict[asyncio.AbstractEventLoop, _OpenClient] = {}

    async def setup_database(self) -> dict[str, Any]:
        """Prepare the database for questions: schema, analyst role, schema index.

        It is idempotent.

        Returns:
            `status`, `migrations` (applied now), `role`, `tables` (that questions can use),
            `pgvector` and `pg_trgm` (whether they are installed; neither is required), `warnings`.

        Raises:
            WalagentError: the login lacks a privilege; the hint has the statements.
        """
        places, role = self._places(), self._settings.role
        with translating():
            async with await connect(places.dsn, application="walagent setup") as conn:
                applied = await migrate(conn)
                await make_analyst(conn, role, self._settings.schemas)
                cursor = await conn.execute(_EXTENSIONS)
                extensions = {name for (name,) in await cursor.fetchall()}
        tables = (await self._index()).tables
        unreadable = f"role {role} can read no table: grant it select on the tables to ask about"
        return {
            "status": "ready",
            "migrations": applied.names,
            "role": role,
            "tables": tables,
            "pgvector": "vector" in extensions,
            "pg_trgm": "pg_trgm" in extensions,
            "warnings": [] if tables else [unreadable],
        }

    async def index_database_schema(self) -> int:
        """Refresh the schema index; return the number of indexed tables."""
        return (await self._index()).tables

    async def orchestrate(
        self,
        session_id: str,
        pattern: CoordinationPattern = CoordinationPattern.SEQUENTIAL,
        question: str = "",
    ) -> OrchestrationState:
        """Answer a question in a session.

        A question that ended without an answer returns with `is_complete` false and `error`.

        Raises:
            CircuitBreakerOpenError: the database or the model failed several times.
            WalagentError: the question did not end; asked again, it continues.
        """
        parallel = pattern == CoordinationPattern.PARALLEL
        async with self._client() as client:
            try:
                outcome = await client.ask(question, session=session_id, parallel=parallel)
            except (ModelLimitedError, ModelUnavailableError) as error:
                if not error.breaker:
                    raise
                raise CircuitBreakerOpenError(str(error), hint=error.hint) from error
            turns = await client.turns(session_id)
        return OrchestrationState.of(outcome, CoordinationPattern(pattern), turns)

    def _places(self) -> Places:
        if not self._dsn:
            raise ConfigError("no database given", hint='Use Supervisor(db_url="postgresql://…").')
        return places_of(self._dsn)

    async def _index(self) -> IndexSummary:
        places, breaker = self._places(), self._health.database
        async with open_reading(places, self._settings, breaker) as reading:
            return await reading.catalog.index()

    @asynccontextmanager
    async def _client(self) -> AsyncGenerator[AsyncClient]:
        """Open a client, unless another question of this event loop has one open."""
        loop = asyncio.get_running_loop()
        shared = self._open_clients.get(loop)
        if shared is None:
            shared = self._open_clients[loop] = _OpenClient(self._new_client())
        shared.users += 1
        try:
            async with shared.opening:
                await shared.client.__aenter__()  # does nothing if it is open
            yield shared.client
        finally:
            shared.users -= 1
            if not shared.users:
                del self._open_clients[loop]
                await shared.client.aclose()

    def _new_client(self) -> AsyncClient:
        return AsyncClient(
            self._dsn,
            model=self._model,
            settings=self._settings,
            options=self._options,
            api_key=self._api_key,
            health=self._health,
        )


def _messages(number: int, turn: AnsweredQuestion) -> Sequence[AgentMessage]:
    name = f"{turn.session}:{number}"
    answer = {key: turn.answer.get(key) for key in ("status", "answer", "sql")}
    return [
        AgentMessage(
            message_id=f"{name}:{sender}",
            sender=sender,
            receiver=receiver,
            payload=payload,
            timestamp=turn.asked_at,
        )
        for sender, receiver, payload in (
            (_USER, _SUPERVISOR, {"question": turn.question}),
            (_SUPERVISOR, _USER, answer),
        )
    ]


def _result(result: StepResult) -> dict[str, Json]:
    rows = _plain_rows(result.rows)
    shown: dict[str, Json] = {"results": rows, "row_count": len(rows)}
    if result.error:
        shown["error"] = result.error
    match result.type:
        case StepType.ANALYZE:
            shown["combined_results"] = rows
        case StepType.SEARCH:
            lines = [f"{row['title']}: {row['excerpt']}" for row in rows]
            sources = [row["url"] for row in rows]
            shown |= {"answer": "\n".join(lines), "sources": sources, "search_html": ""}
        case StepType.VERIFY:
            verdicts = {row["step"]: "PASS" if row["passed"] else "FAIL" for row in rows}
            passed = not result.error and "FAIL" not in verdicts.values()
            shown |= {"status": "complete", "verifications": verdicts, "overall_pass": passed}
        case StepType.SQL:
            pass
    return shown


def _plain_rows(rows: Rows) -> list[dict[str, Json]]:
    """Give rows whose values `json.dumps` accepts: numbers and truth, else PostgreSQL's text."""
    names = rows.distinct_names
    return [
        {name: _plain(value, text) for name, value, text in zip(names, values, texts, strict=True)}
        for values, texts in zip(rows.values, rows.texts, strict=True)
    ]


def _plain(value: object, text: str | None) -> Json:
    match value:
        case Decimal():
            return float(value)
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return value.isoformat()
        case _:
            return text


__all__: Sequence[str] = [
    "AgentMessage",
    "CircuitBreakerOpenError",
    "CoordinationPattern",
    "ExecutionError",
    "OrchestrationState",
    "Plan",
    "PlanStep",
    "Supervisor",
]
