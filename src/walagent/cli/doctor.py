"""`walagent doctor`: what is not in order, and what mends it."""

import asyncio
import sys

import click

from walagent.cli.exit_codes import PERSON
from walagent.cli.output import clean, json_option, print_json, say
from walagent.cli.session import Where, open_session, where_options
from walagent.doctor import Finding, Level, examine
from walagent.mask import mask

_MARKS = {Level.OK: ("ok", "green"), Level.WARNING: ("!!", "yellow"), Level.PROBLEM: ("XX", "red")}


@click.command("doctor")
@click.option("--probe", is_flag=True, help="Ask each model in use for one tool call, too.")
@json_option()
@where_options
def doctor_(where: Where, *, probe: bool, as_json: bool) -> None:
    """Look at server, roles, tables, slot and models, and change nothing.

    Each problem comes with the statement or command that mends it.  Ends with 3 if there is one.
    """
    session = open_session(where)

    async def examined() -> list[Finding]:
        found: list[Finding] = []
        async with session.places() as places, session.connect(places) as conn:
            async for finding in examine(conn, places, session.config, probe=probe):
                found.append(finding)
                if not as_json:
                    _tell(finding)
        return found

    findings = asyncio.run(examined())
    problems = sum(finding.level is Level.PROBLEM for finding in findings)
    if as_json:
        print_json({"problems": problems, "findings": [_document(each) for each in findings]})
    else:
        say("nothing stands in the way" if not problems else f"{problems} to be mended")
    if problems:
        sys.exit(PERSON)


def _tell(finding: Finding) -> None:
    mark, colour = _MARKS[finding.level]
    click.echo(f"{click.style(mark, fg=colour)}  {clean(mask(finding.text))}")
    if finding.fix:
        click.echo(f"      {clean(mask(finding.fix))}")


def _document(finding: Finding) -> dict[str, str]:
    return {"level": finding.level, "text": mask(finding.text), "fix": mask(finding.fix)}
