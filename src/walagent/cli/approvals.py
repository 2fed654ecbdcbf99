"""The commands for decisions about tool calls."""

from collections.abc import Iterable, Mapping
from typing import Final

import click
import orjson

from walagent.cli.output import json_option, say
from walagent.cli.session import Where, ask, where_options
from walagent.cli.table import Below, Row, Screen, column, print_rows, relation_column
from walagent.store import listings, operator


def _call(row: Row) -> Iterable[Below]:
    """Return the whole call, because that is what a person approves, and the row, shortened."""
    yield Below(f"{row['tool']}({_pairs({**row['bound'], **row['arguments']})})", "", whole=True)
    if row["content"]:
        yield Below(_pairs(row["content"]))


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_quoted(value)}" for name, value in values.items())


def _quoted(value: object) -> str:
    return orjson.dumps(value).decode()


_SCREEN: Final = Screen(
    [
        column("id"),
        column("run_id", "run"),
        column("attachment"),
        relation_column(),
        column("key"),
        column("tool"),
        column("asked_at", "age"),
        column("expires_at"),
    ],
    _call,
)


@click.command("approvals")
@json_option()
@where_options
def approvals_(where: Where, *, as_json: bool) -> None:
    """List pending tool calls, oldest first."""
    rows = ask(where, listings.list_approvals)
    columns = ["id", "run_id", "attachment", "relation", "key", "tool", "bound", "arguments"]
    columns += ["asked_at", "expires_at"]
    empty = "no pending approvals"
    print_rows(rows, columns, as_json=as_json, empty=empty, screen=_SCREEN)


@click.command("approve")
@click.argument("approval", type=int)
@where_options
def approve_(where: Where, approval: int) -> None:
    """Approve the pending tool call APPROVAL, an ID that walagent approvals lists."""
    ask(where, lambda conn: operator.approve(conn, approval))
    say(f"approved {approval}")


@click.command("reject")
@click.argument("approval", type=int)
@click.option("--reason", help="Sent to the model.")
@where_options
def reject_(where: Where, approval: int, reason: str | None) -> None:
    """Reject the pending tool call APPROVAL; the run continues with this result."""
    ask(where, lambda conn: operator.reject(conn, approval, reason))
    say(f"rejected {approval}")


@click.command("resolve")
@click.argument("run", type=int)
@click.option("--happened/--did-not-happen", required=True, help="Whether the call took effect.")
@click.option("--note", default="", help="Sent to the model as the result of the call.")
@where_options
def resolve_(where: Where, run: int, *, happened: bool, note: str) -> None:
    """Resolve a tool call of RUN that was started and returned no result.

    Check the called system first: walagent cannot determine whether the call took effect.
    """
    ask(where, lambda conn: operator.resolve(conn, run, happened=happened, note=note))
    say(f"run {run} continues")
