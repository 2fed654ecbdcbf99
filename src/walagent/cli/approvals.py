"""The commands for decisions about tool calls."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, cast

import click
import orjson

from walagent.cli.json_options import json_object
from walagent.cli.runs.many import Finder, chosen, named
from walagent.cli.runs.run_filters import run_filters
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_option, json_result
from walagent.cli.terminal.table import Below, Row, Screen, column, print_rows, relation_column
from walagent.config.base import to_seconds
from walagent.deciders.arguments import what_is_wrong
from walagent.domain.run import RunState
from walagent.domain.tool_spec import Tool
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store.codecs.exact import exact
from walagent.store.people import listings, operator
from walagent.store.people.definitions import check_agent
from walagent.store.people.listings import Connection
from walagent.store.people.run_filter import RunFilter
from walagent.tools.http import tool_request


def _call(row: Row) -> Iterable[Below]:
    """Return the whole call, because that is what a person approves, and the row, shortened."""
    yield Below(f"{row['tool']}({_pairs({**row['bound'], **row['arguments']})})", "", whole=True)
    if row["request"]:
        yield Below(row["request"], "", whole=True)
    if row["content"]:
        yield Below(_pairs(row["content"]))


def _with_request(row: Row) -> Row:
    """Put the request of a tool over HTTP in the place of its definition."""
    made, given = row["definition"], {**row["bound"], **row["arguments"]}
    if made is None or made["kind"] != "http":
        return {**row, "request": None}
    return {**row, "request": tool_request(Tool.from_json(made), given)}


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_quoted(value)}" for name, value in values.items())


def _quoted(value: object) -> str:
    return orjson.dumps(value, exact).decode()


_RISKS: Final = ["low", "medium", "high", "critical"]
_SCREEN: Final = Screen(
    [
        column("id"),
        column("run_id", "run"),
        column("attachment"),
        relation_column(),
        column("key"),
        column("tool"),
        column("risk"),
        column("asked_at", "age"),
        column("expires_at"),
    ],
    _call,
)


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which pending calls are meant; None: any."""

    agent: str | None = None
    tool: str | None = None
    risk: str | None = None
    older: float | None = None  # seconds
    all: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was given."""
        return self == CallFilter()

    def accepts(self, row: Row) -> bool:
        """Whether a pending call is meant."""
        wanted = {"agent": self.agent, "tool": self.tool, "risk": self.risk}
        age = (datetime.now(UTC) - row["asked_at"]).total_seconds()
        return all(value is None or row[name] == value for name, value in wanted.items()) and (
            self.older is None or age >= self.older
        )


def call_filters(*, every: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options; the command receives a `CallFilter` as the parameter *calls*.

    Args:
        every: add --all.
    """
    options = [
        click.option("--agent", metavar="NAME", help="Only calls of this agent."),
        click.option("--tool", metavar="NAME", help="Only calls of this tool."),
        click.option("--risk", type=click.Choice(_RISKS), help="Only calls of tools of this risk."),
        click.option(
            "--older", metavar="AGE", callback=_age, help="Only calls that wait for AGE: 1h, 2d."
        ),
    ]
    if every:
        options.append(click.option("--all", "every", is_flag=True, help="All pending calls."))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's parameters
            given = {name: kwargs.pop(name) for name in ("agent", "tool", "risk", "older")}
            calls = CallFilter(**given, all=kwargs.pop("every", False))
            command(*args, calls=calls, **kwargs)

        for option in reversed(options):
            option(wrapped)  # click adds it to the function
        return wrapped

    return decorate


