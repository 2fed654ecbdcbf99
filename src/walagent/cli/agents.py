"""The commands for agents, models, attachments and budgets."""

import click

from walagent.cli.output import json_option, print_rows, say
from walagent.cli.session import Where, ask, where_options
from walagent.store import listings, operator


@click.command("attach")
@click.argument("table")
@click.argument("spec")
@where_options
def attach_(where: Where, table: str, spec: str) -> None:
    """Attach an agent to TABLE.  This command calls the SQL function agent.attach.

    Example of a SPEC:

    \b
      model=gpt-4o, system_prompt="Categorize and resolve the issue.",
      tools=[refund_user, escalate_to_human], writes=[category, status]
    """  # noqa: D301 - click's mark for lines that are not wrapped
    ask(where, lambda conn: operator.attach(conn, table, spec))
    say(f"attached to {table}")


@click.command("detach")
@click.argument("target")
@where_options
def detach_(where: Where, target: str) -> None:
    """Remove the attachment named TARGET, or all attachments of the table TARGET.

    Existing runs continue, unless the attachment is paused: then they are cancelled.
    """
    count = ask(where, lambda conn: operator.detach(conn, target))
    say(f"detached {count} from {target}" if count > 1 else f"detached {target}")


@click.command("pause")
@click.argument("attachment")
@click.option("--reason", help="Stored as paused_reason.")
@where_options
def pause_(where: Where, attachment: str, reason: str | None) -> None:
    """Stop ATTACHMENT from starting runs.

    Changes are still ingested; their runs start after walagent resume.
    """
    ask(where, lambda conn: operator.pause(conn, attachment, reason))
    say(f"paused {attachment}")


@click.command("resume")
@click.argument("attachment")
@where_options
def resume_(where: Where, attachment: str) -> None:
    """Resume a paused ATTACHMENT; the runs that waited start first."""
    ask(where, lambda conn: operator.resume(conn, attachment))
    say(f"resumed {attachment}")


@click.command("agents")
@json_option()
@where_options
def agents_(where: Where, *, as_json: bool) -> None:
    """List agents and their attachments, with the number of runs in each state."""
    rows = ask(where, listings.list_agents)
    columns = ["attachment", "relation", "on", "when", "agent", "model", "run_as", "state"]
    columns += ["pending", "running", "waiting", "failed"]
    columns += [name for name in ("backfill", "paused_reason") if any(row[name] for row in rows)]
    optional = ["run_as", "model", "backfill", "when", "on", "agent"]
    empty = "no agents; add one with walagent attach or apply"
    print_rows(rows, columns, as_json=as_json, empty=empty, optional=optional)


@click.command("models")
@json_option()
@where_options
def models_(where: Where, *, as_json: bool) -> None:
    """List the registered models.  Prices are in US dollars per million tokens."""
    rows = ask(where, listings.list_models)
    columns = ["name", "provider", "model_id", "base_url", "credential", "tool_mode"]
    columns += ["input_price", "output_price", "enabled", "agents"]
    optional = ["base_url", "tool_mode", "enabled", "credential", "model_id"]
    empty = "no models; add them to agents.yaml"
    print_rows(rows, columns, as_json=as_json, empty=empty, optional=optional)


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
    optional = [
        "reserved_cost",
        "reserved_tokens",
        "waiting",
        "resets_at",
        "on_exceeded",
        "period",
    ]
    empty = "no budgets; add them to agents.yaml"
    print_rows(rows, columns, as_json=as_json, empty=empty, optional=optional)
