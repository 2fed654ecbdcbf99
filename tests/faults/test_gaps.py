"""WAL that is lost for good: the reader stops, says so, and writes down what is missing."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.commands import types
from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.servers import OwnServer, base_backup, own_server
from tests.faults.rig.serving import Serving, serving
from tests.faults.rig.stage import Place, make_ready
from tests.faults.rig.waiting import connect_again, fetch, until, until_true
from walagent.cli.exit_codes import PERSON
from walagent.errors import GapError

pytestmark = pytest.mark.scenario(5)

NOTE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"
FREE = "select not active from pg_replication_slots where slot_name = %s"
OPEN = "select reason from agent.gap where resolved_at is null"
# What was ingested ends where the gap begins, or after; and the WAL goes on.
IN_ORDER = """
select g.from_lsn <= p.end_lsn and g.to_lsn >= p.end_lsn and g.since <= p.committed_at
       and g.generation = p.generation
  from agent.gap g join agent.checkpoint p using (slot) where g.resolved_at is null
"""
# Nothing that is sent: a server waits long for a frozen reader to take what it has for it.
SWITCH = "create table filler (); select pg_switch_wal(); drop table filler"
LOST = "select wal_status = 'lost' from pg_replication_slots where slot_name = %s"
# A reader that comes back is ended again, until there is none for long enough.
TAKE = """
do $$
begin
    loop
        perform pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '{0}';
        begin
            perform pg_drop_replication_slot('{0}');
            return;
        exception when object_in_use then
        end;
    end loop;
end;
$$
"""


async def write(place: Place, *items: int) -> None:
    """Insert items, each in a transaction of its own."""
    for item in items:
        await place.conn.execute(NOTE, [item])


async def ends_with(place: Place, reason: str) -> None:
    """See a daemon stop with exit code 3, a hint, and one gap on record."""
    with running(Daemon(place, name="-after")) as daemon:
        assert await daemon.ended() == PERSON
        assert "hint:" in daemon.said
        assert "walagent wal resync" in daemon.said
        assert "Traceback" not in daemon.said
    await is_on_record(place, reason)


async def is_on_record(place: Place, reason: str) -> None:
    """See that one gap is open, with this reason, and in order."""
    ((found,),) = await fetch(place.conn, OPEN)
    assert reason in found
    assert await fetch(place.conn, IN_ORDER) == [(True,)]


@contextmanager
def stopping(place: Place, reason: str) -> Iterator[None]:
    """See that the daemon inside the test's process ends with a gap of this reason."""
    with pytest.raises(ExceptionGroup) as caught:
        yield
    (error,) = caught.value.exceptions
    assert isinstance(error, GapError), error
    assert reason.format(slot=place.slot) in str(error)
    assert "walagent wal resync" in error.hint


async def until_dead(daemon: Serving) -> None:
    """Wait for the end of a daemon in this process, and raise what ended it."""

    async def dead() -> bool:
        daemon.is_alive()
        return False

    await until_true(dead, "the daemon stops")


async def goes_on(place: Place, *items: int) -> None:
    """After a resync, see that what is written is ingested."""
    (await types(place, "wal", "resync", "--default", "skip", "--yes")).worked()
    assert await fetch(place.conn, OPEN) == []
    with running(Daemon(place, name="-again")) as daemon:
        await daemon.has_said("reader.streaming")
        await write(place, *items)
        taken = "select count(*) = %s from agent.run where key::bigint = any (%s)"
        await until(place.conn, taken, len(items), list(items), alive=daemon.is_alive)
    assert await fetch(place.conn, "select * from agent.broken_invariant") == []


# While nobody reads.


@dataclass(frozen=True, slots=True)
class Loss:
    """What somebody does, and what the reader says of it."""

    statement: str
    reason: str


