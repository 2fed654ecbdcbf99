"""Ask: a question of a session becomes a run whose lease the asking process holds.

When this process dies, the same session goes on where it was.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from psycopg.errors import InsufficientPrivilege

from walagent.ask.catalog import IndexSummary
from walagent.ask.context import SchemaContext
from walagent.ask.options import Options
from walagent.ask.outcome import QuestionEvent, QuestionResult, SessionWaiting
from walagent.ask.question import AskResources, Question
from walagent.errors import (
    ConfigError,
    LeaseLostError,
    ModelLimitedError,
    ModelRejectedError,
    ModelUnavailableError,
    PreconditionError,
)
from walagent.models.model import Model
from walagent.postgres.quoting import quote_text
from walagent.rows.rows import Rows
from walagent.store import questions
from walagent.store.errors import translating
from walagent.store.people.question_runs import (
    AnsweredQuestion,
    SessionSummary,
    answered_in,
    delete_session,
    find_answered,
    last_answered,
    list_sessions,
)
from walagent.store.questions import ClaimedQuestion, SessionHistory

LONGEST: Final = 20_000  # characters of a question
LONGEST_NAME: Final = 200  # characters of a session's name
_PATIENCE: Final = 60.0  # seconds that a person waits for a provider or a budget
_BRIEF: Final = 0.05  # the same, for a question that is not the one they ask now
_LOOK: Final = 1.0  # seconds between two looks at what another process does


def check_question(text: str) -> None:
    """See that there is something to answer.

    Raises:
        ConfigError: there is no question, or it is too long.
    """
    if not text.strip():
        raise ConfigError("the question is empty")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError("the question has bytes that are not UTF-8, or a NUL")
    if len(text) > LONGEST:
        raise ConfigError(f"the question has {len(text):,} characters; {LONGEST:,} are allowed")


def check_session(name: str) -> None:
    """See that a session can have this name.

    Raises:
        ConfigError: it cannot.
    """
    if not 1 <= len(name) <= LONGEST_NAME or "\0" in name:
        raise ConfigError(f"a session's name has 1 to {LONGEST_NAME} characters")


@contextmanager
def asking_as(login: str) -> Generator[None]:
    """Say how the login is allowed to ask, if it is not.

    Raises:
        PreconditionError: it lacks the grants of `agent.grant_asker`.
    """
    try:
        yield
    except InsufficientPrivilege as error:
        raise PreconditionError(
            f'login "{login}" cannot ask questions: {error.diag.message_primary}',
            hint="As the owner of schema agent, run"
            f" select agent.grant_asker({quote_text(login)});",
            sqlstate=error.sqlstate,
        ) from error


class Asker:
    """Answers questions; one at a time for each session."""

    def __init__(self, resources: AskResources, options: Options, *, name: str) -> None:
        """Take what it works with.

        Args:
            name: of this process, for the runs that it holds.
        """
        self._resources = resources
        self._options = options
        self._name = name

    @property
    def model(self) -> Model:
        """The model that answers.

        Raises:
            PreconditionError: there is no model.
        """
        return self._resources.asked

    def with_options(self, options: Options) -> "Asker":
        """Give the same with other options."""
        return Asker(self._resources, options, name=self._name)

    async def ask(
        self, text: str, session: str, on_event: Callable[[QuestionEvent], None] = lambda _: None
    ) -> QuestionResult:
        """Answer a question.

        Raises:
            ConfigError: there is no question, or it is too long; the session is somebody else's.
            ModelUnauthorizedError, ModelUnavailableError: the model cannot be called.
            PreconditionError: the analyst can read no table.
        """
        check_question(text)
        check_session(session)
        _ = self._resources.asked  # before anything is stored
        await self._resources.catalog.check()
        with translating():
            async with self._resources.pool.connection() as conn, conn.transaction():
                with asking_as(conn.info.user):
                    question = await questions.ask(conn, session, text, self._options.to_json())
                asked = await questions.claim_question(
                    conn, question, self._name, self._resources.lease
                )
        if asked is None:
            raise LeaseLostError("another process has claimed the question")
        return await self._work(asked, session, self._options, on_event)

    async def ask_in_turn(
        self,
        text: str,
        session: str,
        on_event: Callable[[QuestionEvent], None] = lambda _: None,
        on_left: Callable[[str, str], None] = lambda _, __: None,
    ) -> QuestionResult:
        """Answer a question after the one that an earlier process of the session left unfinished.

        If that is the same question, its answer is the answer.  If the model does not answer the
        other one, it is given up: it must not block the session.

        Args:
            on_left: called with the other question, and its answer or why it was given up.

        Raises: as `ask`.
        """
        check_question(text)
        check_session(session)
        _ = self._resources.asked
        left = await self._claim_left(session, on_event)
        if left is not None:
            options = self._options.with_recorded(left.options)
            try:
                wait = _PATIENCE if left.text == text else _BRIEF
                found = await self._work(left, session, options, on_event, wait)
            except (ModelUnavailableError, ModelLimitedError, ModelRejectedError) as error:
                if left.text == text:
                    raise
                on_left(left.text, f"given up: {error}")
            else:
                if left.text == text:
                    return found
                on_left(left.text, found.text)
        return await self.ask(text, session, on_event)

    async def resume(
        self, session: str, on_event: Callable[[QuestionEvent], None] = lambda _: None
    ) -> QuestionResult | None:
        """Go on with the question of a session that nobody finished; None when there is none.

        One that another process works on is waited for: the next builds on its answer, and whether
        that process still lives shows when its lease should be extended.
        """
        asked = await self._claim_left(session, on_event)
        if asked is None:
            return None
        options = self._options.with_recorded(asked.options)
        return await self._work(asked, session, options, on_event)

    async def _claim_left(
        self, session: str, on_event: Callable[[QuestionEvent], None]
    ) -> ClaimedQuestion | None:
        """Claim the unfinished question of a session, after the process that holds it, if any."""
        with translating():
            asked, wait = await self._left_behind(session)
            if wait is not None:
                on_event(SessionWaiting(wait))
            while wait is not None:
                await asyncio.sleep(min(wait + 0.1, _LOOK))
                asked, wait = await self._left_behind(session)
        return asked

    async def _left_behind(self, session: str) -> tuple[ClaimedQuestion | None, float | None]:
        """Claim the unfinished question of a session; else give for how long it is held."""
        async with self._resources.pool.connection() as conn, conn.transaction():
            question = await questions.resume_session(conn, session)
            if question is None:
                return None, None
            if question.wait is not None:
                return None, question.wait
            asked = await questions.claim_question(
                conn, question, self._name, self._resources.lease
            )
            return (None, _LOOK) if asked is None else (asked, None)

    async def history(self, session: str) -> Sequence[str]:
        """Give the answered questions of a session, oldest first."""
        with translating():
            async with self._resources.pool.connection() as conn:
                return await questions.asked_before(conn, session)

    async def last_answered(self, session: str) -> AnsweredQuestion | None:
        """Give the latest question of a session that was answered."""
        with translating():
            async with self._resources.pool.connection() as conn:
                return await last_answered(conn, session)

    async def turns(self, session: str) -> Sequence[AnsweredQuestion]:
        """Give the latest answered questions of a session, oldest first."""
        with translating():
            async with self._resources.pool.connection() as conn:
                return await answered_in(conn, session)

    async def sessions(self) -> Sequence[SessionSummary]:
        """Give the sessions of this login, the latest first."""
        with translating():
            async with self._resources.pool.connection() as conn:
                return await list_sessions(conn)

    async def delete_session(self, session: str) -> bool:
        """Delete a session with its questions, answers and runs; return whether there was one."""
        with translating():
            async with self._resources.pool.connection() as conn:
                return await delete_session(conn, session)

    async def find(self, words: str) -> Sequence[AnsweredQuestion]:
        """Find earlier questions of this login, of any session, by words of them or of answers."""
        with translating():
            async with self._resources.pool.connection() as conn:
                return await find_answered(conn, words)

    async def save(self, question: str, sql: str) -> None:
        """Keep a statement that a person has found right, as an example for later questions."""
        with translating():
            async with self._resources.pool.connection() as conn:
                await questions.save_query(conn, question, sql)

    async def query(self, sql: str) -> Rows:
        """Run a statement of the person's own, with the analyst's rights and limits.

        Raises:
            StatementRefusedError: it may not run.
        """
        with translating():
            return await self._resources.statements.read(sql)

    async def index(self) -> IndexSummary:
        """Read the schema again, even if it appears unchanged, and store it.

        Raises:
            PreconditionError: this login may not keep it.
        """
        return await self._resources.catalog.index()

    async def describe_schema(self, words: str) -> SchemaContext:
        """Describe what questions can be about: all of it, or what fits *words* best."""
        return await self._resources.catalog.describe(words)

    async def _work(
        self,
        asked: ClaimedQuestion,
        session: str,
        options: Options,
        on_event: Callable[[QuestionEvent], None],
        patience: float = _PATIENCE,
    ) -> QuestionResult:
        past = SessionHistory()
        if not options.alone:
            with translating():
                async with self._resources.pool.connection() as conn:
                    past = await questions.past(conn, session)
        question = Question(self._resources, options, past, asked, session)
        with translating():
            return await question.answer(self._name, on_event, patience)
