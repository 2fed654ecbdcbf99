"""The command that goes on from a step of a run, in a run of its own."""

from typing import cast

import click
import orjson

from walagent.cli.json_options import json_object
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import (
    done,
    json_result,
    print_json,
    print_wrapped,
    say,
    wants_json,
)
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store.codecs.exact import read_json
from walagent.store.people import forks, operator
from walagent.store.people.changes import changed_since
from walagent.store.people.forks import Preview
from walagent.store.people.operator import Change, Connection


@click.command("fork")
@click.argument("run", type=int)
@click.option(
    "--from",
    "step",
    type=click.IntRange(0),
    required=True,
    metavar="STEP",
    help="A reply of the model, or a step of a call; walagent show RUN numbers them.",
)
@click.option("--prompt", metavar="TEXT", help="System prompt of the agent from there on.")
@click.option(
    "--reply",
    metavar="TEXT",
    help="Reply in place of the model's: a text, or a JSON object with text and calls.",
)
@click.option("--arguments", metavar="JSON", help="Arguments of the call, in place of the model's.")
@click.option("--newest-version", is_flag=True, help="Go on with the current version of the agent.")
@click.option("--dry-run", is_flag=True, help="Show what would be kept and done; make no run.")
@json_result
@where_options
def fork_(  # noqa: PLR0913 - as many as the command has options
    where: Where,
    run: int,
    *,
    step: int,
    prompt: str | None,
    reply: str | None,
    arguments: str | None,
    newest_version: bool,
    dry_run: bool,
) -> None:
    """Go on from a step of RUN, which has ended, in a run of its own.

    The steps before are kept: their effects are not done again, and cost nothing.  What follows is
    written like what any run writes; a call that requires approval is asked about again.  Prints
    the ID of the new run; with --dry-run, what is kept, what can be done again, and the first step
    that differs.
    """
    given = None if arguments is None else json_object(arguments, "--arguments")
    change = Change(prompt, _reply(reply), given, newest_version)
    if dry_run:
        found = ask(where, lambda conn: forks.preview(conn, run, step, change))
        if wants_json():
            print_json(found.to_json())
        else:
            _show(found)
        return

    async def begin(conn: Connection) -> tuple[int, int]:
        return await operator.fork(conn, run, step, change), await changed_since(conn, run, step)

    made, left = ask(where, begin)
    if left:
        say(_stays(run, step, left))
    done(f"run {made} goes on from step {step} of run {run}", run=made)


def _show(found: Preview) -> None:
    names = [each.name for each in found.kept if each.kind == "result" and each.name]
    kept = f"steps 0 to {found.kept[-1].step}" if found.kept else "no step"
    done_before = f"; not done again: {', '.join(names)}" if names else ""
    print_wrapped(f"keeps {kept} of run {found.run}{done_before}")
    match found.begins:
        case "call":
            waits = ", which waits for approval" if found.approval else ""
            print_wrapped(f"begins with the call of {found.call}{waits}")
        case "written":
            print_wrapped("begins with the reply that was given, and carries out its calls")
        case _:
            print_wrapped("begins with a request to the model")
    for each in found.again:
        rows = (
            f": it changed {each.rows} {'row' if each.rows == 1 else 'rows'}" if each.rows else ""
        )
        print_wrapped(f"can be done again: {each.name}, step {each.step}{rows}")
    for each in found.differs:
        print_wrapped(f"differs from step {each.step} on: {each.what}")
    if not found.differs:
        print_wrapped(f"no step differs before what follows: it begins as run {found.run} went on")


def _stays(number: int, step: int, left: int) -> str:
    rows = "1 row" if left == 1 else f"{left} rows"
    return (
        f"run {number} changed {rows} at step {step} or later, which stay as they are;"
        f" walagent revert {number} takes them back"
    )


def _reply(text: str | None) -> Json:
    """Read a reply: an object with text and calls, or a text as it is."""
    if text is None:
        return None
    if not text.strip():
        raise ConfigError("--reply is empty", hint="Give a text, or calls.")
    try:
        found = read_json(text)
    except orjson.JSONDecodeError:
        return text
    if isinstance(found, dict) and cast("dict[str, Json]", found).keys() & {"text", "calls"}:
        return cast("dict[str, Json]", found)
    return text
