"""`walagent chat`: ask questions interactively, in a session stored in the database."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import click

from walagent.ask.answering import open_asker
from walagent.ask.asking import Asker, check_session
from walagent.ask.options import Options
from walagent.ask.outcome import QuestionResult
from walagent.cli.answer import print_result, show_answer
from walagent.cli.ask import (
    candidates_option,
    describe,
    index_option,
    pattern_option,
    redis_option,
    retries_option,
    verbose_option,
)
from walagent.cli.output import say
from walagent.cli.progress import ProgressDisplay
from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.config.dsn import Places
from walagent.errors import DatabaseLostError, StatementRefusedError, WalagentError

T = TypeVar("T")

_PROMPT = "walagent> "
_HELP = """\
  QUESTION        ask a question; Ctrl-C cancels it
  sql             show the statements of the last answer
  explain         show the plan of the last statement
  save            save the last question and statement as an example
  index           refresh the schema index
  history         list the questions of this session (Ctrl-R searches them)
  history TEXT    list all your questions whose text or answer contains TEXT
  exit, quit      quit, as Ctrl-D does"""


@click.command("chat")
@click.option("--session", help="Session to continue or create.")
@click.option("--model", help="Model that plans and answers.")
@pattern_option
@retries_option
@candidates_option
@index_option
@verbose_option
@redis_option
@where_options
def chat_(  # noqa: PLR0913, PLR0917 - its options
    where: Where,
    session: str | None,
    model: str | None,
    pattern: str,
    retries: int,
    candidates: int,
    *,
    index_first: bool,
    verbose: bool,
) -> None:
    """Ask questions interactively.

    The session is stored in the database; the same --session continues it.
    """
    name = session if session is not None else f"chat-{uuid4().hex[:12]}"
    check_session(name)
    options = Options(
        parallel=pattern.lower() == "parallel", retries=retries, candidates=candidates
    )
    with asyncio.Runner() as runner:
        place = ChatConnections(runner, open_session(where), options, model)
        try:
            place.open()
            say(f"session {name}; type help for help, exit to quit")
            chat = Chat(place, name, ProgressDisplay(verbose=verbose))
            chat.run("index" if index_first else None)
        finally:
            place.close()


class ChatConnections:
    """The connections that answer questions, opened again after they were lost."""

    def __init__(
        self, runner: asyncio.Runner, session: CliSession, options: Options, model: str | None
    ) -> None:
        """Store the settings; `open` connects."""
        self._runner = runner
        self._session = session
        self._options = options
        self._model = model
        self._stack = AsyncExitStack()
        self._places: Places | None = None
        self._asker: Asker | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* to its end; Ctrl-C cancels it."""
        return self._runner.run(work)

    def open(self) -> Asker:
        """Return the asker; connect if it is not connected."""
        if self._asker is None:
            self._asker = self.run(self._open())
        return self._asker

    def close(self) -> None:
        """Close all connections; the next question opens new ones."""
        self._asker = None
        stack, self._stack = self._stack, AsyncExitStack()
        self.run(stack.aclose())

    async def _open(self) -> Asker:
        places = await self._stack.enter_async_context(self._session.places())
        asking = open_asker(places, self._session.config.ask, self._options, model=self._model)
        return await self._stack.enter_async_context(asking)


