"""Answer questions from Python.

from walagent import Client

with Client("postgresql://app@db.example/shop", model="gpt-4o") as client:
print(client.ask("How many customers are there in each country?").text)
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Literal, Self, TypeVar
from uuid import uuid4

from walagent.ask.answering import open_asker
from walagent.ask.asking import Asker
from walagent.ask.catalog import IndexSummary
from walagent.ask.health import Health
from walagent.ask.options import Options
from walagent.ask.outcome import QuestionEvent, QuestionResult
from walagent.blocking import Blocking
from walagent.config import AskSettings
from walagent.config.dsn import places_of
from walagent.errors import ConfigError
from walagent.message import ModelSpec
from walagent.rows.rows import Rows
from walagent.store.people.question_runs import AnsweredQuestion, SessionSummary
from walagent.telemetry.mask import hide

T = TypeVar("T")


class AsyncClient:
    """Answers questions about one database; open it with `async with`."""

    def __init__(  # noqa: PLR0913 - how questions are answered
        self,
        dsn: str,
        *,
        model: str | ModelSpec | None = None,
        settings: AskSettings | None = None,
        options: Options | None = None,
        api_key: str | None = None,
        health: Health | None = None,
        token: str | None = None,
    ) -> None:
        """Store the parameters; `async with` connects.

        Args:
            dsn: for the login that stores sessions and runs; no other database is used.
            model: the name of a row of `agent.model`, or a model object; optional if there is only
                one row.
            settings: as in section `ask` of agents.yaml.
            options: the defaults of `ask`.
            api_key: the model's key; by default, from its credential.
            health: circuit breakers that outlive the client; by default, of its own.
            token: of the principal that asks; by default, the login does.
        """
        self._dsn = dsn
        self._token = token
        if token:
            hide(token)
        self._model = model
        self._settings = settings or AskSettings()
        self._options = options or Options()
        self._api_key = api_key
        self._health = health or Health()
        self._stack = AsyncExitStack()
        self._asker: Asker | None = None

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            PreconditionError: the analyst's role is missing or can write, or there is no model.
        """
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        self._asker = None
        await self._stack.aclose()

    async def ask(  # noqa: PLR0913 - how a question can be asked
        self,
        question: str,
        *,
        session: str | None = None,
        parallel: bool | None = None,
        retries: int | None = None,
        candidates: int | None = None,
        critic: bool | Literal["always"] | None = None,
        on_event: Callable[[QuestionEvent], None] = lambda _: None,
    ) -> QuestionResult:
        """Answer a question.

        Args:
            session: later questions of the session refer to earlier ones, and an interrupted one
                is finished first; by default, a new session.
            parallel, retries, candidates, critic: override `Options` for this question.

        Raises:
            ConfigError: the question is empty or too long, or an option is invalid.
            ModelUnauthorizedError, ModelUnavailableError: the model cannot be called.
        """
        said = {"parallel": parallel, "retries": retries, "candidates": candidates}
        said |= {"critic": critic}
        changed = {name: value for name, value in said.items() if value is not None}
        asker = (await self._open()).with_options(replace(self._options, **changed))
        return await asker.ask_in_turn(question, session or f"client-{uuid4().hex[:12]}", on_event)

    async def chat(self, session: str | None = None) -> "AsyncConversation":
        """Start or continue a conversation."""
        await self._open()
        return AsyncConversation(self, session or f"client-{uuid4().hex[:12]}")

    async def query(self, sql: str) -> Rows:
        """Run a SQL statement with the analyst's role and limits.

        Raises:
            StatementRefusedError: the statement must not run.
        """
        return await (await self._open()).query(sql)

    async def index(self) -> IndexSummary:
        """Refresh the schema index; return what questions can be about."""
        return await (await self._open()).index()

    async def turns(self, session: str) -> Sequence[AnsweredQuestion]:
        """Return the latest answered questions of a session, oldest first."""
        return await (await self._open()).turns(session)

    async def sessions(self) -> Sequence[SessionSummary]:
        """Return the sessions of this login, the latest first."""
        return await (await self._open()).sessions()

    async def delete_session(self, session: str) -> bool:
        """Delete a session with its questions, answers and runs; return whether it existed."""
        return await (await self._open()).delete_session(session)

    async def _open(self) -> Asker:
        if self._asker is None:
            if not self._dsn:
                raise ConfigError("no database given", hint='Use Client("postgresql://…").')
            self._asker = await self._stack.enter_async_context(
                open_asker(
                    places_of(self._dsn, self._token),
                    self._settings,
                    self._options,
                    model=self._model,
                    api_key=self._api_key,
                    health=self._health,
                )
            )
        return self._asker


class AsyncConversation:
    """Questions that share a session."""

    def __init__(self, client: AsyncClient, session: str) -> None:
        """Use a session, which can have turns already."""
        self._client = client
        self.session = session

    async def ask(self, question: str) -> QuestionResult:
        """Ask the next question."""
        return await self._client.ask(question, session=self.session)


class Client(Blocking[AsyncClient]):
    """The synchronous client; open it with `with`."""

    def __init__(  # noqa: PLR0913 - as AsyncClient
        self,
        dsn: str,
        *,
        model: str | ModelSpec | None = None,
        settings: AskSettings | None = None,
        options: Options | None = None,
        api_key: str | None = None,
        token: str | None = None,
    ) -> None:
        """Store the parameters, which are those of `AsyncClient`."""
        super().__init__(
            AsyncClient(
                dsn, model=model, settings=settings, options=options, api_key=api_key, token=token
            )
        )

    def ask(  # noqa: PLR0913 - how a question can be asked
        self,
        question: str,
        *,
        session: str | None = None,
        parallel: bool | None = None,
        retries: int | None = None,
        candidates: int | None = None,
        critic: bool | Literal["always"] | None = None,
        on_event: Callable[[QuestionEvent], None] = lambda _: None,
    ) -> QuestionResult:
        """Answer a question; see `AsyncClient.ask`."""
        return self._run(
            self._client.ask(
                question,
                session=session,
                parallel=parallel,
                retries=retries,
                candidates=candidates,
                critic=critic,
                on_event=on_event,
            )
        )

    def chat(self, session: str | None = None) -> "Conversation":
        """Start or continue a conversation; see `AsyncClient.chat`."""
        return Conversation(self, self._run(self._client.chat(session)).session)

    def query(self, sql: str) -> Rows:
        """Run a SQL statement; see `AsyncClient.query`."""
        return self._run(self._client.query(sql))

    def index(self) -> IndexSummary:
        """Refresh the schema index; see `AsyncClient.index`."""
        return self._run(self._client.index())

    def turns(self, session: str) -> Sequence[AnsweredQuestion]:
        """Return the latest answered questions of a session, oldest first."""
        return self._run(self._client.turns(session))

    def sessions(self) -> Sequence[SessionSummary]:
        """Return the sessions of this login, the latest first."""
        return self._run(self._client.sessions())

    def delete_session(self, session: str) -> bool:
        """Delete a session; see `AsyncClient.delete_session`."""
        return self._run(self._client.delete_session(session))


class Conversation:
    """Questions that share a session, for programs without an event loop."""

    def __init__(self, client: Client, session: str) -> None:
        """Use a session, which can have turns already."""
        self._client = client
        self.session = session

    def ask(self, question: str) -> QuestionResult:
        """Ask the next question."""
        return self._client.ask(question, session=self.session)


__all__: Sequence[str] = ["AsyncClient", "AsyncConversation", "Client", "Conversation", "Options"]
