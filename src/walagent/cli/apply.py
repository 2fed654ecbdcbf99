"""`walagent apply`: models, agents, attachments and budgets as in a file."""

import asyncio
from pathlib import Path

import click

from walagent.apply.apply import Difference, apply
from walagent.cli.output import cell, json_option, print_json, say
from walagent.cli.session import Where, open_session, where_options
from walagent.config.loading import DEFAULT_FILE
from walagent.errors import ConfigError


@click.command("apply")
@click.option(
    "-f",
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file; the same as --config.",
)
@click.option(
    "--dry-run", is_flag=True, help="Let PostgreSQL check everything, and change nothing."
)
@click.option(
    "--prune", is_flag=True, help="End attachments and budgets of a file that this one has not."
)
@json_option()
@where_options
def apply_(where: Where, file: Path | None, *, dry_run: bool, prune: bool, as_json: bool) -> None:
    """Make models, agents, attachments and budgets as a file says; again changes nothing.

    All or nothing: what PostgreSQL refuses in any point leaves everything as it was.  Entries are
    known by their names.  What was attached in SQL and is not in the file stays.
    """
    if file and where.config and file != where.config:
        raise ConfigError("--file and --config name different files")
    if not (file or where.config or DEFAULT_FILE.is_file()):
        raise ConfigError(f"there is no {DEFAULT_FILE} here", hint="name a file with --file")
    session = open_session(Where(file or where.config, where.dsn, where.replication_dsn))

    async def applied() -> list[Difference]:
        async with session.connection() as conn, conn.transaction(force_rollback=dry_run):
            return await apply(conn, session.config, prune=prune)

    differences = asyncio.run(applied())
    if as_json:
        print_json([document(difference) for difference in differences])
    else:
        for difference in differences:
            tell(difference)
        say(summary(differences, dry_run=dry_run))


def document(difference: Difference) -> dict[str, object]:
    """Write a difference as JSON."""
    fields = {name: {"old": old, "new": new} for name, (old, new) in difference.fields.items()}
    return {
        "kind": difference.kind,
        "name": difference.name,
        "action": difference.action,
        "fields": fields,
        "note": difference.note,
    }


def tell(difference: Difference) -> None:
    """Print a difference: + is new, ~ is changed, - is detached or removed."""
    sign = {"create": "+", "change": "~", "detach": "-", "remove": "-"}[difference.action]
    click.echo(f"{sign} {difference.kind} {cell(difference.name)}")
    if difference.action == "change":
        for name, (old, new) in difference.fields.items():
            click.echo(f"    {name}: {_short(old)} → {_short(new)}")
    if difference.note:
        click.echo(f"    note: {difference.note}")


def summary(differences: list[Difference], *, dry_run: bool) -> str:
    """Count what was done in a sentence."""
    if not differences:
        return "nothing to do: the database is as the file says"
    words = {"create": "new", "change": "changed", "detach": "detached", "remove": "removed"}
    counts = [
        f"{n} {word}"
        for action, word in words.items()
        if (n := sum(d.action == action for d in differences))
    ]
    return f"{', '.join(counts)}{'; nothing was written (dry run)' if dry_run else ''}"


def _short(value: object, most: int = 60) -> str:
    text = cell(value) if value is not None else "-"
    return text if len(text) <= most else f"{text[:most]}…"
