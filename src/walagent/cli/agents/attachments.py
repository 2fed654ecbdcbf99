"""The commands for agents, models, attachments and budgets."""

from collections.abc import Iterable
from typing import Final

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_option, json_result, say
from walagent.cli.terminal.table import (
    WHOLE,
    Below,
    Column,
    Dollars,
    Row,
    Screen,
    column,
    print_rows,
    relation_column,
    state_column,
)
from walagent.store.people import listings, operator


def _details(row: Row) -> Iterable[Below]:
    if row["when"]:
        yield Below(f"when {row['when']}")
    if row["backfill"] and row["backfill"] != "done":
        done = f"{row['backfilled']} of {row['to_backfill']} rows"
        yield Below(f"backfill {row['backfill']}: {done}")
    if row["canary"] is not None:
        yield Below(
            f"{'shadow' if row['canary_shadow'] else 'canary'} version {row['canary']}:"
            f" {100 * row['canary_share']:.1f} % of the keys"
        )
    if row["paused_reason"]:
        yield Below(f"paused: {row['paused_reason']}", "yellow")


def _other_name(row: Row) -> str | None:
    return row["agent"] if row["attachment"] not in {None, row["agent"]} else None


_AGENTS: Final = Screen(
    [
        Column("attachment", lambda row: row["attachment"] or f"({row['agent']})", 12),
        relation_column(),
        column("on"),
        Column("agent", _other_name),
        column("model"),
        column("run_as"),
        state_column(),
        column("pending", "pend"),
        column("running", "run"),
        column("waiting", "wait"),
        column("failed", "fail"),
    ],
    _details,
)


def _scope(row: Row) -> str:
    kinds = ("agent", "attachment", "model", "asker")
    return ", ".join(f"{kind} {row[kind]}" for kind in kinds if row[kind]) or "all runs"


def _spent(row: Row, kind: str, unit: type[Dollars] | type[int]) -> str | None:
    if row[f"max_{kind}"] is None:
        return None
    amounts = (row[f"spent_{kind}"], row[f"reserved_{kind}"], row[f"max_{kind}"])
    spent, reserved, limit = (unit(amount or 0) for amount in amounts)
    return f"{spent}{f'+{reserved}' if reserved else ''} of {limit}"


def _settings(row: Row) -> Iterable[Below]:
    """Return what differs from the usual."""
    given = [
        f"model {row['model_id']}" if row["model_id"] != row["name"] else "",
        row["base_url"] or "",
        f"credential {row['credential']}" if row["credential"] else "",
        f"tool mode {row['tool_mode']}" if row["tool_mode"] != "native" else "",
    ]
    if any(given):
        yield Below(", ".join(filter(None, given)))


_MODELS: Final = Screen(
    [
        column("name", least=WHOLE),
        column("provider", least=WHOLE),
        column("input_price", "input $"),
        column("output_price", "output $"),
        Column("enabled", lambda row: None if row["enabled"] else "no"),
        column("agents"),
    ],
    _settings,
)
_BUDGETS: Final = Screen(
    [
        column("name", least=12),
        Column("for", _scope),
        column("period", least=WHOLE),
        Column("dollars", lambda row: _spent(row, "cost", Dollars), least=WHOLE),
        Column("tokens", lambda row: _spent(row, "tokens", int), least=WHOLE),
        column("on_exceeded", "then", least=WHOLE),
        column("waiting"),
        column("resets_at"),
    ]
)


@click.command("attach")
@click.argument("table")
@click.argument("spec")
@json_result
@where_options
def attach_(where: Where, table: str, spec: str) -> None:
    """Attach an agent to TABLE.  This command calls the SQL function agent.attach.

    Example of a SPEC:

    \b
      model=gpt-4o, system_prompt="Categorize and resolve the issue.",
      tools=[refund_user, escalate_to_human], writes=[category, status]
    """  # noqa: D301 - click's mark for lines that are not wrapped
    ask(where, lambda conn: operator.attach(conn, table, spec))
    done(f"attached to {table}", attached=table)


