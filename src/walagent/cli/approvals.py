"""What people decide about tool calls."""

import click

from walagent.cli.output import json_option, print_rows, say
from walagent.cli.session import Where, ask, where_options
from walagent.store import listings, operator


@click.command("approvals")
@json_option()
@where_options
def approvals_(where: Where, *, as_json: bool) -> None:
    """List tool calls that wait for a person, the oldest first."""
    rows = ask(where, listings.list_approvals)
    columns = ["id", "run_id", "attachment", "key", "tool", "arguments", "asked_at", "expires_at"]
    print_rows(rows, columns, as_json=as_json, empty="nothing waits for a person")


@click.command("approve")
@click.argument("approval", type=int)
@where_options
def approve_(where: Where, approval: int) -> None:
    """Let the tool call of APPROVAL happen (walagent approvals lists them)."""
    ask(where, lambda conn: operator.approve(conn, approval))
    say(f"approved {approval}")


@click.command("reject")
@click.argument("approval", type=int)
@click.option("--reason", help="Told to the model.")
@where_options
def reject_(where: Where, approval: int, reason: str | None) -> None:
    """Refuse the tool call of APPROVAL; the run goes on, and its model is told."""
    ask(where, lambda conn: operator.reject(conn, approval, reason))
    say(f"rejected {approval}")


@click.command("resolve")
@click.argument("run", type=int)
@click.option("--happened/--did-not-happen", required=True, help="What you found out.")
@click.option("--note", default="", help="Told to the model: what the tool answered, or why not.")
@where_options
def resolve_(where: Where, run: int, *, happened: bool, note: str) -> None:
    """Say what became of a tool call of RUN that was begun and never answered.

    Look at the other system first: walagent cannot know whether the call arrived there.
    """
    ask(where, lambda conn: operator.resolve(conn, run, happened=happened, note=note))
    say(f"run {run} goes on")
