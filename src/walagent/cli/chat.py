"""`chat`: questions one after the other, in a session that the database remembers."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from uuid import uuid4

import click

from walagent.app.asking import open_asker
from walagent.ask.asking import Asker
from walagent.ask.outcome import Outcome
from walagent.ask.work import Options
from walagent.cli.ask import print_result, show_answer, telling
from walagent.cli.output import say
from walagent.cli.session import Where, open_session, where_options
from walagent.errors import StatementRefusedError, WalagentError

_PROMPT = "walagent> "
_WORDS = """\
  any question       asks it; Ctrl-C cancels the question and not the program
  sql                shows the statements of the last answer
  explain            shows how PostgreSQL would run the last of them
  save               keeps question and statement as an example for later questions
  index              reads the schema anew, and says how many tables questions can be about
  history            shows the questions of this session
  exit, quit         end; so does Ctrl-D"""


@click.command("chat")
@click.option("--session", help="Go on with this session, or begin it.")
@click.option("--model", help="Which model plans and answers.")
@click.option(
    "--pattern",
    type=click.Choice(["parallel", "sequential"], case_sensitive=False),
    default="parallel",
    show_default=True,
    help="Whether steps that do not need one another run side by side.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show the plan and each step as it ends.")
@where_options
def chat_(
    where: Where, session: str | None, model: str | None, pattern: str, *, verbose: bool
) -> None:
    """Ask the database one question after the other.

    The session is kept in the database: with the same --session it goes on where it was.
    """
    opened = open_session(where)
    options = Options(parallel=pattern.lower() == "parallel")
    name = session or f"chat-{uuid4().hex[:12]}"
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            places = runner.run(stack.enter_async_context(opened.places()))
            asker = runner.run(
                stack.enter_async_context(
                    open_asker(places, opened.config.ask, options, model=model)
                )
            )
            say(f"session {name}; help shows the words, exit ends")
            Chat(runner, asker, name, verbose=verbose).run()
        finally:
            runner.run(stack.aclose())


class Chat:
    """A person at the prompt."""

    def __init__(
        self, runner: asyncio.Runner, asker: Asker, session: str, *, verbose: bool
    ) -> None:
        """Begin nothing yet."""
        self._runner = runner
        self._asker = asker
        self._session = session
        self._tell = telling(verbose=verbose)
        self._last: tuple[str, Outcome] | None = None

    def run(self) -> None:
        """Read and answer until the person leaves."""
        _edit_lines()
        self._guarded(self._go_on)
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
            say(f"{error}")
            if error.hint:
                say(f"hint: {error.hint}")

    def _do(self, line: str) -> None:
        match line:
            case "help":
                say(_WORDS)
            case "sql":
                say("\n\n".join(self._outcome.sql) or "the last answer needed no statement")
            case "explain":
                self._explain()
            case "save":
                self._save()
            case "index":
                count = self._runner.run(self._asker.count_tables())
                say(f"questions can be about {count} tables")
            case "history":
                for question in self._runner.run(self._asker.history(self._session)):
                    say(question)
            case _:
                self._ask(line)

    def _ask(self, question: str) -> None:
        outcome = self._runner.run(self._asker.ask(question, self._session, self._tell))
        self._last = question, outcome
        show_answer(outcome)

    def _go_on(self) -> None:
        """Finish what an earlier process of this session has left."""
        outcome = self._runner.run(self._asker.resume(self._session, self._tell))
        if outcome is not None:
            show_answer(outcome)

    @property
    def _outcome(self) -> Outcome:
        if self._last is None:
            raise StatementRefusedError("nothing has been asked yet")
        return self._last[1]

    def _explain(self) -> None:
        if not self._outcome.sql:
            raise StatementRefusedError("the last answer needed no statement")
        rows = self._runner.run(self._asker.query(f"explain {self._outcome.sql[-1]}"))
        print_result(rows, "table")

    def _save(self) -> None:
        outcome = self._outcome
        if self._last is None or not outcome.sql:
            raise StatementRefusedError("the last answer needed no statement")
        self._runner.run(self._asker.save(self._last[0], outcome.sql[-1]))
        say("saved; later questions like it see this statement")


def _edit_lines() -> None:
    """Let the person edit lines and go back to earlier ones, where the terminal can."""
    if sys.stdin.isatty():
        import readline

        readline.set_history_length(1000)
