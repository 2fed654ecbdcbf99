"""Program and schema of different versions, and upgrades that fail, die and meet."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, Process, running
from tests.faults.rig.stage import ATTACH, Place, make_ready, set_up
from tests.faults.rig.waiting import fetch, until
from tests.helpers.catalog import catalog
from tests.helpers.later_schema import later
from tests.integration.cli.user import empty_database
from walagent.cli.exit_codes import PERSON
from walagent.errors import WalagentError
from walagent.store.install.files import find_files
from walagent.store.install.migrate import migrate

pytestmark = pytest.mark.scenario(18)

LATER = later(find_files())
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
# At the n-th command of a migration: an error, or a wait until the test lets it go on.
OBSTACLE = """
create schema obstacle;
create sequence obstacle.passed;
create function obstacle.stand() returns event_trigger language plpgsql as $$
begin
    if nextval('obstacle.passed') = {n} then
        {act};
    end if;
end $$;
create event trigger obstacle on ddl_command_end execute function obstacle.stand();
"""
HERE, MIGRATING = 7, 0x77616C61  # advisory locks: the obstacle's, and that of whoever migrates
FAIL = "raise exception 'something is in the way'"
WAIT = f"perform pg_advisory_lock({HERE})"
CLEAR = "drop event trigger obstacle; drop schema obstacle cascade"
LOCK = "select pg_advisory_lock(%s)"
OURS = """
  from pg_locks l join pg_database d on d.oid = l.database
 where d.datname = current_database() and locktype = 'advisory'
"""
WAITING = f"select count(*) = %s {OURS} and not granted"
TRYING = """
select count(*) = %s from pg_stat_activity
 where datname = current_database() and application_name like 'walagent%%'
