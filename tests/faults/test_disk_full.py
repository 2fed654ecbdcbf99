"""No room on a disk: the server's tables, its WAL, the daemon's log, its temporary files."""

import asyncio
import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import psycopg
import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.health import is_ready, is_unready
from tests.faults.rig.processes import Daemon, Settings, free_port, running
from tests.faults.rig.servers import own_server
from tests.faults.rig.stage import ATTACH, Figure, Place, make_ready, set_up
from tests.faults.rig.waiting import connect_again, fetch, until
from walagent.embedded.identity import find_identity

MB = 1 << 20
DISK_FULL = "53100"
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"
# What is confirmed is in the checkpoint, and the checkpoint's own commit is safe.
DURABLE = """
select s.confirmed_flush_lsn <= p.end_lsn
  from agent.checkpoint p join pg_replication_slots s on s.slot_name = p.slot
"""


@contextmanager
def small_disk(path: Path, size: int) -> Iterator[Path]:
    """A file system of its own with *size* bytes, in memory."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        # Lazily: whoever still writes there keeps what it has open, and nothing else.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def grow(disk: Path, size: int) -> None:
    """Make a disk larger."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


class Ballast:
    """A file that takes the room of a disk."""

    def __init__(self, disk: Path) -> None:
        self._path = disk / "ballast"

    def fill(self) -> None:
        """Leave nothing."""
        with self._path.open("ab", buffering=0) as file, suppress(OSError):
            for piece in (MB, 4096, 1):
                with suppress(OSError):
                    while file.write(bytes(piece)) == piece:
                        pass

    def remove(self) -> None:
        """Make room."""
        self._path.unlink()


MOVE = """
do $$
declare
    _one record;
begin
    for _one in select oid::regclass as name, relkind from pg_class
                 where relnamespace = 'agent'::regnamespace and relkind in ('r', 'i')
    loop
        execute format('alter %s %s set tablespace small',
                       case _one.relkind when 'r' then 'table' else 'index' end, _one.name);
    end loop;
end $$
"""


@pytest.mark.scenario(8)
@pytest.mark.parametrize("crash", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_tables_that_cannot_grow_are_waited_for(
    tmp_path: Path, request: pytest.FixtureRequest, figure: Figure, *, crash: bool
) -> None:
    """Nothing is confirmed that is not written; log and /readyz say why; nothing is lost of it."""
    port = free_port()
    which = str(request.config.getoption("--server"))
    with small_disk(tmp_path / "small", 64 * MB) as disk:
        (disk / "tables").mkdir()
        find_identity().chown(disk / "tables")
        async with own_server(tmp_path, which) as (server, place):
            await set_up(place)
            await place.conn.execute(f"create tablespace small location '{disk}/tables'".encode())
            await place.conn.execute(MOVE)
            settings = {"http": {"enabled": True, "port": port}}
            with running(Daemon(place, settings=settings)) as daemon:
                await daemon.has_said("reader.streaming")
                await place.conn.execute(ATTACH.encode())
                await daemon.has_said("attachment.activated")
                await write(place, range(1, 21))
                await until(place.conn, ENDED, 20, alive=daemon.is_alive)
                ballast = Ballast(disk)
                ballast.fill()
                await write(place, range(21, 171))
                await is_unready(port, DISK_FULL)
                waiting = [e["error"] for e in daemon.events if e["event"] == "reader.waiting"]
                assert any(DISK_FULL in error for error in waiting), waiting
                assert await fetch(place.conn, DURABLE) == [(True,)]
                if crash:
                    await server.crash()
                    await server.start()
                ballast.remove()
                figure("ready again after room was made", await is_ready(port), "s")
                async with await connect_again(place.dsn) as conn:
                    await until(conn, ALL_ENDED, alive=daemon.is_alive)
                    await all_is_well(conn)


FEW_ATTEMPTS = ATTACH.replace("max_attempts=50", "max_attempts=2")
MET = """
select count(*) > 0 from agent.run
 where error ->> 'sqlstate' = '53100' and state = 'waiting_retry' and lease > 2
"""


@pytest.mark.slow
@pytest.mark.scenario(8)
async def test_a_tool_whose_table_cannot_grow_uses_up_no_attempt(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """That there is no room is no failure of the run, however long it lasts."""
    which = str(request.config.getoption("--server"))
    with small_disk(tmp_path / "small", 8 * MB) as disk:
        (disk / "tables").mkdir()
        find_identity().chown(disk / "tables")
        async with own_server(tmp_path, which) as (_, place):
            await set_up(place)
            await place.conn.execute(f"create tablespace small location '{disk}/tables'".encode())
            await place.conn.execute("alter table effect set tablespace small")
            with running(Daemon(place)) as daemon:
                await daemon.has_said("reader.streaming")
                await place.conn.execute(FEW_ATTEMPTS.encode())
                await daemon.has_said("attachment.activated")
                ballast = Ballast(disk)
                ballast.fill()
                await write(place, range(1, 4))
                await until(place.conn, MET, alive=daemon.is_alive)
                ballast.remove()
                await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
                await all_is_well(place.conn)


MORE_WAL = "select pg_logical_emit_message(false, 'filler', repeat('x', 1000000))"


@pytest.mark.slow
@pytest.mark.scenario(8)
async def test_a_server_that_goes_down_for_want_of_room_costs_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, figure: Figure
) -> None:
    """Where the WAL cannot grow, PostgreSQL ends all at once; it is started when there is room."""
    port = free_port()
    which = str(request.config.getoption("--server"))
    with small_disk(tmp_path / "small", 320 * MB) as disk:
        async with own_server(disk, which) as (server, there):
            place = replace(there, folder=tmp_path)  # of the daemon, whose log has room
            await set_up(place)
            settings = {"http": {"enabled": True, "port": port}}
            with running(Daemon(place, settings=settings)) as daemon:
                await daemon.has_said("reader.streaming")
                await place.conn.execute(ATTACH.encode())
                await daemon.has_said("attachment.activated")
                await write(place, range(1, 51))
                ballast = Ballast(disk)
                ballast.fill()
                while not place.conn.closed:
                    with suppress(psycopg.OperationalError):  # DiskFull, or the end
                        await place.conn.execute(MORE_WAL)
                await is_unready(port, "")
                ballast.remove()
                await server.start()
                figure("ready again after the server had room", await is_ready(port), "s")
                async with await connect_again(place.dsn) as conn:
                    await write(replace(place, conn=conn), range(1000, 1011))
                    await until(conn, ALL_ENDED, alive=daemon.is_alive)
                    await all_is_well(conn)


async def write(place: Place, numbers: range) -> None:
    """Insert rows, each in a transaction of its own."""
    for number in numbers:
        await place.conn.execute(WRITE, [number])


LOST = "walagent_log_lines_lost_total"


async def lines_lost(port: int) -> float:
    """How many lines of its log the daemon could not write, as /metrics tells it."""

    def ask() -> str:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            return answer.read().decode()

    text = await asyncio.to_thread(ask)
    (line,) = (line for line in text.splitlines() if line.startswith(LOST))
    return float(line.split()[1])


@pytest.mark.slow
@pytest.mark.scenario(8)
async def test_a_log_without_room_costs_lines_and_nothing_else(place: Place) -> None:
    """The work goes on, and afterwards the log says how many lines are missing."""
    port = free_port()
    settings = {"http": {"enabled": True, "port": port}}
    with small_disk(place.folder / "small", MB) as disk:
        await set_up(place)
        with running(Daemon(replace(place, folder=disk), settings=settings)) as daemon:
            await daemon.has_said("reader.streaming")
            await place.conn.execute(ATTACH.encode())
            await daemon.has_said("attachment.activated")
            ballast = Ballast(disk)
            ballast.fill()
            await write(place, range(1, 51))
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
            lost = await lines_lost(port)
            assert lost >= 20  # the last page may have room for some
            ballast.remove()
            await write(place, range(51, 52))
            await daemon.has_said("log.lines_lost")
            assert [e["lines"] for e in daemon.events if e["event"] == "log.lines_lost"] == [lost]
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
            await all_is_well(place.conn)


class Unread(Daemon):
    """A daemon whose stderr is a pipe, or whatever else has this descriptor."""

    def __init__(self, place: Place, stderr: int, settings: Settings | None = None) -> None:
        self._stderr = stderr
        super().__init__(place, settings=settings)

    def _start(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            cwd=self.path.parent,
            env=environment,
        )


@pytest.mark.slow
@pytest.mark.scenario(8)
async def test_a_log_that_nobody_reads_holds_nothing_up(place: Place) -> None:
    """A pipe whose reader has stopped, and then one whose reader is gone."""
    port = free_port()
    settings = {"http": {"enabled": True, "port": port}}
    await make_ready(place)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)  # room for some twenty lines
    with running(Unread(place, writing, settings)) as daemon:
        os.close(writing)
        await write(place, range(1, 101))
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        before = await lines_lost(port)
        assert before >= 50
        os.close(reading)
        await write(place, range(101, 111))
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        assert await lines_lost(port) >= before + 10
        await all_is_well(place.conn)


