"""`walagent apply`: models, agents, workflows, attachments and budgets from a file."""

import asyncio
from dataclasses import replace
from pathlib import Path

import click

from walagent.apply.apply import Difference, apply
from walagent.cli.session import Where, open_session, where_options
from walagent.cli.terminal.output import cell, json_option, print_json, say
from walagent.config.loading import DEFAULT_FILE
from walagent.errors import ConfigError
from walagent.telemetry import log


@click.command("apply")
@click.option(
    "-f",
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to apply; same as --config.",
)
@click.option("--dry-run", is_flag=True, help="Check everything in PostgreSQL, then roll back.")
@click.option(
    "--prune",
    is_flag=True,
    help="Remove file-managed attachments and budgets not in this file.",
)
@json_option()
@where_options
def apply_(where: Where, file: Path | None, *, dry_run: bool, prune: bool, as_json: bool) -> None:
    """Apply models, agents, workflows, attachments and budgets from a file.

    apply is idempotent and runs in one transaction: after an error, nothing has changed.  Entries
    are identified by name.  Attachments made in SQL are not changed.
    """
    if file and where.config and file != where.config:
        raise ConfigError("--file and --config name different files")
    if not (file or where.config or DEFAULT_FILE.is_file()):
        raise ConfigError(
            f"{DEFAULT_FILE} does not exist in this directory", hint="Use --file to name the file."
        )
    session = open_session(replace(where, config=file or where.config))
    log.configure("text", "warning")

    async def applied() -> list[Difference]:
        async with session.connection() as conn, conn.transaction(force_rollback=dry_run):
            return await apply(conn, session.config, prune=prune)

    differences = asyncio.run(applied())
    if as_json:
        print_json([document(difference) for difference in differences])
    else:
        for difference in differences:
            show(difference)
        say(summary(differences, dry_run=dry_run))


def document(difference: Difference) -> dict[str, object]:
    """Convert a difference to JSON."""
    fields = {name: {"old": old, "new": new} for name, (old, new) in difference.fields.items()}
    return {
        "kind": difference.kind,
        "name": difference.name,
        "action": difference.action,
        "fields": fields,
        "note": difference.note,
    }


def show(difference: Difference) -> None:
    """Print a difference: + is new, ~ is changed, - is detached or removed."""
    sign = {"create": "+", "change": "~", "detach": "-", "remove": "-"}[difference.action]
    click.echo(f"{sign} {difference.kind} {cell(difference.name)}")
    if difference.action == "change":
        for name, (old, new) in difference.fields.items():
            click.echo(f"    {name}: {_short(old)} → {_short(new)}")
    if difference.note:
        click.echo(f"    note: {difference.note}")


def summary(differences: list[Difference], *, dry_run: bool) -> str:
    """Summarize the differences in one line."""
    if not differences:
        return "no changes: the database matches the file"
    words = {"create": "new", "change": "changed", "detach": "detached", "remove": "removed"}
    counts = [
        f"{n} {word}"
        for action, word in words.items()
        if (n := sum(d.action == action for d in differences))
    ]
    return f"{', '.join(counts)}{' (dry run: rolled back)' if dry_run else ''}"


def _short(value: object, most: int = 60) -> str:
    text = cell(value) if value is not None else "-"
    return text if len(text) <= most else f"{text[:most]}…"
