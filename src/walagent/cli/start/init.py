"""`walagent init`, `setup` and `migrate`: prepare a database for walagent."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import click

from walagent.ask.analyst_role import make_analyst
from walagent.cli.session import (
    CliSession,
    Connection,
    Where,
    open_session,
    slot_option,
    where_options,
)
from walagent.cli.terminal.output import json_option, print_json, say
from walagent.config.dsn import Places
from walagent.doctor.finding import Severity
from walagent.doctor.server import check_messages
from walagent.errors import PreconditionError, SlotBusyError
from walagent.intake.gap_plan import GapPlan
from walagent.intake.recovery import RowRecovery
from walagent.replication.bootstrap import PUBLICATIONS, ensure_slot
from walagent.replication.resync import resync
from walagent.replication.source import check_source
from walagent.store.install.migrate import migrate, plan_migration
from walagent.store.install.plan import Plan
from walagent.store.install.pooling import check_pooling
from walagent.store.install.server_facts import read_server
from walagent.store.sessions.tool_connections import ensure_login
from walagent.wal.refusals import WAL_LEVEL
from walagent.wal.slots import Blocker


@click.command("init")
@click.option(
    "--new-slot",
    is_flag=True,
    help="Replace the slot; changes between old and new slot start no run.",
)
@where_options
@slot_option
def init_(where: Where, *, new_slot: bool) -> None:
    """Prepare the database: create or upgrade the schema, the publication and the slot.

    init is idempotent.  Slot creation waits for all open transactions, and prints their PIDs.  To
    replace a slot and choose what happens to the changes between, use walagent wal resync.
    """
    asyncio.run(_prepared(open_session(where), new_slot=new_slot))


@click.command("setup")
@click.option(
    "--no-slot",
    is_flag=True,
    help="Create no slot: for questions only. An unread slot retains WAL.",
)
@where_options
@slot_option
def setup_(where: Where, *, no_slot: bool) -> None:
    """Prepare the database as init does, and create the role for questions.

    The role can read the tables that exist now, and nothing else.  An existing role is not changed.
    If the server does not meet the requirements for a slot, setup prepares questions and prints
    what is missing for agents.  setup is idempotent.
    """
    session = open_session(where)
    missing = asyncio.run(_prepared(session, analyst=True, slot=not no_slot))
    agents = "" if no_slot or missing else "walagent run, and "
    say(f'ready: {agents}walagent ask "…", which reads as role {session.config.ask.role}')
    if missing is not None:
        say(f"not ready: walagent run: {missing}")
        if missing.hint:
            say(f"hint: {missing.hint}")


async def _prepared(
    session: CliSession, *, slot: bool = True, new_slot: bool = False, analyst: bool = False
) -> PreconditionError | None:
    """Prepare the database; for questions, return what is missing for a slot."""
    async with session.places(create=True) as places, session.connect(places) as conn:
        await check_pooling(conn, places.dsn)
        session = await session.with_slot(conn)
        facts = await read_server(conn)
        if not analyst and facts.wal_level != "logical":  # before anything is changed
            raise PreconditionError(
                f"wal_level is {facts.wal_level}, expected logical",
                hint=f"{WAL_LEVEL} For questions only: walagent database setup --no-slot.",
            )
        await migrate(conn)
        await _tools_login(conn, places)
        settings = session.config.ask
        if analyst and await make_analyst(conn, settings.role, settings.schemas):
            tables = ", ".join(settings.schemas or ("public",))
            say(f"role {settings.role} can read the present tables of {tables}")
        if not slot:
            return None
        try:  # last: if the server refuses it, questions still work
            await _slot(session, conn, places, new=new_slot)
            if not places.embedded:
                for finding in check_messages(facts):
                    if finding.level is Severity.PROBLEM:
                        say(f"{finding.text}\nhint: {finding.fix}")
        except PreconditionError as error:
            if not analyst:
                raise
            return error
    if not analyst:
        made = f"schema agent, publications {' and '.join(PUBLICATIONS)}"
        place = f" in {places.embedded.data_dir}" if places.embedded else ""
        say(f"ready{place}: {made}, slot {session.config.replication.slot}; next: walagent run")
    return None


@click.command("migrate")
@click.option("--plan", "only_plan", is_flag=True, help="List the files to apply; apply none.")
@json_option()
@where_options
def migrate_(where: Where, *, only_plan: bool, as_json: bool) -> None:
    """Upgrade the schema in one transaction: its state, then its code."""
    session = open_session(where)

    async def migrated() -> Plan:
        async with (
            session.places(create=not only_plan) as places,
            session.connect(places) as conn,
        ):
            await check_pooling(conn, places.dsn)
            if only_plan:
                return await plan_migration(conn)
            applied = await migrate(conn)
            _say_applied(applied)
            await _tools_login(conn, places)
            return applied

    names = asyncio.run(migrated()).names
    if as_json:
        print_json({"due" if only_plan else "applied": names})
    elif only_plan:
        click.echo("\n".join(names), nl=bool(names))
    if not names:
        say("the schema is up to date")


async def _tools_login(conn: Connection, places: Places) -> None:
    """Create the login for code of others, or print what creates it."""
    if not places.tools_dsn and (missing := await ensure_login(conn)):
        say(f"to execute tools, run as a superuser: {missing}; or set DATABASE_TOOLS_URL")


async def _slot(session: CliSession, conn: Connection, places: Places, *, new: bool) -> None:
    settings = session.config.replication
    if new:
        recovery = RowRecovery(places.dsn, GapPlan(), tools_dsn=places.tools_dsn)
        await resync(conn, places, settings, recovery, waiting=tell_blockers)
        return
    checkpoint = await ensure_slot(conn, places.replication_dsn, settings, tell_blockers)
    with suppress(SlotBusyError):  # a reader has it, so it is valid
        await check_source(conn, places.replication_dsn, settings, checkpoint)


def tell_blockers(blockers: Sequence[Blocker]) -> None:
    """Print the transactions that a new slot waits for."""
    for blocker in blockers:
        name = f" ({blocker.application_name})" if blocker.application_name else ""
        say(f"waiting for the transaction of PID {blocker.pid}{name}, open for {blocker.age:.0f} s")


def _say_applied(plan: Plan) -> None:
    for name in plan.names:
        say(f"applied {name}")
