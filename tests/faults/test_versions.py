"""Program and schema of different versions, and migrations that fail, die and meet."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, Process, running
from tests.faults.rig.stage import ATTACH, Place, make_ready, set_up
from tests.faults.rig.waiting import fetch, until
from tests.integration.cli.user import empty_database
from walagent.cli.exit_codes import PERSON
from walagent.store.migrations import apply_migration, find_migrations

pytestmark = pytest.mark.scenario(18)

ALL = find_migrations()
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
# Everything in our schema that a migration could leave behind.
SHAPE = """
select 'relation', c.relname, c.relkind::text, coalesce(obj_description(c.oid, 'pg_class'), '')
  from pg_class c where c.relnamespace = to_regnamespace('agent')
union all
select 'column', a.attrelid::regclass::text, a.attname, format_type(a.atttypid, a.atttypmod)
  from pg_attribute a join pg_class c on c.oid = a.attrelid
 where c.relnamespace = to_regnamespace('agent') and a.attnum > 0 and not a.attisdropped
union all
select 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
  from pg_constraint where connamespace = to_regnamespace('agent')
union all
select 'function', p.oid::regprocedure::text, md5(p.prosrc), coalesce(p.proacl::text, '')
  from pg_proc p where p.pronamespace = to_regnamespace('agent')
union all
select 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(t.oid)
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
 where c.relnamespace = to_regnamespace('agent') and not tgisinternal
union all
select 'publication', pubname, tablename, '' from pg_publication_tables where schemaname = 'agent'
 order by 1, 2, 3, 4
"""
APPLIED = "select name from agent_internal.migration order by name"
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


@dataclass(frozen=True, slots=True)
class Stage:
    """The schema after so many migrations, and how many commands those are."""

    shape: list[Any]
    commands: int


@pytest.fixture(scope="module")
def stages(server: str) -> list[Stage]:
    """What the schema is like before the first migration and after each."""

    async def found() -> list[Stage]:
        async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
            await conn.execute(OBSTACLE.format(n=0, act="null").encode())
            made = [Stage([], 0)]
            for migration in ALL:
                async with conn.transaction():
                    await apply_migration(conn, migration)
                ((passed,),) = await fetch(conn, "select last_value from obstacle.passed")
                made.append(Stage(await fetch(conn, SHAPE), passed))
            return made

    with empty_database(server) as dsn:
        return asyncio.run(found())


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


async def set_back(conn: AsyncConnection[Any], count: int) -> None:
    """Bring an empty database to where a former release had it."""
    for migration in ALL[:count]:
        async with conn.transaction():
            await apply_migration(conn, migration)


async def test_an_older_schema_is_refused_until_somebody_migrates(empty: Place) -> None:
    """By daemon and worker; then what was attached and written before is worked."""
    await set_back(empty.conn, len(ALL) - 1)
    await set_up(empty)
    for command in ("run", "serve worker"):
        with running(walagent(empty, *command.split())) as process:
            assert await process.ended() == PERSON
            assert "walagent database migrate" in process.said
            assert "walagent database migrate" in process.said
    assert f"applied {ALL[-1].name}" in await migrated(empty)
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
        await place.conn.execute(
            "insert into agent_internal.migration values ('9999_newer.sql', 'x')"
        )
        await place.conn.execute(WRITE, [1])
        await until(place.conn, ALL_ENDED, alive=old.is_alive)
        with running(Daemon(place, name="again")) as again:
            assert await again.ended() == PERSON
            assert "9999_newer.sql" in again.said
            assert "Upgrade walagent" in again.said
        await place.conn.execute(WRITE, [2])
        await until(place.conn, ALL_ENDED, alive=old.is_alive)
        await all_is_well(place.conn)


@pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.slow)])
async def test_a_migration_that_fails_halfway_leaves_nothing(
    empty: Place, stages: Sequence[Stage], chance: random.Random, times: int
) -> None:
    """Neither objects nor a record; and the next try ends where a first one would have."""
    for _ in range(times):
        await stand_in_the_way(empty, stages, FAIL, chance)
        assert "something is in the way" in await migrated(empty, code=2)
        await empty.conn.execute(CLEAR)
        await see_whole_ones(empty, stages)
    await migrated(empty)
    assert await see_whole_ones(empty, stages) == len(ALL)
    assert "the schema is up to date" in await migrated(empty)


async def test_a_migration_that_is_killed_halfway_leaves_nothing(
    empty: Place, stages: Sequence[Stage], chance: random.Random
) -> None:
    """The server takes back what nobody commits."""
    async with await AsyncConnection.connect(empty.dsn, autocommit=True) as other:
        await other.execute(LOCK, [HERE])
        await stand_in_the_way(empty, stages, WAIT, chance)
        with running(walagent(empty, "database", "migrate")) as process:
            await until(empty.conn, WAITING, 1, alive=process.is_alive)
            process.kill()
    await until(empty.conn, GONE)
    await empty.conn.execute(CLEAR)
    await see_whole_ones(empty, stages)
    await migrated(empty)


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
    assert [said.count(f"applied {migration.name}") for migration in ALL] == [1] * len(ALL)
    assert said.count("the schema is up to date") == 1


async def stand_in_the_way(
    place: Place, stages: Sequence[Stage], act: str, chance: random.Random
) -> None:
    """Let *act* happen at some command of a migration that is due."""
    done = await see_whole_ones(place, stages)
    n = chance.randint(1, stages[-1].commands - stages[done].commands)
    await place.conn.execute(OBSTACLE.format(n=n, act=act).encode())


async def see_whole_ones(place: Place, stages: Sequence[Stage]) -> int:
    """See that the schema is what its record says; return how many migrations that has."""
    there = await fetch(place.conn, "select to_regclass('agent_internal.migration') is not null")
    names = await fetch(place.conn, APPLIED) if there == [(True,)] else []
    assert [name for (name,) in names] == [migration.name for migration in ALL[: len(names)]]
    assert await fetch(place.conn, SHAPE) == stages[len(names)].shape
    return len(names)