@click.command("detach")
@click.argument("target", metavar="ATTACHMENT|TABLE")
@json_result
@where_options
def detach_(where: Where, target: str) -> None:
    """Remove an attachment, or all attachments of a table.

    If an attachment has the name, only that one is removed, whatever its table is.  Existing runs
    continue, unless the attachment is paused: then they are cancelled.  walagent agents lists
    attachments with their tables.
    """
    removed, left = ask(where, lambda conn: operator.detach(conn, target))
    done(f"detached {', '.join(removed)}", detached=removed, left=left)
    if len(removed) > 1:
        say(f"{target} is a table with {len(removed)} attachments; to remove one, name it")
    if left:
        say(f"table {target} still has {', '.join(left)}; to remove one, name it")


@click.command("pause")
@click.argument("attachment")
@click.option("--reason", help="Stored as paused_reason.")
@json_result
@where_options
def pause_(where: Where, attachment: str, reason: str | None) -> None:
    """Stop ATTACHMENT from starting runs.

    Changes are still ingested; their runs start after walagent agents resume.
    """
    ask(where, lambda conn: operator.pause(conn, attachment, reason))
    done(f"paused {attachment}", paused=attachment)


@click.command("resume")
@click.argument("attachment")
@json_result
@where_options
def resume_(where: Where, attachment: str) -> None:
    """Resume a paused ATTACHMENT; the runs that waited start first."""
    ask(where, lambda conn: operator.resume(conn, attachment))
    done(f"resumed {attachment}", resumed=attachment)


@click.command("list")
@click.option("--all", "unattached", is_flag=True, help="Also list agents without attachments.")
@json_option()
@where_options
def list_(where: Where, *, unattached: bool, as_json: bool) -> None:
    """List attachments and their agents, with the number of runs in each state."""
    found = ask(where, listings.list_agents)
    rows = [row for row in found if unattached or row["attachment"]]
    columns = ["attachment", "relation", "on", "when", "agent", "model", "run_as", "state"]
    columns += ["pending", "running", "waiting", "failed"]
    columns += [name for name in ("backfill", "paused_reason") if any(row[name] for row in rows)]
    empty = "no agents; add one with walagent agents attach or apply"
    print_rows(rows, columns, as_json=as_json, empty=empty, screen=_AGENTS)
    if not as_json and (hidden := len(found) - len(rows)):
        say(f"note: {hidden} more without attachments; use --all to list them")


@click.command("models")
@json_option()
@where_options
def models_(where: Where, *, as_json: bool) -> None:
    """List the registered models.  Prices are in US dollars per million tokens."""
    rows = ask(where, listings.list_models)
    columns = ["name", "provider", "model_id", "base_url", "credential", "tool_mode"]
    columns += ["input_price", "output_price", "enabled", "agents"]
    empty = "no models; add them to agents.yaml"
    print_rows(rows, columns, as_json=as_json, empty=empty, screen=_MODELS)


@click.command("budgets")
@json_option()
@where_options
def budgets_(where: Where, *, as_json: bool) -> None:
    """List budgets: the limit, what is spent and reserved, and when the period ends.

    Costs are in US dollars.  Reserved is the highest possible cost of calls in progress.
    """
    rows = ask(where, listings.list_budgets)
    kinds = ("agent", "attachment", "model", "asker")
    scopes = [name for name in kinds if any(row[name] for row in rows)]
    limits = [
        column
        for kind in ("cost", "tokens")
        for column in (f"max_{kind}", f"spent_{kind}", f"reserved_{kind}")
        if any(row[f"max_{kind}"] for row in rows)
    ]
    columns = ["name", *scopes, "period", *limits, "on_exceeded", "waiting", "resets_at"]
    empty = "no budgets; add them to agents.yaml"
    print_rows(rows, columns, as_json=as_json, empty=empty, screen=_BUDGETS)
