"""`walagent database uninstall`: remove what walagent has created, and nothing else."""

import asyncio

import click
from psycopg.conninfo import make_conninfo

from walagent.cli.session import CliSession, Connection, Where, open_session, where_options
from walagent.cli.terminal.output import clean, say
from walagent.config.dsn import Places, describe
from walagent.demo.removal import Kept, find_demo, remove_demo, remove_folder
from walagent.errors import PreconditionError
from walagent.store.install.removal import Installed, connected_daemons, find_installed, remove
from walagent.wal.slots import drop_slot


@click.command("uninstall")
@click.option("--demo", is_flag=True, help="Remove the database of walagent demo instead.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@where_options
def uninstall_(where: Where, *, demo: bool, yes: bool) -> None:
    """Remove walagent from the database: slot, publications, schemas, and roles that it created.

    It prints what it will drop, and asks.  Tables of the application stay; runs, steps and
    attachments are lost.  It refuses while a process of walagent is connected.

    With --demo, the demo's database is dropped, and the embedded server's folder is removed if
    nothing else is in it.
    """
    session = open_session(where)
    asyncio.run(_demo_removed(session, yes=yes) if demo else _removed(session, yes=yes))


async def _removed(session: CliSession, *, yes: bool) -> None:
    async with session.places() as places, session.connect(places) as conn:
        await _check_idle(conn)
        session = await session.with_slot(conn)
        installed = await find_installed(conn, session.config.replication.slot)
        for slot in installed.other_slots:
            say(f"slot {slot} is not read and retains WAL; if it was walagent's, drop it:")
            say(f"hint: walagent wal drop-slot --slot {slot}")
        if installed.is_nothing:
            say("there is nothing of walagent in this database")
            return
        say(f"from {describe(conn.info.get_parameters() | {'dbname': conn.info.dbname})}:")
        _show(installed)
        _confirm(yes=yes)
        await _check_idle(conn)  # again: one can have started during the question
        await _drop(session, places, conn, installed)
    say("removed")


async def _drop(
    session: CliSession, places: Places, conn: Connection, installed: Installed
) -> None:
    # Slots on another connection: an error there, such as of one that is gone, aborts nothing here.
    async with session.connect(places, replication=True) as reader, conn.transaction():
        await remove(conn, installed)
        for slot in installed.slots:  # last: no rollback brings one back
            await drop_slot(reader, slot)


def _show(installed: Installed) -> None:
    for what, names in (
        ("slot", installed.slots),
        ("publication", installed.publications),
        ("schema", installed.schemas),
        ("role", installed.roles),
    ):
        for name in names:
            click.echo(clean(f"  {what} {name}"))
    for name in installed.dependents:
        click.echo(clean(f"  {name}, which depends on it"))


def _confirm(*, yes: bool) -> None:
    if not yes:
        click.confirm("Drop all of this?", abort=True, err=True)


async def _check_idle(conn: Connection) -> None:
    if found := await connected_daemons(conn):
        raise PreconditionError(
            f"walagent is connected to this database: {'; '.join(found)}",
            hint="Stop these processes first.",
        )


async def _demo_removed(session: CliSession, *, yes: bool) -> None:
    if session.choice is not None and session.choice.named_by == "--dsn":
        raise click.UsageError("--demo removes from the embedded server: leave --dsn out")
    embedded = CliSession(session.config, session.environment, None)
    async with embedded.places() as places:
        found = await find_demo(places)
        if found.has_database:
            async with embedded.connect(_demo_of(places)) as conn:
                await _check_idle(conn)
            click.echo("  database demo, with its slots")
        match found.kept:
            case Kept.NOTHING:
                click.echo(clean(f"  folder {found.folder}, {found.size / 1e6:.0f} MB"))
            case Kept.RUNNING:
                say(f"{found.folder} stays: another process runs the server")
            case Kept.DATABASES:
                say(f"{found.folder} stays: it has {', '.join(found.others)}")
        if not found.has_database and found.kept is not Kept.NOTHING:
            say("there is no database of walagent demo")
            return
        _confirm(yes=yes)
        await remove_demo(places)
    if found.kept is Kept.NOTHING:
        remove_folder(found.folder)
    say("removed")


def _demo_of(places: Places) -> Places:
    dsn = make_conninfo(places.dsn, dbname="demo")
    return Places(dsn, dsn, places.embedded)
