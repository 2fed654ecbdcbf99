"""Print what came of an evaluation that has ended."""

from dataclasses import replace
from typing import Any

from walagent.cli.evaluations.case_view import count_lines
from walagent.cli.session import CliSession
from walagent.cli.terminal.output import print_wrapped
from walagent.config.dsn import Places
from walagent.store.people.evaluations import cases_of, show_evaluation
from walagent.trial.comparing import with_tests


async def ended(
    session: CliSession, places: Places, evaluation: int, *, as_json: bool
) -> dict[str, Any]:
    """Print the counts of an evaluation, unless they are for JSON; return them, with its cases."""
    # As the login, whose rights a replay has; a token is of somebody who might see less.
    async with session.connect(replace(places, token=None)) as conn:
        counts = await show_evaluation(conn, evaluation)
        cases = await cases_of(conn, evaluation)
    document = with_tests(counts, cases)
    if not as_json:
        for line in count_lines(document):
            print_wrapped(line)
    return {**document, "cases": cases} if as_json else document
