"""`walagent tail`: print changes as they are committed, one JSON document per line."""

import asyncio
import sys

import click

from walagent.cli.output import say
from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.cli.signals import until_stopped
from walagent.errors import ConfigError
from walagent.replication.bootstrap import PUBLICATIONS
from walagent.replication.tail import TailOptions, open_tail, temporary_name
from walagent.wal.options import Plugin, StreamOptions

# Seconds for which the reader of stdout can rest.  The slot ends with the stream, and what was not
# read of it is lost, so this is more than the reader of runs allows itself.
_REST = 3600.0


@click.command("tail")
@click.option("--slot", help="Slot to read, without advancing it.  [default: a temporary slot]")
@click.option(
    "--plugin",
    type=click.Choice(["pgoutput", "wal2json"]),
    help="Output plugin.  [default: replication.plugin]",
)
@click.option(
    "--publication",
    "publications",
    multiple=True,
    metavar="NAME",
    help="pgoutput: publication to read; repeatable.  [default: walagent's]",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="SCHEMA.TABLE",
    help="wal2json: table to read; repeatable.  [default: all]",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Print BEGIN, COMMIT, messages and changes of schema agent, too.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N lines.")
@click.option("--json", is_flag=True, expose_value=False, help="Ignored: the output is JSON.")
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
    """Print changes as they are committed, in format version 2 of wal2json, until Ctrl-C.

    With pgoutput, prints what the publications contain: of attached tables, the operations that
    agents act on.  With wal2json, prints every change of the tables.  tail ingests nothing and does
    not advance walagent's slot.
    """
    session = open_session(where)
    options = StreamOptions(
        slot=slot or temporary_name(),
        plugin=plugin or session.config.replication.plugin,
        publications=publications or PUBLICATIONS,
        tables=tuple(_split(table) for table in tables),
        application_name="walagent tail",
        stall_timeout=_REST,
    )
    watch = TailOptions(options, own_slot=slot is None, marks=everything, ours=everything)
    asyncio.run(until_stopped(tail=_print(session, watch, limit)))


async def _print(session: CliSession, watch: TailOptions, limit: int | None) -> None:
    """Print until the limit, or until stdout is closed."""
    async with (
        session.places() as places,
        open_tail(places.replication_dsn, watch) as lines,
    ):
        say("streaming; press Ctrl-C to stop")
        printed = 0
        async for line in lines:
            # In a thread: while the reader of stdout rests, the server still gets its status.
            await asyncio.to_thread(_write, line + b"\n")
            printed += 1
            if printed == limit:
                return


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _split(name: str) -> tuple[str, str]:
    schema, dot, table = name.rpartition(".")
    if not dot and not table:
        raise ConfigError(f'invalid table "{name}"', hint="Use the form SCHEMA.TABLE.")
    return schema or "public", table
