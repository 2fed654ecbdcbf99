"""The commands for runs: runs, show, retry and cancel."""

import click

from walagent.cli.output import json_option, print_json, print_rows, say
from walagent.cli.run_filters import run_filters
from walagent.cli.run_view import print_run
from walagent.cli.session import Where, ask, where_options
from walagent.errors import ConfigError
from walagent.store import listings, operator
from walagent.store.run_filter import RunFilter


@click.command("runs")
@run_filters()
@click.option(
    "--limit",
    default=50,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of runs.",
)
@json_option()
@where_options
def runs_(where: Where, filters: RunFilter, limit: int, *, as_json: bool) -> None:
    """List runs, newest first."""
    rows = ask(where, lambda conn: listings.list_runs(conn, filters, limit=limit))
    columns = ["id", "attachment", "state", "op", "relation", "key", "attempt", "steps", "tokens"]
    columns += ["cost", "created_at", "error"]
    optional = ["op", "relation", "steps", "attempt", "tokens", "created_at", "cost"]
    print_rows(rows, columns, as_json=as_json, empty="no matching runs", optional=optional)


@click.command("show")
@click.argument("run", type=int)
@json_option()
@where_options
def show_(where: Where, run: int, *, as_json: bool) -> None:
    """Show RUN: its cause, its steps in order, and its result."""
    found = ask(where, lambda conn: listings.show_run(conn, run))
    if found is None:
        raise ConfigError(f"run {run} does not exist", hint="Use walagent runs to list runs.")
    if as_json:
        print_json(found)
    else:
        print_run(found)


@click.command("retry")
@click.argument("run", type=int)
@where_options
def retry_(where: Where, run: int) -> None:
    """Requeue a failed, dead or cancelled RUN; it continues after its last step."""
    ask(where, lambda conn: operator.retry(conn, run))
    say(f"run {run} is pending again")


@click.command("cancel")
@click.argument("run", type=int)
@click.option("--reason", help="Stored with the run.")
@where_options
def cancel_(where: Where, run: int, reason: str | None) -> None:
    """Cancel RUN.  A running run stops within moments; its committed steps remain."""
    state = ask(where, lambda conn: operator.cancel(conn, run, reason))
    say(f"run {run} is {'being ' if state == 'running' else ''}cancelled")
