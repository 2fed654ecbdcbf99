"""Locks of walagent: nobody else can hold them, or who does is named."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import product

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import as_role, refused, role, run_all, session, until, value
from walagent.apply.apply import apply
from walagent.config import Config, Replication
from walagent.errors import ConflictError, PreconditionError
from walagent.replication.bootstrap import ensure_slot
from walagent.store.errors import translating
from walagent.store.install import lock as migrations
from walagent.store.install.migrate import migrate

QUICK = "alter function agent_internal.lock_apply() set lock_timeout = '200ms'"
MODES = ("row share", "row exclusive", "share", "exclusive", "access exclusive")
# What walagent has locked in the past, and still does to migrate.
KEYS = (
    "hashtext('walagent.slot')",
    "hashtext('walagent.tick')",
    str(0x77616C61),
    str(0x77616C62),
)


@pytest.fixture
async def stranger(conn: AsyncConnection, dsn: str) -> AsyncIterator[tuple[AsyncConnection, str]]:
    """Holds every advisory lock whose key is known."""
    async with role(conn, "login") as name, session(make_conninfo(dsn, user=name)) as held:
        await run_all(held, "set application_name = 'mallory'")
        for key in KEYS:
            await value(held, f"select pg_advisory_lock({key})")
        yield held, name


async def test_a_slot_is_created_and_a_file_applied_while_others_hold_advisory_locks(
    conn: AsyncConnection, dsn: str, stranger: object
) -> None:
    """The locks are those of tables that nobody else may lock."""
    async with asyncio.timeout(20):
        await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
        async with conn.transaction():
            await apply(conn, Config())


async def test_who_holds_the_lock_of_migrations_is_named(
    conn: AsyncConnection,
    stranger: tuple[AsyncConnection, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An empty database has only an advisory lock."""
    held, name = stranger
    monkeypatch.setattr(migrations, "PATIENCE", 0.3)
    holder = f'PID {held.info.backend_pid}, role "{name}", application "mallory"'
    with pytest.raises(PreconditionError, match=holder) as caught:
        await migrate(conn)
    assert f"pg_terminate_backend({held.info.backend_pid})" in caught.value.hint
    await run_all(held, "select pg_advisory_unlock_all()")
    await migrations.lock_migrations(conn)


CAPABILITIES = ("runner", "viewer", "approver", "developer", "asker", "member")


@pytest.mark.parametrize("capability", CAPABILITIES)
async def test_a_capability_is_granted_while_another_transaction_grants_it(
    conn: AsyncConnection, dsn: str, capability: str
) -> None:
    """It waits: PostgreSQL itself fails, with "tuple concurrently updated"."""
    async with role(conn) as ada, role(conn) as eve, session(dsn) as other:
        waits = f"select cardinality(pg_blocking_pids({other.info.backend_pid})) > 0"
        async with asyncio.timeout(60), asyncio.TaskGroup() as group, conn.transaction():
            await run_all(conn, f"select agent.grant_{capability}('{ada}')")
            grant = f"select agent.grant_{capability}('{eve}')"
            group.create_task(run_all(other, grant))
            await until(conn, waits)
        both = (
            "select bool_and(has_schema_privilege(r, 'agent', 'usage')) from unnest(%s::name[]) r"
        )
        assert await value(conn, both, [ada, eve])


TRAMPOLINE = "select agent_internal.make_trampoline('{0}')"
GRANTING = (TRAMPOLINE, "select agent.grant_viewer('{0}')", "select agent.grant_runner('{0}')")


@pytest.mark.parametrize("statement", GRANTING)
async def test_who_keeps_a_transaction_open_that_granted_is_named(
    conn: AsyncConnection, dsn: str, statement: str
) -> None:
    """Attaching grants, too: a developer could keep all others and the workers waiting."""
    quick = "alter function agent_internal.lock_grants() set lock_timeout = '200ms'"
    async with role(conn) as ada, role(conn) as eve, session(dsn) as held:
        await run_all(conn, quick)
        await run_all(held, "set application_name = 'adas'")
        async with held.transaction():
            await run_all(held, TRAMPOLINE.format(ada))
            holder = (
                rf'granting for 200ms: PID {held.info.backend_pid}, role ".+", application "adas"'
            )
            with pytest.raises(ConflictError, match=holder) as caught, translating():
                await run_all(conn, statement.format(eve))
        assert f"pg_terminate_backend({held.info.backend_pid})" in caught.value.hint
        await run_all(conn, statement.format(eve))
        await run_all(conn, f"drop owned by {ada}, {eve}")


@pytest.mark.parametrize("grants", [(), ("viewer",), ("approver", "developer", "asker")])
async def test_nobody_else_can_lock_these_tables(
    conn: AsyncConnection, grants: Sequence[str]
) -> None:
    """A role with SELECT may take ACCESS SHARE, which conflicts with none of them."""
    async with role(conn) as name:
        for each in grants:
            await run_all(conn, f"select agent.grant_{each}('{name}')")
        async with as_role(conn, name):
            for table, mode in product(("slot_lock", "apply_lock", "privilege"), MODES):
                attempt = f"do 'begin lock table agent_internal.{table} in {mode} mode; end'"
                await refused(conn, attempt, state="42501")
            await refused(conn, "select agent_internal.lock_slot()", state="42501")


async def test_a_developer_who_holds_the_lock_of_files_is_named(
    conn: AsyncConnection, dsn: str
) -> None:
    """Each developer may apply a file, and can keep its transaction open."""
    async with role(conn, "login") as ada, session(make_conninfo(dsn, user=ada)) as held:
        await run_all(conn, f"select agent.grant_developer('{ada}')")
        await run_all(held, "set application_name = 'adas'")
        async with held.transaction():
            await run_all(held, "select agent_internal.lock_apply()")
            await run_all(conn, QUICK)
            holder = f'PID {held.info.backend_pid}, role "{ada}", application "adas"'
            with pytest.raises(ConflictError, match=holder) as caught, translating():
                await apply(conn, Config())
    assert "pg_terminate_backend" in caught.value.hint