class Chat:
    """The prompt: reads lines and executes them."""

    def __init__(self, place: ChatConnections, session: str, progress: ProgressDisplay) -> None:
        """Store the parameters; `run` starts the prompt."""
        self._place = place
        self._session = session
        self._progress = progress
        self._last: tuple[str, Sequence[str]] | None = None  # a question, and its statements

    def run(self, first: str | None = None) -> None:
        """Read and answer until exit or the end of input.

        Args:
            first: a line to execute before.
        """
        self._guarded(self._continue)
        if first is not None:
            self._guarded(partial(self._do, first))
        while (line := self._read()) is not None:
            if line in {"exit", "quit"}:
                return
            self._guarded(partial(self._do, line))

    def _read(self) -> str | None:
        """Read a line; None at the end of input."""
        while True:
            try:
                line = input(_PROMPT if sys.stdin.isatty() else "").strip()
            except KeyboardInterrupt:
                click.echo(err=True)
            except UnicodeDecodeError:
                say("input is not valid UTF-8")
            except EOFError:
                return None
            else:
                if line:
                    return line

    def _guarded(self, action: Callable[[], None]) -> None:
        """Call *action*; print its error, or stop it at Ctrl-C, and return."""
        try:
            action()
        except KeyboardInterrupt:
            say("cancelled")
        except WalagentError as error:
            self._report(error)
        except ExceptionGroup as group:
            ours, others = group.split(WalagentError)
            if ours is None or others is not None:
                raise  # a bug keeps its traceback
            for error in _flat(ours):
                self._report(error)

    def _report(self, error: WalagentError) -> None:
        say(str(error))
        if error.hint:
            say(f"hint: {error.hint}")
        if isinstance(error, DatabaseLostError):
            self._place.close()  # the next question opens new connections

    def _do(self, line: str) -> None:
        match line.split(maxsplit=1):
            case ["help"]:
                say(_HELP)
            case ["sql"]:
                say("\n\n".join(self._statements))
            case ["explain"]:
                statement = self._statements[-1]
                print_result(self._run(self._asker.query(f"explain {statement}")), "table")
            case ["save"]:
                self._save()
            case ["index"]:
                say(describe(self._run(self._asker.index())))
            case ["history"]:
                for question in self._run(self._asker.history(self._session)):
                    say(question)
            case ["history", words]:
                self._find(words)
            case _:
                self._ask(line)

    def _ask(self, question: str) -> None:
        asker = self._asker
        with self._progress:
            outcome = self._run(asker.ask(question, self._session, self._progress.show))
        self._show(outcome)

    def _continue(self) -> None:
        """Load the session, and finish the question that an earlier process left open."""
        last = self._run(self._asker.last_answered(self._session))
        if last is not None:
            self._last = last.question, last.sql
        _edit_lines(self._run(self._asker.history(self._session)))
        with self._progress:
            outcome = self._run(self._asker.resume(self._session, self._progress.show))
        if outcome is not None:
            say(f"finished: {outcome.question}")
            self._show(outcome)

    def _show(self, outcome: QuestionResult) -> None:
        self._last = outcome.question, outcome.sql
        show_answer(outcome)
        self._progress.show_cost(outcome)

    @property
    def _asker(self) -> Asker:
        return self._place.open()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._place.run(work)

    @property
    def _statements(self) -> Sequence[str]:
        """The statements of the last answer, at least one."""
        if self._last is None:
            raise StatementRefusedError("no question has been asked in this session")
        if not self._last[1]:
            raise StatementRefusedError("the last answer has no statement")
        return self._last[1]

    def _save(self) -> None:
        statement = self._statements[-1]
        assert self._last is not None  # noqa: S101 - it has statements
        self._run(self._asker.save(self._last[0], statement))
        say("saved; the planner sees this statement for similar questions")

    def _find(self, words: str) -> None:
        found = self._run(self._asker.find(words))
        for each in found:
            when = each.asked_at.astimezone().strftime("%Y-%m-%d %H:%M")
            say(f"{when}  {each.session}  {' '.join(each.question.split())}")
        if not found:
            say(f'no question contains "{words}"')


def _flat(group: BaseExceptionGroup[WalagentError]) -> Iterator[WalagentError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error


def _edit_lines(earlier: Sequence[str]) -> None:
    """Enable line editing and history search if stdin is a terminal."""
    if not sys.stdin.isatty():
        return
    try:
        import readline
    except ImportError:  # some builds of Python lack it
        return
    readline.clear_history()
    readline.set_history_length(1000)
    for question in earlier:
        readline.add_history(" ".join(question.split()))