AWAY = {
    "dropped": Loss("select pg_drop_replication_slot('{slot}')", 'slot "{slot}" does not exist'),
    "advanced": Loss(
        "select pg_replication_slot_advance('{slot}', pg_current_wal_lsn())",
        "ahead of the checkpoint",
    ),
    "read": Loss(
        "select count(*) from pg_logical_slot_get_binary_changes('{slot}', null, null,"
        " 'proto_version', '1', 'publication_names', 'walagent')",
        "ahead of the checkpoint",
    ),
    "made again": Loss(
        "select pg_drop_replication_slot('{slot}');"
        " select pg_create_logical_replication_slot('{slot}', 'pgoutput')",
        "ahead of the checkpoint",
    ),
    "publication dropped": Loss("drop publication walagent", "publication walagent does not exist"),
    "publication recreated": Loss(
        "drop publication walagent;"
        " create publication walagent for table agent.attachment, item"
        "   with (publish_via_partition_root = true)",
        "item was removed from publication walagent",
    ),
    "publication altered": Loss(
        "alter publication walagent set (publish = 'insert')",
        "publication walagent was altered and does not send what walagent requires",
    ),
    "publication renamed": Loss(
        "alter publication walagent rename to theirs", "publication walagent does not exist"
    ),
    "table taken out": Loss(
        "alter publication walagent drop table item", "item was removed from publication walagent"
    ),
    "table put back": Loss(
        "alter publication walagent drop table item; alter publication walagent add table item",
        "item was removed from publication walagent",
    ),
    "attachments taken out": Loss(
        "alter publication walagent drop table agent.attachment",
        "agent.attachment was removed from publication walagent",
    ),
    # As after a dump was restored elsewhere, and after pg_resetwal.
    "another system": Loss("update agent.checkpoint set system_id = '12345'", "system identifier"),
    "an earlier WAL": Loss(
        "update agent.checkpoint set end_lsn = 'FFFFFF/0'", 'before the checkpoint of slot "{slot}"'
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("what", AWAY)
async def test_what_was_done_while_nobody_read_stops_the_reader(place: Place, what: str) -> None:
    """One gap, however often it is started; nothing is made anew in silence."""
    loss = AWAY[what]
    await make_ready(place)
    await write(place, 1)
    for statement in loss.statement.format(slot=place.slot).split("; "):
        await place.conn.execute(statement.encode())
    await write(place, 2)
    slots = await fetch(place.conn, "select slot_name, restart_lsn from pg_replication_slots")
    for _n in range(2):
        with stopping(place, loss.reason):
            async with serving(place, place.dsn):
                pass
    assert await fetch(place.conn, OPEN)
    assert len(await fetch(place.conn, "select from agent.gap")) == 1
    now = await fetch(place.conn, "select slot_name, restart_lsn from pg_replication_slots")
    assert now == slots


@pytest.mark.slow
async def test_a_table_that_is_detached_or_dropped_is_no_loss(place: Place) -> None:
    """Nor one that is attached in another way: those are ours, or somebody else's matter."""
    await make_ready(place)
    await place.conn.execute("create table other (id bigint primary key)")
    for statement in (
        "select agent.attach('other', 'model=script, name=other')",
        "update agent.attachment set ops = '{insert,update}' where name = 'other'",
        "update agent.attachment set ops = '{insert}' where name = 'other'",
        "select agent.detach('other')",
        "select agent.attach('other', 'model=script, name=other')",
        "drop table other",
    ):
        await place.conn.execute(statement.encode())
    async with serving(place, place.dsn) as daemon:
        await write(place, 1)
        await until(place.conn, ENDED, 1, alive=daemon.is_alive)
    assert await fetch(place.conn, "select from agent.gap") == []


async def test_a_loss_is_not_hidden_by_attaching_again(place: Place) -> None:
    """Somebody took the table out; who attaches to it puts it back, and what was lost stays so."""
    await make_ready(place)
    await place.conn.execute("alter publication walagent drop table item")
    await write(place, 1)
    await place.conn.execute("select agent.attach('item', 'model=script, name=another')")
    with stopping(place, "item was removed from publication walagent"):
        async with serving(place, place.dsn):
            pass


# While a daemon reads.


@asynccontextmanager
async def at_work(place: Place) -> AsyncIterator[Serving]:
    """A daemon that has worked a row."""
    await make_ready(place)
    async with serving(place, place.dsn) as daemon:
        await write(place, 1)
        await until(place.conn, ENDED, 1, alive=daemon.is_alive)
        yield daemon


@pytest.mark.slow
async def test_a_slot_that_is_dropped_under_a_reader_stops_it(place: Place) -> None:
    """With exit code 3; the next daemon stops as well, a resync ends it, and the stream goes on."""
    await make_ready(place)
    with running(Daemon(place)) as daemon:
        await daemon.has_said("reader.streaming")
        await write(place, 1)
        await until(place.conn, ENDED, 1, alive=daemon.is_alive)
        await place.conn.execute(TAKE.format(place.slot).encode())
        await write(place, 2)
        assert await daemon.ended() == PERSON
        assert "walagent wal resync" in daemon.said
    await ends_with(place, f'slot "{place.slot}" does not exist')
    await goes_on(place, 3, 4)


@pytest.mark.parametrize(
    "what",
    [
        "table put back",
        pytest.param("publication recreated", marks=pytest.mark.slow),
        pytest.param("publication altered", marks=pytest.mark.slow),
    ],
)
async def test_a_publication_that_is_altered_under_a_reader_stops_it(
    place: Place, what: str
) -> None:
    """Within seconds, and from the last moment at which all was known to be sent."""
    loss = AWAY[what]
    with stopping(place, loss.reason):
        async with at_work(place) as daemon:
            before = await fetch(place.conn, "select pg_current_wal_lsn(), clock_timestamp()")
            for statement in loss.statement.split("; "):
                await place.conn.execute(statement.encode())
            await write(place, 2)
            await until_dead(daemon)
    gap = "select from_lsn <= %s, since <= %s from agent.gap"
    assert await fetch(place.conn, gap, *before[0]) == [(True, True)]


@pytest.mark.slow
async def test_a_gap_that_cannot_be_recorded_is_looked_at_again(place: Place) -> None:
    """The daemon does not end before it is on record: nobody would hear of it."""
    await make_ready(place)
    await place.conn.execute("select pg_drop_replication_slot(%s)", [place.slot])
    async with await AsyncConnection.connect(place.dsn) as blocker:
        await blocker.execute("lock table agent.gap")
        with running(Daemon(place)) as daemon:
            waits = (
                "select exists (select from pg_stat_activity where wait_event_type = 'Lock'"
                " and datname = current_database() and application_name = 'walagent status')"
            )
            await until(place.conn, waits, alive=daemon.is_alive)
            daemon.is_alive()
            await blocker.rollback()
            assert await daemon.ended() == PERSON
    await is_on_record(place, f'slot "{place.slot}" does not exist')


# Servers of the test's own.


@pytest.fixture
def which(request: pytest.FixtureRequest) -> str:
    """The server of this session."""
    return str(request.config.getoption("--server"))


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True], ids=["away", "frozen"])
async def test_wal_that_the_server_has_removed_is_a_gap(
    tmp_path: Path,
    which: str,
    frozen: bool,  # noqa: FBT001
) -> None:
    """With max_slot_wal_keep_size, while the daemon is down, or hangs so that it is thrown out."""
    async with own_server(tmp_path, which) as (_, place):
        await make_ready(place)
        await place.conn.execute("alter system set max_slot_wal_keep_size = '1MB'")
        await place.conn.execute("select pg_reload_conf()")
        with running(Daemon(place)) as daemon:
            await daemon.has_said("reader.streaming")
            await write(place, 1)
            await until(place.conn, ENDED, 1, alive=daemon.is_alive)
            daemon.signal(signal.SIGSTOP if frozen else signal.SIGKILL)
            for _n in range(6):
                for statement in SWITCH.split("; "):
                    await place.conn.execute(statement.encode())
            await place.conn.execute("checkpoint")
            await until(place.conn, LOST, place.slot)
            if frozen:
                daemon.signal(signal.SIGCONT)
                assert await daemon.ended() == PERSON
        await ends_with(place, f'slot "{place.slot}" is invalidated')
        await goes_on(place, 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("promoted", [False, True], ids=["restored", "promoted"])
async def test_a_restored_backup_begins_with_a_gap(
    tmp_path: Path,
    which: str,
    promoted: bool,  # noqa: FBT001
) -> None:
    """A base backup has no slots, and the checkpoint of its time; what came later never was."""
    async with own_server(tmp_path, which) as (server, place):
        await make_ready(place)
        with running(Daemon(place)) as daemon:
            await write(place, 1, 2)
            await until(place.conn, ENDED, 2, alive=daemon.is_alive)
        await write(place, 3)  # in the backup, and not in its checkpoint
        await base_backup(server, tmp_path / "restored", standby=promoted)
        await write(place, 4)
        await server.stop()
        restored = OwnServer(tmp_path, which, name="restored")
        await restored.start()
        try:
            async with await connect_again(restored.dsn) as conn:
                if promoted:
                    await conn.execute("select pg_promote()")
                there = Place(conn, restored.dsn, place.slot, tmp_path)
                await ends_with(there, f'slot "{place.slot}" does not exist')
                ((told,),) = await fetch(conn, "select reason like '%%timeline%%' from agent.gap")
                assert told == promoted
                resync = ("wal", "resync", "--attachment", "item=all", "--yes")
                (await types(there, *resync)).worked()
                with running(Daemon(there, name="-again")) as daemon:
                    await write(there, 5)
                    done = "select exists (select from agent.backfill where state = 'done')"
                    await until(conn, done, alive=daemon.is_alive)
                    await until(conn, ENDED, 2 + 3 + 1, alive=daemon.is_alive)
                runs = "select reason, key from agent.run order by 1, 2"
                found = await fetch(conn, runs)
                assert [key for reason, key in found if reason == "backfill"] == ["1", "2", "3"]
                assert [key for reason, key in found if reason == "change"] == ["1", "2", "5"]
                assert (await types(there, "wal", "check")).worked().out == ""
        finally:
            await restored.stop()


@pytest.mark.slow
async def test_a_dump_that_is_restored_elsewhere_begins_with_a_gap(
    tmp_path: Path, which: str
) -> None:
    """Another server's WAL says nothing of this checkpoint's.

    Publications are mended, and attachments follow their tables: also with runs that waited.
    """
    async with own_server(tmp_path, which) as (server, place):
        await make_ready(place)
        with running(Daemon(place)) as daemon:
            await write(place, 1)
            await until(place.conn, ENDED, 1, alive=daemon.is_alive)
            await place.conn.execute("select agent.pause('item')")
            await write(place, 2)
            taken = "select count(*) = 2 from agent.run"
            await until(place.conn, taken, alive=daemon.is_alive)
        other = OwnServer(tmp_path, which, name="other")  # with a system identifier of its own
        await other.start()
        try:
            await asyncio.to_thread(_copy_by_dump, server, place.dsn, other.dsn)
            async with await AsyncConnection.connect(other.dsn, autocommit=True) as conn:
                there = Place(conn, other.dsn, place.slot, tmp_path)
                # Positions of the one server mean nothing on the other.
                await conn.execute("update agent.checkpoint set end_lsn = '0/1'")
                with running(Daemon(there, name="-copy")) as daemon:
                    assert await daemon.ended() == PERSON
                    assert "system identifier" in daemon.said
                    assert "adopt --moved" in daemon.said
                (await types(there, "database", "adopt", "--moved")).worked()
                await ends_with(there, "system identifier")
                await goes_on(there, 3, 4)
                await conn.execute("select agent.resume('item')")
                with running(Daemon(there, name="-last")) as daemon:
                    await until(conn, ENDED, 4, alive=daemon.is_alive)
                states = "select state, count(*) from agent.run group by 1"
                assert await fetch(conn, states) == [("succeeded", 4)]
        finally:
            await other.stop()


def _copy_by_dump(server: OwnServer, source: str, target: str) -> None:
    """Copy the roles, of which the target has one, then the database."""
    load = [str(server.bindir / "psql"), "-q", "--dbname", target]
    for dump, strict in (
        (["pg_dumpall", "--roles-only"], []),
        (["pg_dump"], ["-v", "ON_ERROR_STOP=1"]),
    ):
        command = [str(server.bindir / dump[0]), *dump[1:], "--dbname", source]
        dumped = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
        done = subprocess.run(
            [*load, *strict], input=dumped, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