"""
GONE = f"select not exists (select {OURS})"


@pytest.fixture(scope="module")
def commands(server: str) -> int:
    """How many commands create the schema."""

    async def counted() -> int:
        async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
            await conn.execute(OBSTACLE.format(n=0, act="null").encode())
            await migrate(conn)
            ((passed,),) = await fetch(conn, "select last_value from obstacle.passed")
            return passed

    with empty_database(server) as dsn:
        return asyncio.run(counted())


@pytest.fixture
async def empty(server: str, place: Place) -> AsyncIterator[Place]:
    """A database that has never seen us, beside the one that is up to date."""
    with empty_database(server) as dsn:
        async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
            yield replace(place, conn=conn, dsn=dsn, slot=conn.info.dbname)


def walagent(place: Place, *words: str) -> Process:
    """Start a command."""
    place.folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "walagent", *words, "--dsn", place.dsn]
    return Process(place.folder / f"{words[0]}.log", command, {})


async def migrated(place: Place, *, code: int = 0) -> str:
    """Run `walagent database migrate` to its end; return what it said."""
    with running(walagent(place, "database", "migrate")) as process:
        assert await process.ended() == code, process.said
        return process.said


@pytest.mark.slow
async def test_an_older_schema_is_refused_until_somebody_migrates(empty: Place) -> None:
    """By daemon and worker; then what was attached and written before is worked."""
    await migrated(empty)
    await set_up(empty)
    old = "update agent_internal.migration set sha256 = 'old' where name = 'schema/run/claim.sql'"
    await empty.conn.execute(old)
    for command in ("run", "serve worker"):
        with running(walagent(empty, *command.split())) as process:
            assert await process.ended() == PERSON
            assert "walagent database migrate" in process.said
    assert "applied schema/run/claim.sql" in await migrated(empty)
    with running(Daemon(empty)) as daemon:
        await daemon.has_said("reader.streaming")
        await empty.conn.execute(ATTACH.encode())
        await empty.conn.execute(WRITE, [1])
        await until(empty.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(empty.conn)


async def test_a_newer_schema_is_refused_and_a_daemon_that_runs_goes_on(place: Place) -> None:
    """Whoever upgrades migrates first and restarts the daemons afterwards, one by one."""
    await make_ready(place)
    with running(Daemon(place, name="old")) as old:
        await old.has_said("reader.streaming")
        await place.conn.execute("update agent_internal.migration set version = '99.0.0'")
        await place.conn.execute(WRITE, [1])
        await until(place.conn, ALL_ENDED, alive=old.is_alive)
        with running(Daemon(place, name="again")) as again:
            assert await again.ended() == PERSON
            assert "version 99.0.0" in again.said
            assert "Upgrade walagent" in again.said
        await place.conn.execute(WRITE, [2])
        await until(place.conn, ALL_ENDED, alive=old.is_alive)
        await all_is_well(place.conn)


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.slow)])
async def test_an_upgrade_beside_daemons_loses_nothing(
    place: Place, chance: random.Random, times: int
) -> None:
    """State and code change between their transactions; those that run go on."""
    await make_ready(place)
    with running(Daemon(place, name="old")) as old:
        await old.has_said("reader.streaming")

        async def write() -> None:
            for value in range(40 * times):
                await place.conn.execute(WRITE, [value])
                await asyncio.sleep(chance.uniform(0, 0.05))

        writing = asyncio.create_task(write())
        async with await AsyncConnection.connect(place.dsn, autocommit=True) as other:
            assert await migrate(other, LATER)
            for _ in range(times):
                await other.execute(
                    "update agent_internal.migration set sha256 = 'old' where name !~ '^upgrades'"
                )
                assert await migrate(other, LATER)
        await writing
        await until(place.conn, ALL_ENDED, alive=old.is_alive)
        await all_is_well(place.conn)


@pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.slow)])
async def test_a_schema_whose_creation_fails_leaves_nothing(
    empty: Place, commands: int, chance: random.Random, times: int
) -> None:
    """Neither objects nor a record; and the next try ends where a first one would have."""
    before = await catalog_of(empty)
    for _ in range(times):
        await stand_in_the_way(empty, commands, FAIL, chance)
        assert "something is in the way" in await migrated(empty, code=2)
        await empty.conn.execute(CLEAR)
        assert await catalog_of(empty) == before
    await migrated(empty)
    assert "the schema is up to date" in await migrated(empty)


@pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.slow)])
async def test_an_upgrade_that_fails_halfway_changes_nothing(
    empty: Place, commands: int, chance: random.Random, times: int
) -> None:
    """Wherever it fails, the database is that of the old version, and the next try succeeds."""
    await migrated(empty)
    before = await catalog(empty.conn)
    for _ in range(times):
        await stand_in_the_way(empty, commands // 2, FAIL, chance)
        with pytest.raises(WalagentError, match="something is in the way"):
            await migrate(empty.conn, LATER)
        await empty.conn.execute(CLEAR)
        assert await catalog(empty.conn) == before
    assert await migrate(empty.conn, LATER)


@pytest.mark.slow
async def test_a_migration_that_is_killed_halfway_leaves_nothing(
    empty: Place, commands: int, chance: random.Random
) -> None:
    """The server takes back what nobody commits."""
    before = await catalog_of(empty)
    async with await AsyncConnection.connect(empty.dsn, autocommit=True) as other:
        await other.execute(LOCK, [HERE])
        await stand_in_the_way(empty, commands, WAIT, chance)
        with running(walagent(empty, "database", "migrate")) as process:
            await until(empty.conn, WAITING, 1, alive=process.is_alive)
            process.kill()
    await until(empty.conn, GONE)
    await empty.conn.execute(CLEAR)
    assert await catalog_of(empty) == before
    await migrated(empty)


@pytest.mark.slow
async def test_two_that_migrate_at_once_do_it_once(empty: Place) -> None:
    """As a deployment of many starts them: one does it, the other finds it done."""
    async with await AsyncConnection.connect(empty.dsn, autocommit=True) as other:
        await other.execute(LOCK, [MIGRATING])
        with (
            running(walagent(empty, "database", "migrate")) as first,
            running(
                walagent(replace(empty, folder=empty.folder / "2"), "database", "migrate")
            ) as second,
        ):
            await until(empty.conn, TRYING, 2, alive=first.is_alive)
            await other.close()
            assert (await first.ended(), await second.ended()) == (0, 0)
            said = first.said + second.said
    assert said.count("applied schema") == 1
    assert said.count("the schema is up to date") == 1


async def stand_in_the_way(place: Place, commands: int, act: str, chance: random.Random) -> None:
    """Let *act* happen at one of so many commands."""
    n = chance.randint(1, commands)
    await place.conn.execute(OBSTACLE.format(n=n, act=act).encode())


async def catalog_of(place: Place) -> list[Any]:
    """What walagent could leave in an empty database."""
    return await fetch(
        place.conn,
        "select nspname from pg_namespace where nspname like 'agent%%'"
        " union all select pubname from pg_publication",
    )
