"""`walagent wal watch`: print live rows of a running daemon, one JSON document per line."""

import asyncio
import os
from typing import Final

import click
import orjson

from walagent.cli.terminal.output import say
from walagent.cli.terminal.pipe import Pipe
from walagent.errors import ConfigError, DatabaseLostError
from walagent.shapes import RowChange, ShapeClient

_URL: Final = "http://127.0.0.1:8642"


@click.command("watch")
@click.argument("table", metavar="TABLE|NAME")
@click.option("--url", default=_URL, show_default=True, help="The HTTP server of walagent run.")
@click.option("--where", metavar="SQL", help="Only rows of a table for which it is true.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of a named shape, or 1=VALUE for $1 in --where.  Repeatable.",
)
@click.option(
    "--shape", is_flag=True, help="TABLE|NAME is a named shape, read with WALAGENT_TOKEN."
)
@click.option("--secret", metavar="VAR", help="Variable with the secret of sync.open.")
@click.option("--once", is_flag=True, help="Stop when all rows have been printed.")
def watch_(  # noqa: PLR0913 - its options
    table: str,
    *,
    url: str,
    where: str | None,
    params: tuple[str, ...],
    shape: bool,
    secret: str | None,
    once: bool,
) -> None:
    """Print live rows: those that exist, then changes as they are committed.

    Each line is a JSON document with operation, key and value.  Rows come from the daemon's HTTP
    server, see sync in agents.yaml.
    """
    token = os.environ.get("WALAGENT_TOKEN") if shape else None
    if shape and not token:
        raise ConfigError("WALAGENT_TOKEN is not set", hint="It is the token of a principal.")
    value = os.environ.get(secret) if secret else None
    if secret and not value:
        raise ConfigError(f"{secret} is not set", hint="It is the secret of sync.open.")
    given = dict(_pair(each) for each in params)

    def wait(reason: str) -> None:
        if once:
            raise DatabaseLostError(
                f"nothing answers at {url}: {reason}",
                hint="Start walagent run, or name its address by --url.",
            )
        say(f"waiting for {url}: {reason}")

    client = ShapeClient(url, secret=value, token=token, on_wait=wait)
    asyncio.run(_watch(client, table, given, where, is_named=shape, once=once))


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ConfigError(f'--param "{text}" is invalid', hint="Write it as NAME=VALUE.")
    return name, value


async def _watch(  # noqa: PLR0913 - see watch
    client: ShapeClient,
    table: str,
    params: dict[str, str],
    where: str | None,
    *,
    is_named: bool,
    once: bool,
) -> None:
    pipe = Pipe()
    async with client as shapes:
        changes = shapes.changes(
            "" if is_named else table, name=table if is_named else "", where=where, params=params
        )
        async for change in changes:
            if change.operation == "current":
                if once:
                    return
                continue
            if change.operation == "refetch":
                say("the shape ended; its rows follow again")
            await pipe.write(_line(change))


def _line(change: RowChange) -> bytes:
    document = {"operation": change.operation}
    if change.value is not None:
        document |= {"key": change.key, "value": change.value}
    return orjson.dumps(document) + b"\n"
