"""`walagent chat`: ask questions interactively, in a session stored in the database."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from uuid import uuid4

import click

from walagent.ask.asking import Asker, check_session
from walagent.ask.options import Options
from walagent.ask.outcome import QuestionResult
from walagent.cli.questions.answers import FORMATS, Format, print_result, show_answer
from walagent.cli.questions.ask import (
    candidates_option,
    describe,
    index_option,
    pattern_option,
    redis_option,
    retries_option,
    verbose_option,
)
from walagent.cli.questions.chat_connections import ChatConnections
from walagent.cli.questions.chat_line import Line, help_lines, read_line
from walagent.cli.questions.export import export_csv, export_json
from walagent.cli.session import Where, open_session, where_options
from walagent.cli.terminal.answer_rows import plain_lines, print_csv
from walagent.cli.terminal.output import say
from walagent.cli.terminal.plotting import check_plotting, plot
from walagent.cli.terminal.progress import ProgressDisplay
from walagent.errors import (
    DatabaseLostError,
    PreconditionError,
    StatementRefusedError,
    WalagentError,
)
from walagent.rows.rows import Rows

T = TypeVar("T")

_PROMPT = "walagent> "
_MORE: Final = "\\all shows all, \\csv FILE writes them to a file"
_SYNTAX_ERROR: Final = "42601"


@click.command("chat")
@click.option("--session", help="Session to continue or create.")
@click.option("--model", help="Model that plans and answers.")
@pattern_option
@retries_option
@candidates_option
@index_option
@verbose_option
@redis_option
@click.option(
    "--output",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Format of the rows.",
)
@where_options
def chat_(  # noqa: PLR0913, PLR0917 - its options
    where: Where,
    session: str | None,
    model: str | None,
    pattern: str,
    retries: int,
    candidates: int,
    output: str,
    *,
    index_first: bool,
    verbose: bool,
) -> None:
    """Ask questions interactively.

    A typed statement runs without a model, with the privileges of questions.  The session is stored
    in the database; the same --session continues it.
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
            progress = ProgressDisplay(verbose=verbose)
            chat = Chat(place, name, progress, cast("Format", output))
            chat.run("index" if index_first else None)
        finally:
            place.close()


@dataclass(frozen=True, slots=True)
class _Last:
    """The last answer or statement.

    Args:
        question: "" if the statement was typed.
        rows: None if they were not read in this process.
    """

    question: str
    statements: Sequence[str]
    rows: Rows | None = None


