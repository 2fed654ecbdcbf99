"""`chat`: questions one after the other, in a session that the database remembers."""

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
from walagent.ask.outcome import Outcome
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
from walagent.cli.progress import Progress
from walagent.cli.session import Session, Where, open_session, where_options
from walagent.config.dsn import Places
from walagent.errors import DatabaseLostError, StatementRefusedError, WalagentError

T = TypeVar("T")

_PROMPT = "walagent> "
_WORDS = """\
  any question       asks it; Ctrl-C cancels the question and not the program
  sql                shows the statements of the last answer
  explain            shows how PostgreSQL would run the last of them
  save               keeps question and statement as an example for later questions
  index              reads the schema anew, and says what questions can be about
  history            shows the questions of this session; Ctrl-R searches them at the prompt
  history TEXT       shows all your questions in which, or in whose answers, TEXT stands
  exit, quit         end; so does Ctrl-D"""


@click.command("chat")
@click.option("--session", help="Go on with this session, or begin it.")
@click.option("--model", help="Which model plans and answers.")
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
    """Ask the database one question after the other.

    The session is kept in the database: with the same --session it goes on where it was.
    """
    name = session if session is not None else f"chat-{uuid4().hex[:12]}"
    check_session(name)
    options = Options(
        parallel=pattern.lower() == "parallel", retries=retries, candidates=candidates
    )
    with asyncio.Runner() as runner:
        place = Place(runner, open_session(where), options, model)
        try:
            place.open()
            say(f"session {name}; help shows the words, exit ends")
            chat = Chat(place, name, Progress(verbose=verbose))
            chat.run("index" if index_first else None)
        finally:
            place.close()


class Place:
    """Where questions are answered: what is open while nothing is lost."""

    def __init__(
        self, runner: asyncio.Runner, session: Session, options: Options, model: str | None
    ) -> None:
        """Open nothing yet."""
        self._runner = runner
        self._session = session
        self._options = options
        self._model = model
        self._stack = AsyncExitStack()
        self._places: Places | None = None
        self._asker: Asker | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something, and wait for it; Ctrl-C cancels it."""
        return self._runner.run(work)

    def open(self) -> Asker:
        """Give the asker; connect, if that was not done or is lost."""
        if self._asker is None:
            self._asker = self.run(self._open())
        return self._asker

    def close(self) -> None:
        """Give all connections back; the next question opens others."""
        self._asker = None
        stack, self._stack = self._stack, AsyncExitStack()
        self.run(stack.aclose())

    async def _open(self) -> Asker:
        places = await self._stack.enter_async_context(self._session.places())
        asking = open_asker(places, self._session.config.ask, self._options, model=self._model)
        return await self._stack.enter_async_context(asking)


class Chat:
    """A person at the prompt."""

    def __init__(self, place: Place, session: str, progress: Progress) -> None:
        """Begin nothing yet."""
        self._place = place
        self._session = session
        self._progress = progress
        self._last: tuple[str, Sequence[str]] | None = None  # a question, and its statements

    def run(self, first: str | None = None) -> None:
        """Read and answer until the person leaves.

        Args:
            first: what is done before.
        """
        self._guarded(self._go_on)
        if first is not None:
            self._guarded(partial(self._do, first))
        while (line := self._read()) is not None:
            if line in {"exit", "quit"}:
                return
            self._guarded(partial(self._do, line))

    def _read(self) -> str | None:
        """Read a line; None at the end of the input."""
        while True:
            try:
                line = input(_PROMPT if sys.stdin.isatty() else "").strip()
            except KeyboardInterrupt:
                click.echo(err=True)
            except UnicodeDecodeError:
                say("that was not UTF-8")
            except EOFError:
                return None
            else:
                if line:
                    return line

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something; an error or Ctrl-C ends it, and not the program."""
        try:
            action()
        except KeyboardInterrupt:
            say("cancelled")
        except WalagentError as error:
            self._tell(error)
        except ExceptionGroup as group:
            ours, others = group.split(WalagentError)
            if ours is None or others is not None:
                raise  # a bug shows where it is
            for error in _flat(ours):
                self._tell(error)

    def _tell(self, error: WalagentError) -> None:
        say(str(error))
        if error.hint:
            say(f"hint: {error.hint}")
        if isinstance(error, DatabaseLostError):
            self._place.close()  # the next question opens others

    def _do(self, line: str) -> None:
        match line.split(maxsplit=1):
            case ["help"]:
                say(_WORDS)
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
            outcome = self._run(asker.ask(question, self._session, self._progress.tell))
        self._show(outcome)

    def _go_on(self) -> None:
        """Take up what is remembered, and finish what an earlier process has left."""
        last = self._run(self._asker.last_answered(self._session))
        if last is not None:
            self._last = last.question, last.sql
        _edit_lines(self._run(self._asker.history(self._session)))
        with self._progress:
            outcome = self._run(self._asker.resume(self._session, self._progress.tell))
        if outcome is not None:
            say(f"finished: {outcome.question}")
            self._show(outcome)

    def _show(self, outcome: Outcome) -> None:
        self._last = outcome.question, outcome.sql
        show_answer(outcome)
        self._progress.tell_cost(outcome)

    @property
    def _asker(self) -> Asker:
        return self._place.open()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._place.run(work)

    @property
    def _statements(self) -> Sequence[str]:
        """The statements of the last answer, of which there is one at least."""
        if self._last is None:
            raise StatementRefusedError("nothing has been asked yet")
        if not self._last[1]:
            raise StatementRefusedError("the last answer needed no statement")
        return self._last[1]

    def _save(self) -> None:
        statement = self._statements[-1]
        assert self._last is not None  # noqa: S101 - it has statements
        self._run(self._asker.save(self._last[0], statement))
        say("saved; later questions like it see this statement")

    def _find(self, words: str) -> None:
        found = self._run(self._asker.find(words))
        for each in found:
            when = each.asked_at.astimezone().strftime("%Y-%m-%d %H:%M")
            say(f"{when}  {each.session}  {' '.join(each.question.split())}")
        if not found:
            say(f"no question with {words!r}")


def _flat(group: BaseExceptionGroup[WalagentError]) -> Iterator[WalagentError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error


def _edit_lines(earlier: Sequence[str]) -> None:
    """Let the person edit lines and search earlier questions, where the terminal can."""
    if not sys.stdin.isatty():
        return
    try:
        import readline
    except ImportError:  # some builds of Python have none; then lines are plain
        return
    readline.clear_history()
    readline.set_history_length(1000)
    for question in earlier:
        readline.add_history(" ".join(question.split()))