def _age(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(cast("float", to_seconds(text)))
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not an age such as 1h or 2d", ctx, param) from None


@click.command("list")
@call_filters(every=False)
@json_option()
@where_options
def list_(where: Where, calls: CallFilter, *, as_json: bool) -> None:
    """List pending tool calls, the highest risk first, then the oldest."""

    async def read(conn: Connection) -> Sequence[Mapping[str, Any]]:
        await check_agent(conn, calls.agent)
        return await listings.list_approvals(conn)

    found = ask(where, read)
    rows = [_with_request(row) for row in found if calls.accepts(row)]
    columns = ["id", "run_id", "attachment", "relation", "key", "tool", "bound", "arguments"]
    columns += ["asked_at", "expires_at", "request", "agent", "risk", "requested_by", "four_eyes"]
    empty = "no pending approvals"
    print_rows(rows, columns, as_json=as_json, empty=empty, screen=_SCREEN)


@click.command("approve")
@click.argument("approvals", metavar="[APPROVAL]...", type=int, nargs=-1)
@run_filters(states=())
@call_filters()
@click.option(
    "--arguments",
    "edited",
    metavar="JSON",
    help="Approve one call with these arguments instead; the model is shown them.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_result
@where_options
def approve_(  # noqa: PLR0913 - an option each
    where: Where,
    approvals: Sequence[int],
    filters: RunFilter,
    calls: CallFilter,
    edited: str | None,
    *,
    yes: bool,
) -> None:
    """Approve pending tool calls, by the IDs that walagent approvals lists.

    Without APPROVAL, the options select the calls that are approved.
    """
    if edited is not None:
        given = json_object(edited, "--arguments")
        if len(approvals) != 1:
            raise ConfigError("--arguments requires one APPROVAL", hint="Give its ID.")
        ask(where, lambda conn: _approve_edited(conn, approvals[0], given))
        done(f"approved call {approvals[0]} with edited arguments", approved=approvals)
        return
    found = _pending(filters, calls)
    ids = chosen(where, approvals, filters, found, yes=yes, more=not calls.is_empty)
    if not ids:
        done("no matching approvals", approved=[])
        return
    ask(where, lambda conn: operator.approve(conn, ids))
    done(f"approved {named(ids, 'call')}", approved=ids)


@click.command("reject")
@click.argument("approvals", metavar="[APPROVAL]...", type=int, nargs=-1)
@run_filters(states=())
@call_filters()
@click.option("--reason", help="Sent to the model.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_result
@where_options
def reject_(  # noqa: PLR0913 - an option each
    where: Where,
    approvals: Sequence[int],
    filters: RunFilter,
    calls: CallFilter,
    reason: str | None,
    *,
    yes: bool,
) -> None:
    """Reject pending tool calls; the runs continue with this result.

    Without APPROVAL, the options select the calls that are rejected.
    """
    found = _pending(filters, calls)
    ids = chosen(where, approvals, filters, found, yes=yes, more=not calls.is_empty)
    if not ids:
        done("no matching approvals", rejected=[])
        return
    ask(where, lambda conn: operator.reject(conn, ids, reason))
    done(f"rejected {named(ids, 'call')}", rejected=ids)


def _pending(filters: RunFilter, calls: CallFilter) -> Finder:
    """Select the calls of a filter that wait in the runs of another."""

    async def find(conn: Connection) -> Sequence[int]:
        await check_agent(conn, calls.agent)
        waiting = replace(filters, states=(RunState.WAITING_APPROVAL,))
        runs = {row["id"] for row in await listings.list_runs(conn, waiting)}
        pending = await listings.list_approvals(conn)
        return [row["id"] for row in pending if row["run_id"] in runs and calls.accepts(row)]

    return find


async def _approve_edited(conn: Connection, approval: int, edited: Mapping[str, Json]) -> None:
    """Check edited arguments against the schema of the tool, then approve them.

    Raises:
        ConfigError: the schema refuses them.
    """
    pending = {row["id"]: row["definition"] for row in await listings.list_approvals(conn)}
    made = pending.get(approval)
    if made is not None and (reason := what_is_wrong(Tool.from_json(made), edited)):
        raise ConfigError(reason, hint="Arguments that come from the row cannot be edited.")
    await operator.approve_edited(conn, approval, edited)


@click.command("answer")
@click.argument("approval", type=int)
@click.argument("text")
@json_result
@where_options
def answer_(where: Where, approval: int, text: str) -> None:
    """Answer the question of an agent, by the ID that walagent approvals lists.

    To decline, use walagent approvals reject.
    """
    ask(where, lambda conn: operator.answer(conn, approval, text))
    done(f"answered {approval}", answered=approval)


@click.command("resolve")
@click.argument("run", type=int)
@click.option("--happened/--did-not-happen", required=True, help="Whether the call took effect.")
@click.option("--note", default="", help="Sent to the model as the result of the call.")
@json_result
@where_options
def resolve_(where: Where, run: int, *, happened: bool, note: str) -> None:
    """Resolve a tool call of RUN that was started and returned no result.

    Check the called system first: walagent cannot determine whether the call took effect.
    """
    ask(where, lambda conn: operator.resolve(conn, run, happened=happened, note=note))
    done(f"run {run} continues", resolved=run)
