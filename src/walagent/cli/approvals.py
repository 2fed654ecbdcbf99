"""The commands for decisions about tool calls."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import click
import orjson

from walagent.agent.tools.http import tool_request
from walagent.cli.many import Finder, chosen, named
from walagent.cli.output import json_option, say
from walagent.cli.run_filters import run_filters
from walagent.cli.session import Where, ask, where_options
from walagent.cli.table import Below, Row, Screen, column, print_rows, relation_column
from walagent.run import RunState
from walagent.store import listings, operator
from walagent.store.listings import Connection
from walagent.store.run_filter import RunFilter
from walagent.tool_spec import Tool


def _call(row: Row) -> Iterable[Below]:
    """Return the whole call, because that is what a person approves, and the row, shortened."""
    yield Below(f"{row['tool']}({_pairs({**row['bound'], **row['arguments']})})", "", whole=True)
    if row["request"]:
        yield Below(row["request"], "", whole=True)
    if row["content"]:
        yield Below(_pairs(row["content"]))


def _with_request(row: Row) -> Row:
    """Put the request of a tool over HTTP in the place of its definition."""
    http, rest = row["http"], {name: value for name, value in row.items() if name != "http"}
    given = {**row["bound"], **row["arguments"]}
    return {**rest, "request": http and tool_request(Tool.from_json(http), given)}


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
    rows = [_with_request(row) for row in ask(where, listings.list_approvals)]
    columns = ["id", "run_id", "attachment", "relation", "key", "tool", "bound", "arguments"]
    columns += ["asked_at", "expires_at", "request"]
    empty = "no pending approvals"
    print_rows(rows, columns, as_json=as_json, empty=empty, screen=_SCREEN)


@click.command("approve")
@click.argument("approvals", metavar="[APPROVAL]...", type=int, nargs=-1)
@run_filters(states=())
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@where_options
def approve_(where: Where, approvals: Sequence[int], filters: RunFilter, *, yes: bool) -> None:
    """Approve pending tool calls, by the IDs that walagent approvals lists.

    Without APPROVAL, the options select the runs whose calls are approved.
    """
    ids = chosen(where, approvals, filters, _pending(filters), yes=yes)
    if not ids:
        say("no matching approvals")
        return
    ask(where, lambda conn: operator.approve(conn, ids))
    say(f"approved {named(ids, 'call')}")


@click.command("reject")
@click.argument("approvals", metavar="[APPROVAL]...", type=int, nargs=-1)
@run_filters(states=())
@click.option("--reason", help="Sent to the model.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@where_options
def reject_(
    where: Where, approvals: Sequence[int], filters: RunFilter, reason: str | None, *, yes: bool
) -> None:
    """Reject pending tool calls; the runs continue with this result.

    Without APPROVAL, the options select the runs whose calls are rejected.
    """
    ids = chosen(where, approvals, filters, _pending(filters), yes=yes)
    if not ids:
        say("no matching approvals")
        return
    ask(where, lambda conn: operator.reject(conn, ids, reason))
    say(f"rejected {named(ids, 'call')}")


def _pending(filters: RunFilter) -> Finder:
    """Select the calls that wait in the runs of a filter."""

    async def find(conn: Connection) -> Sequence[int]:
        waiting = replace(filters, states=(RunState.WAITING_APPROVAL,))
        runs = {row["id"] for row in await listings.list_runs(conn, waiting)}
        pending = await listings.list_approvals(conn)
        return [row["id"] for row in pending if row["run_id"] in runs]

    return find


@click.command("answer")
@click.argument("approval", type=int)
@click.argument("text")
@where_options
def answer_(where: Where, approval: int, text: str) -> None:
    """Answer the question of an agent, by the ID that walagent approvals lists.

    To decline, use walagent reject.
    """
    ask(where, lambda conn: operator.answer(conn, approval, text))
    say(f"answered {approval}")


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