class Chat:
    """The prompt: reads lines and executes them."""

    def __init__(
        self,
        place: ChatConnections,
        session: str,
        progress: ProgressDisplay,
        output: Format = "table",
    ) -> None:
        """Store the parameters; `run` starts the prompt."""
        self._place = place
        self._session = session
        self._progress = progress
        self._output: Format = output
        self._last = _Last("", ())
        self._commands: Mapping[str, Callable[[str], None]] = {
            "help": lambda _: say("\n".join(help_lines())),
            "sql": lambda _: say("\n\n".join(self._statements)),
            "explain": lambda _: self._explain(),
            "run": lambda _: self._read(self._statements[-1]),
            "edit": lambda _: self._edit(),
            "all": lambda _: self._page(),
            "csv": self._csv,
            "json": self._json,
            "plot": self._plot,
            "save": lambda _: self._save(),
            "index": lambda _: say(describe(self._run(self._asker.index()))),
            "history": self._history,
            "delete": lambda _: self._delete(),
        }

    def run(self, first: str | None = None) -> None:
        """Read and answer until exit or the end of input.

        Args:
            first: a line to execute before.
        """
        self._guarded(self._continue)
        if first is not None:
            self._guarded(partial(self._do, read_line(first)))
        while (typed := self._next_line()) is not None:
            line = read_line(typed)
            if (line.kind, line.text) == ("command", "quit"):
                return
            self._guarded(partial(self._do, line))

    def _next_line(self) -> str | None:
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

    def _do(self, line: Line) -> None:
        match line.kind:
            case "command":
                self._commands[line.text](line.argument)
            case "unknown":
                say(f'unknown command "{line.text}"; \\help lists the commands')
            case "sql":
                self._read(line.text)
            case "perhaps sql":
                self._read_or_ask(line.text)
            case "question":
                self._ask(line.text)

    # Questions.

    def _ask(self, question: str) -> None:
        asker = self._asker
        with self._progress:
            outcome = self._run(asker.ask(question, self._session, self._progress.show))
        self._show(outcome)

    def _continue(self) -> None:
        """Load the session, and finish the question that an earlier process left open."""
        last = self._run(self._asker.last_answered(self._session))
        if last is not None:
            self._last = _Last(last.question, last.sql)
        _edit_lines(self._run(self._asker.history(self._session)))
        with self._progress:
            outcome = self._run(self._asker.resume(self._session, self._progress.show))
        if outcome is not None:
            say(f"finished: {outcome.question}")
            self._show(outcome)

    def _show(self, outcome: QuestionResult) -> None:
        self._last = _Last(outcome.question, outcome.sql, outcome.rows)
        show_answer(outcome, self._output, _MORE)
        self._progress.show_cost(outcome)

    # Statements.

    def _read(self, statement: str) -> None:
        """Run a statement through the guard, without a model."""
        rows = self._run(self._asker.query(statement))
        question = self._last.question if statement in self._last.statements else ""
        self._last = _Last(question, [statement], rows)
        print_result(rows, self._output, _MORE)
        for said in (*rows.cut, *rows.scope):
            say(f"note: {said}")

    def _read_or_ask(self, line: str) -> None:
        """Run a statement; if PostgreSQL cannot parse it, it is a question."""
        try:
            self._read(line)
        except StatementRefusedError as error:
            if error.sqlstate != _SYNTAX_ERROR:
                raise
            self._ask(line)

    def _explain(self) -> None:
        explained = f"explain {self._statements[-1]}"
        print_result(self._run(self._asker.query(explained)), "table")

    def _edit(self) -> None:
        """Edit the last statement, or an empty one, and run it."""
        before = self._last.statements[-1] if self._last.statements else ""
        try:
            edited = click.edit(before, extension=".sql")
        except click.ClickException as error:
            raise PreconditionError(error.message, hint="Set EDITOR.") from error
        if edited is None or not edited.strip():
            say("not changed")
        else:
            self._read(edited.strip())

    # Rows.

    def _page(self) -> None:
        os.environ.setdefault("LESS", "FRSX")  # wide rows are not wrapped: arrow keys scroll
        click.echo_via_pager("\n".join(plain_lines(self._rows)))

    def _csv(self, file: str) -> None:
        if file:
            export_csv(self._rows, file)
        else:
            print_csv(self._rows)

    def _json(self, file: str) -> None:
        if file:
            export_json(self._rows, file)
        else:
            print_result(self._rows, "json")

    def _plot(self, file: str) -> None:
        path = Path(file) if file else None
        check_plotting(path)
        plot(self._rows, path)

    @property
    def _rows(self) -> Rows:
        """The rows of the last result; of an earlier visit, they are read again."""
        if self._last.rows is None:
            statement = self._statements[-1]
            self._last = replace(self._last, rows=self._run(self._asker.query(statement)))
        assert self._last.rows is not None  # noqa: S101 - read above
        return self._last.rows

    @property
    def _statements(self) -> Sequence[str]:
        """The statements of the last answer, at least one."""
        if self._last == _Last("", ()):
            raise StatementRefusedError("no question has been asked in this session")
        if not self._last.statements:
            raise StatementRefusedError("the last answer has no statement")
        return self._last.statements

    # The session.

    def _save(self) -> None:
        statement = self._statements[-1]
        if not self._last.question:
            raise StatementRefusedError("the last statement was typed and answers no question")
        self._run(self._asker.save(self._last.question, statement))
        say("saved; the planner sees this statement for similar questions")

    def _history(self, words: str) -> None:
        if not words:
            for question in self._run(self._asker.history(self._session)):
                say(question)
            return
        found = self._run(self._asker.find(words))
        for each in found:
            when = each.asked_at.astimezone().strftime("%Y-%m-%d %H:%M")
            say(f"{when}  {each.session}  {' '.join(each.question.split())}")
        if not found:
            say(f'no question contains "{words}"')

    def _delete(self) -> None:
        found = self._run(self._asker.delete_session(self._session))
        self._last = _Last("", ())
        _edit_lines(())
        say(f"session {self._session} is empty" if found else "this session has no questions")

    @property
    def _asker(self) -> Asker:
        return self._place.open()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._place.run(work)


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
