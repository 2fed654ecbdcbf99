"""The embedded server's life: started, joined, orphaned, found again."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from walagent.embedded.identity import Identity, nobody_identity
from walagent.embedded.postmaster import find_running, read_postmaster
from walagent.embedded.server import EmbeddedServer
from walagent.errors import PreconditionError

_OWNER = """
import asyncio, sys
from pathlib import Path
from walagent.embedded.identity import Identity
from walagent.embedded.server import EmbeddedServer
identity = Identity(sys.argv[2]) if sys.argv[2] else None
server = EmbeddedServer(Path(sys.argv[1]), identity=identity)
asyncio.run(server.start())
print(server.dsn(), flush=True)
sys.stdin.read()
"""

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder that other users may enter, unlike pytest's own."""
    with TemporaryDirectory(prefix="wa-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
async def running(folder: Path) -> AsyncIterator[EmbeddedServer]:
    """A started server, stopped at the end."""
    server = EmbeddedServer(folder / "pg", settings={"fsync": "off"})
    await server.start()
    yield server
    await server.stop()


@contextmanager
def owner_process(data_dir: Path, mode: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that owns a server, and the server's DSN."""
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(data_dir), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def owner_of(path: Path) -> int:
    """The uid that a file or a process belongs to."""
    return path.stat().st_uid


def wait_until(true: Callable[[], bool]) -> None:
    """Poll for what no signal announces, for at most ten seconds."""
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
async def test_the_server_is_ready_for_the_wal_and_deaf_to_the_network(
    running: EmbeddedServer,
) -> None:
    """Logical WAL with a cap, a locale that is the same everywhere, and no TCP."""
    async with await psycopg.AsyncConnection.connect(running.dsn()) as conn:
        cursor = await conn.execute(
            "select current_setting('wal_level'), current_setting('max_slot_wal_keep_size'),"
            " current_setting('listen_addresses'), current_setting('fsync'),"
            " (select datlocale from pg_database where datname = 'postgres')"
        )
        assert await cursor.fetchone() == ("logical", "1GB", "", "off", "C.UTF-8")


@pytest.mark.slow
async def test_a_second_server_joins_the_first_and_leaves_it_running(
    running: EmbeddedServer,
) -> None:
    """Two programs on one data directory share one server, which its owner stops."""
    second = EmbeddedServer(running.data_dir)
    await second.start()
    assert (running.owned, second.owned) == (True, False)
    assert second.dsn() == running.dsn()
    await second.stop()
    assert find_running(running.data_dir) == running.dsn()


@pytest.mark.slow
async def test_two_that_start_at_once_share_one_server(folder: Path) -> None:
    """Whoever loses the race for an empty directory joins the winner."""
    with owner_process(folder / "pg") as (_, theirs):
        ours = EmbeddedServer(folder / "pg")
        await ours.start()
        assert ours.dsn() == theirs
        assert not ours.owned
        await ours.stop()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "mode", ["", pytest.param("nobody", marks=root_only)], ids=["usual", "nobody"]
)
async def test_a_killed_owner_takes_its_server_along_and_the_rows_stay(
    folder: Path, mode: str
) -> None:
    """After SIGKILL no server is left to lock the directory, and no commit is lost."""
    data_dir = folder / "pg"
    identity = nobody_identity() if mode else None
    with owner_process(data_dir, identity.mode if identity else "") as (process, dsn):
        with psycopg.connect(dsn) as conn:
            conn.execute("create table kept as select 1 as n")
        postmaster = read_postmaster(data_dir)
        assert postmaster is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_until(lambda: not postmaster.alive)

    next_owner = EmbeddedServer(data_dir, identity=identity)
    await next_owner.start()
    assert next_owner.owned
    with psycopg.connect(next_owner.dsn()) as conn:
        assert conn.execute("select n from kept").fetchall() == [(1,)]
    await next_owner.stop()


@pytest.mark.slow
async def test_a_server_whose_owner_has_just_died_is_replaced_and_not_joined(folder: Path) -> None:
    """A restarted daemon may come before the old server is gone: it must not lean on it."""
    data_dir = folder / "pg"
    with owner_process(data_dir) as (process, dsn):
        before = read_postmaster(data_dir)
        psycopg.connect(dsn).close()
        process.send_signal(signal.SIGKILL)
        process.wait()
        next_owner = EmbeddedServer(data_dir)
        await next_owner.start()
    after = read_postmaster(data_dir)
    assert before is not None
    assert after is not None
    assert next_owner.owned
    assert after.pid != before.pid
    await next_owner.stop()


@pytest.mark.slow
async def test_a_crashed_server_recovers_at_the_next_start(running: EmbeddedServer) -> None:
    """What was committed before SIGKILL is there after it; the stale pid file misleads nobody."""
    with psycopg.connect(running.dsn()) as conn:
        conn.execute("create table kept as select 1 as n")
    before = read_postmaster(running.data_dir)
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)
    wait_until(lambda: not before.alive)
    assert find_running(running.data_dir) is None

    await running.start()
    with psycopg.connect(running.dsn()) as conn:
        assert conn.execute("select n from kept").fetchall() == [(1,)]


