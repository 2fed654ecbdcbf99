"""`walagent replay --questions`: saved questions again."""

from dataclasses import replace
from typing import Any

from walagent.cli.evaluations.case_view import case_lines
from walagent.cli.evaluations.ended import ended
from walagent.cli.evaluations.progress import ReplayProgress
from walagent.cli.session import CliSession
from walagent.cli.terminal.output import print_wrapped, say
from walagent.trial.asking_again import AskedAgain, QuestionReplay


async def ask_again(
    session: CliSession, model: str | None, last: int, *, as_json: bool
) -> dict[str, Any]:
    """Ask the questions that were saved last; print those whose answers differ."""

    def begin(evaluation: int, count: int, name: str) -> None:
        questions = "1 saved question" if count == 1 else f"{count} saved questions"
        session_name = f"evaluation-{evaluation}"
        say(f"evaluation {evaluation}: asking {name} {questions} in session {session_name}")
        progress.begin(count)

    def show(done: AskedAgain) -> None:
        progress.count(agrees=done.is_right)
        if as_json or done.is_right:
            return
        with progress.paused():
            for line in case_lines(done.to_json("")):
                print_wrapped(line)

    async with session.places() as places:
        login = replace(places, token=None)
        differs = {} if model is None else {"model": model}
        replay = QuestionReplay(login, session.config.ask, model, last, differs)
        with ReplayProgress() as progress:
            evaluation = await replay.execute(begin, show)
        return await ended(session, places, evaluation, as_json=as_json)
