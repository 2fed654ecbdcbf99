"""`walagent init` and `walagent migrate`: what a database needs before it can be followed."""

import asyncio
from collections.abc import Sequence

import click

from walagent.app.migrate import migrate, plan_migrations
from walagent.ask.analyst_role import make_analyst
from walagent.cli.output import json_option, print_json, say
from walagent.cli.session import Connection, Session, Where, open_session, where_options
from walagent.config.dsn import Places
from walagent.errors import SlotBusyError
from walagent.intake.gap_plan import Plan
from walagent.intake.recovery import RowRecovery
from walagent.replication.bootstrap import ensure_slot
from walagent.replication.resync import resync
from walagent.replication.source import check_source
from walagent.store.migrations import Migration
from walagent.wal.slots import Blocker


@click.command("init")
@click.option(
    "--new-slot",
    is_flag=True,
    help="Drop the slot and make a new one; what lies between starts no run: see resync.",
)
@where_options
def init_(where: Where, *, new_slot: bool) -> None:
    """Prepare the database: schema, publication, slot, in this order.

    Doing it again does no harm.  A new slot waits for the transactions that are open now; which
    ones is said.
    """
    asyncio.run(_prepared(open_session(where), new_slot=new_slot))
    say("ready: walagent run")


@click.command("setup")
@click.option(
    "--no-slot",
    is_flag=True,
    help="For questions alone: make no slot, which would keep WAL that nobody reads.",
)
@where_options
def setup_(where: Where, *, no_slot: bool) -> None:
    """Prepare the database as init does, and make the role that questions read with.

    That role may read the tables that are there now, and nothing else; one that is there already
    is left as it is.  Doing it again does no harm.
    """
    session = open_session(where)
    asyncio.run(_prepared(session, analyst=True, slot=not no_slot))
    agents = "" if no_slot else "walagent run, and "
    say(f'ready: {agents}walagent ask "…" with the rights of {session.config.ask.role}')


async def _prepared(
    session: Session, *, slot: bool = True, new_slot: bool = False, analyst: bool = False
) -> None:
    async with session.places(create=True) as places, session.connect(places) as conn:
        await migrate(conn, _told)
        if places.embedded:
            say(f"the embedded database is in {places.embedded.data_dir}")
        settings = session.config.ask
        if analyst and await make_analyst(conn, settings.role, settings.schemas):
            tables = ", ".join(settings.schemas or ("public",))
            say(f"the role {settings.role} may read the tables of {tables}, as they are now")
        if slot:  # last: where a server refuses it, questions can be asked all the same
            await _slot(session, conn, places, new=new_slot)


@click.command("migrate")
@click.option("--plan", "only_plan", is_flag=True, help="List what is due, and change nothing.")
@json_option()
@where_options
def migrate_(where: Where, *, only_plan: bool, as_json: bool) -> None:
    """Bring the schema up to date, each migration in a transaction of its own."""
    session = open_session(where)

    async def migrated() -> list[Migration]:
        async with session.connection(create=not only_plan) as conn:
            return await (plan_migrations(conn) if only_plan else migrate(conn, _told))

    names = [migration.name for migration in asyncio.run(migrated())]
    if as_json:
        print_json({"due" if only_plan else "applied": names})
    elif only_plan:
        click.echo("\n".join(names), nl=bool(names))
    if not names:
        say("the schema is up to date")


async def _slot(session: Session, conn: Connection, places: Places, *, new: bool) -> None:
    settings = session.config.replication
    if new:
        recovery = RowRecovery(places.dsn, Plan())
        done = await resync(conn, places, settings, recovery, waiting=tell_blockers)
        say(f"slot {settings.slot} is new and begins at {done.start}")
        return
    checkpoint = await ensure_slot(conn, places.replication_dsn, settings, tell_blockers)
    try:
        await check_source(conn, places.replication_dsn, settings, checkpoint)
    except SlotBusyError:
        say(f"slot {settings.slot} is being read")  # so it is well
        return
    say(f"slot {settings.slot} is ready at {checkpoint.end_lsn}")


def tell_blockers(blockers: Sequence[Blocker]) -> None:
    """Say whom a new slot waits for."""
    for blocker in blockers:
        name = f" ({blocker.application_name})" if blocker.application_name else ""
        say(f"waits for the transaction of pid {blocker.pid}{name}, open for {blocker.age:.0f} s")


def _told(migration: Migration) -> None:
    say(f"applied {migration.name}")
