"""Asking: a question of a session becomes a run, and whoever asks holds its lease.

When this process dies, the same session goes on where it was.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from walagent.ask.catalog import Indexed
from walagent.ask.context import SchemaContext
from walagent.ask.outcome import Event, Outcome, Waiting
from walagent.ask.work import Desk, Options, Work
from walagent.errors import (
    BudgetExceededError,
    ConfigError,
    DatabaseLostError,
    LeaseLostError,
    ModelLimitedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
)
from walagent.rows.rows import Rows
from walagent.run import RunState
from walagent.store import questions
from walagent.store.errors import translating
from walagent.store.question_runs import Answered, find_answered, last_answered
from walagent.store.questions import Asked

LONGEST: Final = 20_000  # characters of a question
LONGEST_NAME: Final = 200  # characters of a session's name
LEASE: Final = timedelta(seconds=10)  # who goes on after a kill waits so long
_LOOK: Final = 1.0  # seconds between two looks at what another process does
# After these the question waits for its session to go on.
_LATER: Final = (
    DatabaseLostError,
    ModelLimitedError,
    ModelUnavailableError,
    ModelUnauthorizedError,
)


def check_question(text: str) -> None:
    """See that there is something to answer.

    Raises:
        ConfigError: there is no question, or it is too long.
    """
    if not text.strip():
        raise ConfigError("the question is empty")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError("the question is no text: it has bytes that are not UTF-8, or a NUL")
    if len(text) > LONGEST:
        raise ConfigError(f"the question has {len(text):,} characters; {LONGEST:,} are allowed")


def check_session(name: str) -> None:
    """See that a session can have this name.

    Raises:
        ConfigError: it cannot.
    """
    if not 1 <= len(name) <= LONGEST_NAME or "\0" in name:
        raise ConfigError(f"a session's name has 1 to {LONGEST_NAME} characters")


class Asker:
    """Answers questions; one at a time for each session."""

    def __init__(self, desk: Desk, options: Options, *, name: str) -> None:
        """Take what it works with.

        Args:
            name: of this process, for the runs that it holds.
        """
        self._desk = desk
        self._options = options
        self._name = name

    def with_options(self, options: Options) -> "Asker":
        """Give the same with other options."""
        return Asker(self._desk, options, name=self._name)

    async def ask(
        self, text: str, session: str, on_event: Callable[[Event], None] = lambda _: None
    ) -> Outcome:
        """Answer a question.

        Raises:
            ConfigError: there is no question, or it is too long; the session is somebody else's.
            ModelUnauthorizedError, ModelUnavailableError: there is no model to ask.
        """
        check_question(text)
        check_session(session)
        with translating():
            async with self._desk.pool.connection() as conn, conn.transaction():
                asked = await questions.begin_question(
                    conn, session, text, self._options.to_json(), self._name, LEASE
                )
        return await self._work(asked, session, self._options, on_event)

    async def resume(
        self, session: str, on_event: Callable[[Event], None] = lambda _: None
    ) -> Outcome | None:
        """Go on with the question of a session that nobody finished; None when there is none.

        One that another process works on is waited for: the next builds on its answer, and whether
        that process still lives shows when its lease should be extended.
        """
        with translating():
            asked, wait = await self._left_behind(session)
            if wait is not None:
                on_event(Waiting(wait))
            while wait is not None:
                await asyncio.sleep(min(wait + 0.1, _LOOK))
                asked, wait = await self._left_behind(session)
        if asked is None:
            return None
        options = self._options.with_recorded(asked.options)
        return await self._work(asked, session, options, on_event)

    async def _left_behind(self, session: str) -> tuple[Asked | None, float | None]:
        """Claim the question that nobody finished; else say for how long it is somebody's."""
        async with self._desk.pool.connection() as conn, conn.transaction():
            asked = await questions.resume_question(conn, session, self._name, LEASE)
            if asked is not None:
                return asked, None
            return None, await questions.question_under_way(conn, session)

    async def history(self, session: str) -> Sequence[str]:
        """Give the answered questions of a session, oldest first."""
        with translating():
            async with self._desk.pool.connection() as conn:
                return await questions.asked_before(conn, session)

    async def last_answered(self, session: str) -> Answered | None:
        """Give the latest question of a session that was answered."""
        with translating():
            async with self._desk.pool.connection() as conn:
                return await last_answered(conn, session)

    async def find(self, words: str) -> Sequence[Answered]:
        """Find earlier questions of this login, of any session, by words of them or of answers."""
        with translating():
            async with self._desk.pool.connection() as conn:
                return await find_answered(conn, words)

    async def save(self, question: str, sql: str) -> None:
        """Keep a statement that a person has found right, as an example for later questions."""
        with translating():
            async with self._desk.pool.connection() as conn:
                await questions.save_query(conn, question, sql)

    async def query(self, sql: str) -> Rows:
        """Run a statement of the person's own, with the analyst's rights and limits.

        Raises:
            StatementRefusedError: it may not run.
        """
        with translating():
            return await self._desk.executor.read(sql)

    async def index(self) -> Indexed:
        """Read the schema anew, also where nothing seems to have changed, and keep it.

        Raises:
            PreconditionError: this login may not keep it.
        """
        return await self._desk.catalog.index()

    async def count_tables(self) -> int:
        """Read the schema anew, and count what questions can be about."""
        return (await self.index()).tables

    async def describe_schema(self, words: str) -> SchemaContext:
        """Describe what questions can be about: all of it, or what fits *words* best."""
        return await self._desk.catalog.describe(words)

    async def _work(
        self, asked: Asked, session: str, options: Options, on_event: Callable[[Event], None]
    ) -> Outcome:
        with translating():
            async with self._desk.pool.connection() as conn:
                past = await questions.past(conn, session)
            work = Work(self._desk, options, asked, session, past, on_event)
            beating = asyncio.create_task(self._beat(asked), name="heartbeat")
            working = asyncio.create_task(work.run(), name="question")
            try:
                await asyncio.wait({beating, working}, return_when=asyncio.FIRST_COMPLETED)
                if not working.done():
                    beating.result()  # raises: the run is not ours any more
                return await working
            except BaseException as error:
                await self._let_go(asked, work, error)
                raise
            finally:
                for task in (beating, working):
                    task.cancel()
                await asyncio.gather(beating, working, return_exceptions=True)

    async def _beat(self, asked: Asked) -> None:
        """Extend the lease for as long as it is ours."""
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            async with self._desk.pool.connection() as conn:
                if not await questions.hold_question(conn, self._name, asked.claim, LEASE):
                    raise LeaseLostError("the question was cancelled, or another process has it")

    async def _let_go(self, asked: Asked, work: Work, error: BaseException) -> None:
        """Say what became of a question that was not answered.

        A turn that the person cancels is cancelled; what may work later waits for its session, and
        what a budget does not allow does, if there is something to go on with.
        """
        if isinstance(error, LeaseLostError):
            return
        said, spent = str(error), work.spent
        async with asyncio.timeout(5), self._desk.pool.connection() as conn:
            if isinstance(error, BudgetExceededError) and work.begun:
                refusal = error.refusal
                await questions.park_question(conn, asked.claim, spent, refusal=refusal)
                return
            if isinstance(error, _LATER):
                await questions.park_question(conn, asked.claim, spent, reason=said)
                return
            cancelled = isinstance(error, asyncio.CancelledError)
            await questions.end_question(
                conn,
                asked.claim,
                RunState.CANCELLED if cancelled else RunState.FAILED,
                spent,
                reason="cancelled by who asked" if cancelled else said,
            )
