"""`walagent wal tail`: print changes as they are committed, one JSON document per line."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Literal

import click

from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.cli.terminal.output import say
from walagent.cli.terminal.pipe import Pipe
from walagent.cli.terminal.signals import until_stopped
from walagent.domain.change import Op
from walagent.errors import ConfigError
from walagent.intake.where import open_where
from walagent.replication.bootstrap import PUBLICATIONS
from walagent.replication.tail import Tail, TailOptions, refuse_ours
from walagent.wal.options import Plugin, StreamOptions
from walagent.wal.temporary_slot import temporary_name

# Seconds for which the reader of stdout can rest with a temporary slot.  The slot ends with the
# stream, and what was not read of it is lost, so this is more than for other streams.
_REST = 3600.0


@dataclass(frozen=True, slots=True)
class _Filter:
    """The options that select changes."""

    publications: tuple[str, ...]
    tables: tuple[str, ...]
    ops: tuple[str, ...]
    everything: bool
    form: Literal["json", "wal2json"]
    limit: int | None


@dataclass(frozen=True, slots=True)
class _Slot:
    """The options of the slot."""

    name: str | None
    create: bool
    peek: bool
    plugin: Plugin | None


@click.command("tail")
@click.option(
    "--slot",
    metavar="NAME",
    help="Slot to read; what was written is confirmed.  [default: a temporary slot]",
)
@click.option("--create", is_flag=True, help="Create the slot if it does not exist.")
@click.option("--peek", is_flag=True, help="Read the slot without advancing it.")
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
    help="Table to print; repeatable.  [default: all]",
)
@click.option(
    "--op",
    "ops",
    multiple=True,
    type=click.Choice([op.value for op in Op]),
    help="Operation to print; repeatable.  [default: all]",
)
@click.option(
    "--where",
    "condition",
    metavar="SQL",
    help="Print the changes of one --table for which a condition on new and old is true.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Print BEGIN, COMMIT, messages and changes of schema agent, too.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "wal2json"]),
    default="wal2json",
    help="Form of a line: values by column name, or wal2json's version 2.  [default: wal2json]",
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
    ops: tuple[str, ...],
    form: Literal["json", "wal2json"],
    limit: int | None,
    condition: str | None,
    *,
    create: bool,
    peek: bool,
    everything: bool,
) -> None:
    """Print changes as they are committed, a line of JSON for each, until Ctrl-C.

    With pgoutput, prints what the publications contain: of attached tables, the operations that
    agents act on.  With wal2json, prints every change of the tables.  tail ingests nothing and does
    not advance walagent's slot.

    With --slot, a restart resumes after the last confirmed transaction, and a lost connection is
    opened again.  Each line has the commit LSN and the ordinal that identify its change.

    PostgreSQL evaluates --where as it does the conditions of attachments, in a role without
    privileges.  A change that it cannot evaluate is printed, with a message on stderr.
    """
    if (create or peek) and slot is None:
        raise ConfigError("--create and --peek require --slot")
    if create and peek:
        raise ConfigError("--create and --peek exclude each other")
    session = open_session(where)
    if slot is not None and slot == session.config.replication.slot and not peek:
        refuse_ours(slot)
    found = _Filter(publications, tables, ops, everything, form, limit)
    if condition is not None and len(tables) != 1:
        raise ConfigError("--where requires one --table", hint="Its condition reads new and old.")
    tail = _options(session, _Slot(slot, create, peek, plugin), found)
    asyncio.run(_run(session, tail, condition))


def _options(session: CliSession, slot: _Slot, found: _Filter) -> TailOptions:
    plugin = slot.plugin or session.config.replication.plugin
    tables = tuple(_split(table) for table in found.tables)
    options = StreamOptions(
        slot=slot.name or temporary_name("tail"),
        plugin=plugin,
        publications=found.publications or PUBLICATIONS,
        tables=tables if plugin == "wal2json" else (),
        application_name="walagent tail",
    )
    if slot.name is None:
        options = replace(options, stall_timeout=_REST)
    return TailOptions(
        options,
        own_slot=slot.name is None,
        create=slot.create,
        peek=slot.peek,
        marks=found.everything,
        ours=found.everything,
        tables=frozenset(tables),
        ops=frozenset(map(Op, found.ops)),
        format=found.form,
        limit=found.limit,
    )


async def _run(session: CliSession, tail: TailOptions, condition: str | None) -> None:
    pipe = Pipe()
    await until_stopped(tail=_print(session, tail, condition, pipe), pipe=pipe.closed())


async def _print(session: CliSession, tail: TailOptions, condition: str | None, pipe: Pipe) -> None:
    async with AsyncExitStack() as stack:
        places = await stack.enter_async_context(session.places())
        keep = None
        if condition is not None:
            (table,) = tail.tables
            opened = open_where(places.dsn, lambda: places.tools_dsn, table, condition, say)
            keep = await stack.enter_async_context(opened)
        await Tail(places.replication_dsn, tail, pipe.write, say, keep).run()


def _split(name: str) -> tuple[str, str]:
    schema, _, table = name.rpartition(".")
    if not table:
        raise ConfigError(f'invalid table "{name}"', hint="Use the form SCHEMA.TABLE.")
    return schema or "public", table
