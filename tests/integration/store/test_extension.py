"""`create extension pg_agent` on a real server: the same schema, and no objects of an extension."""

import asyncio
import fcntl
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.catalog import catalog
from tests.helpers.commands import run_command
from tests.helpers.database import refused, run_all, value
from tests.integration.cli.user import empty_database
from walagent import __version__
from walagent.store.install.extension import NAME
from walagent.store.install.migrate import migrate

MEMBERS = """
select count(*)
  from pg_depend d
       join pg_extension e on d.refobjid = e.oid and d.refclassid = 'pg_extension'::regclass
 where e.extname = 'pg_agent' and d.deptype = 'e'
"""


@pytest.fixture
async def databases(server: str) -> AsyncIterator[Sequence[AsyncConnection]]:
    """Two databases without the schema."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                await AsyncConnection.connect(
                    stack.enter_context(empty_database(server)), autocommit=True
                )
            )
            for _ in range(2)
        ]


@pytest.fixture
async def installed(databases: Sequence[AsyncConnection], tmp_path: Path) -> AsyncIterator[Path]:
    """The extension's files on the server, as the command writes them."""
    query = "select setting from pg_config() where name = 'SHAREDIR'"
    folder = Path(await value(databases[0], query)) / "extension"
    typed = ["database", "extension", "install", str(folder)]
    run = partial(run_command, typed, folder=tmp_path, environment={}, patience=60)
    # The folder is the server's, which another process of the tests can have, too.
    with (Path(tempfile.gettempdir()) / "walagent-test-extension.lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        (await asyncio.to_thread(run)).worked()
        yield folder
        for name in (f"{NAME}.control", f"{NAME}--{__version__}.sql"):
            (folder / name).unlink()


async def test_the_extension_creates_the_same_schema(
    databases: Sequence[AsyncConnection], installed: Path
) -> None:
    """As `walagent init` does; its objects are dumped, so they are no longer the extension's."""
    assert (installed / f"{NAME}.control").exists()
    new, usual = databases
    await run_all(new, "create extension pg_agent")
    assert await value(new, MEMBERS) == 0
    await migrate(usual)
    assert await catalog(new) == await catalog(usual)
    rows = "select count(*) from agent.model"
    assert await value(new, rows) == await value(usual, rows)
    # The sample of the guide, before a daemon is there.
    await run_all(
        new,
        "create table support_tickets (id bigint primary key, issue text);"
        "create function refund_user() returns text language sql as $$ select 'ok' $$;"
        "create function escalate_to_human() returns text language sql as $$ select 'ok' $$",
    )
    spec = 'model=gpt-4o, system_prompt="Resolve it.", tools=[refund_user, escalate_to_human]'
    assert await value(new, "select agent.attach('support_tickets', %s)", spec)
    # What migrates next drops the shell, which a dump would create the schema with again.
    assert not await migrate(new)
    assert await value(new, "select count(*) from pg_extension where extname = 'pg_agent'") == 0
    assert await value(new, "select count(*) from agent.attachment") == 1
    await run_all(new, "create extension if not exists pg_agent")  # with a notice
    assert await value(new, "select count(*) from agent.attachment") == 1


async def test_a_schema_of_another_program_is_kept(
    databases: Sequence[AsyncConnection], installed: Path
) -> None:
    """Nothing is created."""
    del installed
    await run_all(databases[0], "create schema agent")
    error = await refused(databases[0], "create extension pg_agent")
    assert "did not create it" in str(error)
