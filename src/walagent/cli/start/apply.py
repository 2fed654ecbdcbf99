"""`walagent apply`: tools, models, agents, workflows, attachments and budgets from a file."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import cast

import click

from walagent.apply.apply import Difference, apply
from walagent.cli.session import Where, open_session, where_options
from walagent.cli.terminal.output import cell, clean, json_option, print_json, say
from walagent.config.environment import Environment
from walagent.config.loading import DEFAULT_FILE
from walagent.errors import ConfigError
from walagent.telemetry import log
from walagent.workers.host_rules import missing_for_tools


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
    help="Remove file-managed attachments, budgets and HTTP tools not in this file.",
)
@json_option()
@where_options
def apply_(where: Where, file: Path | None, *, dry_run: bool, prune: bool, as_json: bool) -> None:
    """Apply tools, models, agents, workflows, attachments and budgets from a file.

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
        for text, fix in missing_for_tools(session.config, Environment.of_process()):
            say(f"warning: {text}\n  hint: {fix}")


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
    click.echo(clean(f"{sign} {difference.kind} {cell(difference.name)}"))
    if difference.action == "change":
        for name, (old, new) in _members(difference.fields):
            click.echo(clean(f"    {name}: {' → '.join(_short(old, new))}"))
    if difference.note:
        click.echo(clean(f"    note: {difference.note}"))


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


def _members(
    fields: Mapping[str, tuple[object, object]],
) -> Iterator[tuple[str, tuple[object, object]]]:
    """Name the members that differ of two objects: `http.headers.Authorization`."""
    for name, (old, new) in fields.items():
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            was, becomes = cast("Mapping[str, object]", old), cast("Mapping[str, object]", new)
            yield from _members(
                {
                    f"{name}.{key}": (was.get(key), becomes.get(key))
                    for key in dict.fromkeys([*was, *becomes])
                    if was.get(key) != becomes.get(key)
                }
            )
        else:
            yield name, (old, new)


def _short(old: object, new: object, most: int = 60) -> Iterator[str]:
    """Shorten two texts so that where they differ can be seen."""
    texts = ["-" if value is None else cell(value) for value in (old, new)]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    start = max(0, same - most // 2)
    for text in texts:
        begin = start if len(text) > most else 0
        end = begin + most
        yield f"{'…' if begin else ''}{text[begin:end]}{'…' if len(text) > end else ''}"