@pytest.mark.scenario(8)
async def test_a_daemon_that_cannot_say_why_it_ends_still_ends_with_its_code(place: Place) -> None:
    """A person must act: 3, also where the words find no room."""
    await make_ready(place)
    await place.conn.execute("select pg_drop_replication_slot(%s)", [place.slot])
    full = os.open("/dev/full", os.O_WRONLY)
    with running(Unread(place, full)) as daemon:
        os.close(full)
        assert await daemon.ended() == 3


@pytest.mark.slow
@pytest.mark.scenario(8, 9)
async def test_temporary_files_without_room_are_waited_for(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Where protocol 2 puts open transactions aside; the log names the folder."""
    which = str(request.config.getoption("--server"))
    with small_disk(tmp_path / "small", 2 * MB) as disk:
        async with own_server(tmp_path, which) as (_, place):
            await set_up(place)
            await place.conn.execute("alter system set logical_decoding_work_mem = '64kB'")
            await place.conn.execute("select pg_reload_conf()")
            settings = {"replication": {"protocol": 2}}
            variables = {"TMPDIR": str(disk)}
            with running(Daemon(place, settings=settings, environment=variables)) as daemon:
                await daemon.has_said("reader.streaming")
                await place.conn.execute(ATTACH_FEW.encode())
                await daemon.has_said("attachment.activated")
                await place.conn.execute(LARGE)
                await daemon.has_said("reader.waiting")
                (error, *_) = (e["error"] for e in daemon.events if e["event"] == "reader.waiting")
                assert str(disk) in error, error
                grow(disk, 16 * MB)
                await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
                await all_is_well(place.conn)


ATTACH_FEW = """
select agent.attach('item', 'model=script, tools=[note_change, note_in_python], writes=[status],
    on=[insert], when="new.id <= 10", bind=[item=id, version=version], max_attempts=50');
"""
LARGE = """
with new as (
    insert into item
    select n, 1, repeat(md5(n::text), 100), case when n <= 10 then 'new' else 'seen' end
      from generate_series(1, 1000) n
    returning id, version
)
insert into written (item, version) select id, version from new where id <= 10
"""