@pytest.mark.slow
async def test_a_killed_server_that_is_not_reaped_yet_is_started_again(
    running: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process seems to run for a moment after its sockets are closed."""
    process = running._process  # noqa: SLF001
    assert process is not None
    process.kill()
    process.wait()
    late, real = iter([None, None, None]), process.poll
    monkeypatch.setattr(process, "poll", lambda: next(late, real()))
    await running.start()
    psycopg.connect(running.dsn()).close()


@pytest.mark.slow
async def test_the_databases_stay_when_the_server_stops(running: EmbeddedServer) -> None:
    """Stopped and started again, it is the same cluster; in between there is no DSN."""
    with psycopg.connect(running.dsn(), autocommit=True) as conn:
        conn.execute("create database kept")
    await running.stop()
    with pytest.raises(PreconditionError):
        running.dsn()
    await running.start()
    psycopg.connect(running.dsn("kept")).close()


@pytest.mark.slow
async def test_a_deep_data_directory_works(folder: Path) -> None:
    """The path of the data may be longer than a socket's path."""
    server = EmbeddedServer(folder / ("deep" * 30) / "pg", settings={"fsync": "off"})
    await server.start()
    psycopg.connect(server.dsn()).close()
    await server.stop()


@pytest.mark.slow
async def test_a_directory_of_another_version_is_refused(running: EmbeddedServer) -> None:
    """The server is never started on files it cannot read."""
    await running.stop()
    (running.data_dir / "PG_VERSION").write_text("14\n")
    with pytest.raises(PreconditionError, match="PostgreSQL 14"):
        await running.start()


async def test_a_foreign_directory_is_left_alone(folder: Path) -> None:
    """A folder with something else in it is not made into a cluster."""
    (folder / "pg").mkdir()
    (folder / "pg" / "letter.txt").write_text("dear all")
    with pytest.raises(PreconditionError, match="not a PostgreSQL data directory"):
        await EmbeddedServer(folder / "pg").start()


@pytest.mark.slow
async def test_a_setting_that_stops_the_server_is_reported_at_once(folder: Path) -> None:
    """The error names the log, where PostgreSQL says why."""
    server = EmbeddedServer(folder / "pg", settings={"fsync": "off", "shared_buffers": "no"})
    with pytest.raises(PreconditionError) as caught:
        await server.start()
    assert str(folder / "pg.log") in caught.value.hint
    assert not server.owned


@pytest.mark.slow
@root_only
async def test_root_without_namespaces_runs_the_server_as_nobody(folder: Path) -> None:
    """Docker forbids user namespaces: then the server is another user's process."""
    server = EmbeddedServer(folder / "pg", settings={"fsync": "off"}, identity=nobody_identity())
    await server.start()
    postmaster = read_postmaster(server.data_dir)
    assert postmaster is not None
    assert owner_of(Path(f"/proc/{postmaster.pid}")) == owner_of(server.data_dir) != 0
    psycopg.connect(server.dsn()).close()
    await server.stop()


@root_only
def test_nobody_cannot_work_under_a_closed_home(folder: Path) -> None:
    """A 0700 folder above the data stops another user: the hint says so."""
    folder.chmod(0o700)
    with pytest.raises(PreconditionError) as caught:
        asyncio.run(EmbeddedServer(folder / "pg", identity=nobody_identity()).start())
    assert "every parent folder" in caught.value.hint


@pytest.mark.slow
@root_only
async def test_a_pid_that_somebody_else_has_now_does_not_stop_the_start(folder: Path) -> None:
    """In a container pids repeat: a crashed server's file may name a process of today."""
    server = EmbeddedServer(folder / "pg", settings={"fsync": "off"}, identity=nobody_identity())
    await server.start()
    record = (server.data_dir / "postmaster.pid").read_text().splitlines()
    await server.stop()

    command = nobody_identity().command("/bin/sleep", "60")
    bystander = await asyncio.create_subprocess_exec(*command)
    try:
        wait_until(lambda: owner_of(Path(f"/proc/{bystander.pid}")) == owner_of(server.data_dir))
        stale = server.data_dir / "postmaster.pid"
        stale.write_text("\n".join([str(bystander.pid), *record[1:], ""]))
        nobody_identity().chown(stale)
        await server.start()
        assert bystander.returncode is None
        assert server.owned
    finally:
        await server.stop()
        bystander.kill()
        await bystander.wait()


def test_an_ordinary_user_needs_no_other_identity() -> None:
    """Without root there is nothing to give away."""
    assert Identity().owner is None
    assert Identity("65534:7").owner == (65534, 7)
