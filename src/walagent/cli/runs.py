"""Runs: the list, one in full, retry and cancel."""

import click

from walagent.cli.output import json_option, print_json, print_rows, say
from walagent.cli.run_view import tell
from walagent.cli.session import Where, ask, where_options
from walagent.errors import ConfigError
from walagent.run import RunState
from walagent.store import listings, operator

_STATES = click.Choice([state.value for state in RunState])


@click.command("runs")
@click.option("--state", "states", multiple=True, type=_STATES, help="Only runs in it; repeatable.")
@click.option("--attachment", help="Only runs of this attachment.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1), metavar="N", help="At most N."
)
@json_option()
@where_options
def runs_(
    where: Where, states: tuple[str, ...], attachment: str | None, limit: int, *, as_json: bool
) -> None:
    """List runs, newest first."""
    rows = ask(
        where,
        lambda conn: listings.list_runs(conn, states=states, attachment=attachment, limit=limit),
    )
    columns = ["id", "attachment", "state", "op", "relation", "key", "attempt", "steps", "tokens"]
    columns += ["cost", "created_at", "error"]
    print_rows(rows, columns, as_json=as_json, empty="no such runs")


@click.command("show")
@click.argument("run", type=int)
@json_option()
@where_options
def show_(where: Where, run: int, *, as_json: bool) -> None:
    """Show a run: what it is about, and its steps in order."""
    found = ask(where, lambda conn: listings.show_run(conn, run))
    if found is None:
        raise ConfigError(f"there is no run {run}", hint="walagent runs lists them")
    if as_json:
        print_json(found)
    else:
        tell(found)


@click.command("retry")
@click.argument("run", type=int)
@where_options
def retry_(where: Where, run: int) -> None:
    """Let a failed, dead or cancelled RUN go on after its last step."""
    ask(where, lambda conn: operator.retry(conn, run))
    say(f"run {run} is pending again")


@click.command("cancel")
@click.argument("run", type=int)
@click.option("--reason", help="Kept with the run.")
@where_options
def cancel_(where: Where, run: int, reason: str | None) -> None:
    """Cancel RUN; one that is being worked on ends within moments."""
    state = ask(where, lambda conn: operator.cancel(conn, run, reason))
    soon = "; its worker is told" if state == "running" else ""
    say(f"run {run} is {'to be ' if soon else ''}cancelled{soon}")
