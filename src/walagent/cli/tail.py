"""`walagent tail`: changes as they are committed, one JSON document a line."""

import asyncio
import sys

import click

from walagent.cli.output import say
from walagent.cli.session import Session, Where, open_session, where_options
from walagent.cli.signals import until_stopped
from walagent.errors import ConfigError
from walagent.replication.bootstrap import PUBLICATIONS
from walagent.replication.tail import Watch, open_tail, temporary_name
from walagent.wal.options import Plugin, StreamOptions


@click.command("tail")
@click.option("--slot", help="Read this slot, without moving it; else a temporary one is made.")
@click.option("--plugin", type=click.Choice(["pgoutput", "wal2json"]), help="[default: the file's]")
@click.option("--publication", "publications", multiple=True, help="pgoutput: what to send.")
@click.option("--table", "tables", multiple=True, help="wal2json: schema.table; else all tables.")
@click.option("--all", "everything", is_flag=True, help="Also BEGIN, COMMIT, messages and agent.*.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N lines.")
@click.option("--json", is_flag=True, expose_value=False, help="It is JSON in any case.")
@where_options
def tail_(  # noqa: PLR0913, PLR0917 - click passes options by name
    where: Where,
    slot: str | None,
    plugin: Plugin | None,
    publications: tuple[str, ...],
    tables: tuple[str, ...],
    limit: int | None,
    *,
    everything: bool,
) -> None:
    """Print changes as they are committed, as lines of wal2json's format 2, until Ctrl-C.

    With pgoutput, what the publications send: of attached tables the operations that agents act
    on, or whatever --publication holds.  With wal2json, every change of the tables.
    Nothing is ingested by this, and no position moves but that of the temporary slot.
    """
    session = open_session(where)
    options = StreamOptions(
        slot=slot or temporary_name(),
        plugin=plugin or session.config.replication.plugin,
        publications=publications or PUBLICATIONS,
        tables=tuple(_split(table) for table in tables),
        application_name="walagent tail",
    )
    watch = Watch(options, own_slot=slot is None, marks=everything, ours=everything)
    asyncio.run(until_stopped(tail=_print(session, watch, limit)))


async def _print(session: Session, watch: Watch, limit: int | None) -> None:
    """Print until the limit, or until the output is closed."""
    async with (
        session.places() as places,
        open_tail(places.replication_dsn, watch) as lines,
    ):
        say("watching; Ctrl-C ends")
        printed = 0
        async for line in lines:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
            printed += 1
            if printed == limit:
                return


def _split(name: str) -> tuple[str, str]:
    schema, dot, table = name.rpartition(".")
    if not dot and not table:
        raise ConfigError("--table takes schema.table")
    return schema or "public", table
