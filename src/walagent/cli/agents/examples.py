"""The command that proposes examples for an agent."""

from collections.abc import Mapping
from typing import Any, Final

import click
import orjson

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import clean, json_option, print_json, say
from walagent.message import Json
from walagent.store.people import corrections
from walagent.store.people.corrections import Connection
from walagent.store.people.definitions import check_agent

_MOST: Final = 2000  # characters of a text


@click.command("examples")
@click.argument("agent")
@click.option(
    "--limit",
    default=10,
    show_default=True,
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Maximum number of examples.",
)
@json_option()
@where_options
def examples_(where: Where, agent: str, *, limit: int, as_json: bool) -> None:
    """Propose examples for AGENT: rows of which people corrected what it wrote.

    Each has the row as the run saw it, and what is right, as YAML for agents.yaml or a spec.  Read
    them before you use them: the author of a row would speak to the model.
    """

    async def read(conn: Connection) -> list[corrections.Found]:
        await check_agent(conn, agent)
        return await corrections.corrected_rows(conn, agent, limit)

    rows = ask(where, read)
    found: dict[str, dict[str, Json]] = {}
    for row in rows:
        if text := _text(row["texts"] or {}):
            example = {"text": text, "tool": "update_row", "arguments": row["arguments"]}
            found.setdefault(text, example | {"run": row["run"], "key": row["key"]})
    if as_json:
        print_json(list(found.values()))
        return
    if not found:
        say(f'nobody has corrected what "{agent}" wrote')
        return
    click.echo("examples:")
    for example in found.values():
        click.echo(clean(f"  # run {example.pop('run')}, row {example.pop('key')}"))
        click.echo(clean(f"  - {orjson.dumps(example).decode()}"))


def _text(texts: Mapping[str, Any]) -> str:
    """Write the texts of a row as one; of several columns, each with its name."""
    if len(texts) == 1:
        return str(*texts.values())[:_MOST]
    return "\n".join(f"{name}: {text}" for name, text in texts.items())[:_MOST]
