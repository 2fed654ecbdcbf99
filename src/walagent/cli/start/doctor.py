"""`walagent doctor`: check the installation and print fixes."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import click

from walagent.cli.exit_codes import PERSON
from walagent.cli.session import Where, open_session, slot_option, where_options
from walagent.cli.terminal.output import clean, json_option, print_json, print_wrapped, say
from walagent.doctor import Finding, Severity, examine
from walagent.telemetry.mask import mask

_MARKS = {
    Severity.OK: ("ok", "green"),
    Severity.WARNING: ("!!", "yellow"),
    Severity.PROBLEM: ("XX", "red"),
}


@click.command("doctor")
@click.option("--probe", is_flag=True, help="Also request one tool call from each model in use.")
@json_option()
@where_options
@slot_option
def doctor_(where: Where, *, probe: bool, as_json: bool) -> None:
    """Check server, roles, tables, slot and models, without changing anything.

    A line for each kind of check: ok, or each warning and problem with the statement or command
    that fixes it.  The exit code is 3 if there is a problem.
    """
    session = open_session(where)

    async def examined() -> list[Finding]:
        async with session.places() as places, session.connect(places) as conn:
            config = (await session.with_slot(conn)).config
            return [each async for each in examine(conn, places, config, probe=probe)]

    findings = asyncio.run(examined())
    if not as_json:
        for finding in _shown(findings):
            _print(finding)
    problems = sum(finding.level is Severity.PROBLEM for finding in findings)
    if as_json:
        print_json({"problems": problems, "findings": [_document(each) for each in findings]})
    else:
        say(f"{problems or 'no'} problem{'' if problems == 1 else 's'} found")
    if problems:
        sys.exit(PERSON)


def _shown(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Of a kind without problems and warnings, yield the first; of others, those."""
    for _, found in groupby(findings, key=attrgetter("kind")):
        of_kind = list(found)
        yield from [each for each in of_kind if each.level is not Severity.OK] or of_kind[:1]


def _print(finding: Finding) -> None:
    mark, color = _MARKS[finding.level]
    print_wrapped(f"{mark}  {finding.kind}: {mask(finding.text)}", hang=4, color=color)
    if finding.fix:
        click.echo(clean(f"      {mask(finding.fix)}"))


def _document(finding: Finding) -> dict[str, str]:
    return {
        "level": finding.level,
        "kind": finding.kind,
        "text": mask(finding.text),
        "fix": mask(finding.fix),
    }
