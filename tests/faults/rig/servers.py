"""PostgreSQL servers of the test's own, which it may stop, crash, kill and promote."""

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ObjectInUse

from tests.faults.rig.stage import Place
from tests.faults.rig.waiting import DEADLINE, until, until_true
from tests.servers import SETTINGS, debian_bindir
from walagent.embedded.cluster import server_version
from walagent.embedded.identity import find_identity
from walagent.embedded.paths import default_bindir
from walagent.embedded.postmaster import PORT, read_postmaster
from walagent.embedded.server import EmbeddedServer
from walagent.embedded.sockets import socket_dir
from walagent.store.install.migrate import migrate
from walagent.wal.connection import connect_replication

STANDBY = "standby"  # the physical slot, and the standby's application_name
SYNCED = 170000  # since this version logical slots can be synchronised to a standby

_FLUSHED = """
select flush_lsn >= %s::pg_lsn from pg_stat_replication where application_name = 'standby'
"""
_END_STANDBY = """
select pg_terminate_backend(active_pid) from pg_replication_slots
 where slot_name = 'standby' and active
"""
_CAN_TAKE_OVER = """
select synced and not temporary and invalidation_reason is null
  from pg_replication_slots where slot_name = %s
"""


def bindir_of(which: str) -> Path:
    """Where the binaries of a server are.

    Args:
        which: as the option --server has it; a connection string stands for the embedded one.
    """
    return debian_bindir() if which == "debian" else default_bindir()


def version_of(which: str) -> int:
    """The major version of a server's binaries, as in server_version_num."""
    return server_version(bindir_of(which), find_identity()) * 10000


class OwnServer:
    """A server in a folder; its connection string stays the same over restarts."""

    def __init__(
        self,
        folder: Path,
        which: str,
        *,
        name: str = "pg",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            which: as for `bindir_of`.
            settings: on its command line, where ALTER SYSTEM does not reach.
        """
        self.folder = folder / name
        self.bindir = bindir_of(which)
        self._server = EmbeddedServer(
            self.folder, self.bindir, settings={**SETTINGS, **(settings or {})}
        )

    @property
    def dsn(self) -> str:
        """How its database is reached, while it runs."""
        return self._server.dsn()

    @property
    def socket(self) -> Path:
        """Where its socket is, also while it is down."""
        return Path(socket_dir(self.folder, find_identity())) / f".s.PGSQL.{PORT}"

    async def start(self) -> None:
        """Start it."""
        await self._server.start()

    async def stop(self) -> float:
        """Shut it down as `pg_ctl stop -m fast` does; return the seconds that it took."""
        started = time.monotonic()
        await self._server.stop()
        return time.monotonic() - started

    async def crash(self) -> None:
        """Stop it as `pg_ctl stop -m immediate` does: no checkpoint, recovery at the next start."""
        os.kill(self._pid, signal.SIGQUIT)
        await asyncio.to_thread(self._wait)
        await self._server.stop()

    async def kill(self) -> None:
        """End postmaster and backends as `kill -9` does: nobody says goodbye."""
        os.kill(self._pid, signal.SIGSTOP)  # so that it starts no more
        pids = [self._pid, *children_of(self._pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        async def gone() -> bool:
            return not any(is_running(pid) for pid in pids)

        await until_true(gone, "all processes of the server are gone")
        await self._server.stop()

    @property
    def _pid(self) -> int:
        found = read_postmaster(self.folder)
        assert found is not None
        return found.pid

    def _wait(self) -> None:
        """Wait until the postmaster's record is gone, which it removes last."""
        deadline = time.monotonic() + 20
        while read_postmaster(self.folder) is not None:
            assert time.monotonic() < deadline, "the server does not stop"
            time.sleep(0.01)


def children_of(pid: int) -> Iterator[int]:
    """The processes that *pid* has started and that still run."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                yield int(path.parent.name)


def is_running(pid: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@asynccontextmanager
async def own_server(
    folder: Path, which: str, *, settings: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[OwnServer, Place]]:
    """Run a server with one migrated database for the time of the block."""
    server = OwnServer(folder, which, settings=settings)
    template = await asyncio.to_thread(_template, which)
    await asyncio.to_thread(_run, "cp", "-a", str(template), str(server.folder))
    await server.start()
    try:
        async with await AsyncConnection.connect(server.dsn, autocommit=True) as conn:
            yield server, Place(conn, server.dsn, "walagent", folder)
    finally:
        await server.stop()


@cache
def _template(which: str) -> Path:
    """A data directory with a migrated database, made once a session: it takes seconds."""
    folder = Path(tempfile.mkdtemp(prefix="walagent-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = OwnServer(folder, which)

    async def made() -> None:
        await server.start()
        try:
            async with await AsyncConnection.connect(server.dsn, autocommit=True) as conn:
                await migrate(conn)
        finally:
            await server.stop()

    asyncio.run(made())
    return server.folder


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary and its physical standby; from 17 on the standby synchronises failover slots."""

    primary: OwnServer
    standby: OwnServer
    dsn: str  # of whichever of the two can be written to

    async def wait_for_standby(self, conn: AsyncConnection) -> None:
        """Wait until the standby has all WAL that the primary has now."""
        row = await (await conn.execute("select pg_current_wal_flush_lsn()::text")).fetchone()
        assert row is not None
        await until(conn, _FLUSHED, row[0])

    async def is_synchronised(
        self, conn: AsyncConnection, slot: str, *, hurry: bool = True
    ) -> float:
        """Wait until *slot* would survive a promotion; return the seconds that it took.

        Args:
            conn: to the primary.  A reader must be at work: its progress is what makes the standby
                keep the slot.
            hurry: spare the standby the wait for the primary's background writer, which does four
                times a minute what it needs.
        """
        async with await AsyncConnection.connect(self.standby.dsn, autocommit=True) as standby:

            async def is_kept() -> bool:
                if hurry:
                    await conn.execute("select pg_log_standby_snapshot()")
                found = await (await standby.execute(_CAN_TAKE_OVER, [slot])).fetchone()
                return bool(found and found[0])

            return await until_true(is_kept, f"the standby keeps {slot}")

    @asynccontextmanager
    async def cut_off(self, conn: AsyncConnection) -> AsyncIterator[None]:
        """Let no more WAL come to the standby until the block ends; all else goes on.

        Its place at the primary is taken by somebody who reads nothing.

        Args:
            conn: to the primary.
        """
        await self.wait_for_standby(conn)
        # From here: older WAL can be gone, and the place would be free again.
        row = await (await conn.execute("select pg_current_wal_flush_lsn()::text")).fetchone()
        assert row is not None
        start = f"START_REPLICATION SLOT standby PHYSICAL {row[0]}".encode()
        thief = await connect_replication(self.primary.dsn, sender_timeout=0)
        try:

            async def taken() -> bool:
                await conn.execute(_END_STANDBY)
                with suppress(ObjectInUse):
                    await thief.execute(start)
                    return True
                return False

            await until_true(taken, "the standby's place is taken")
            yield
        finally:
            await thief.close()

    async def promote(self) -> float:
        """Make the standby the primary; return the seconds that it took."""
        async with await AsyncConnection.connect(self.standby.dsn, autocommit=True) as conn:
            await conn.execute("select pg_promote()")
            return await until(conn, "select not pg_is_in_recovery()")


@asynccontextmanager
async def primary_and_standby(folder: Path, which: str) -> AsyncIterator[tuple[Pair, Place]]:
    """Run two servers, one following the other, with one migrated database."""
    async with own_server(folder, which) as (primary, place):
        follower = OwnServer(folder, which, name="standby", settings=_following(primary, which))
        async with _paired(primary, follower) as pair:
            yield pair, Place(place.conn, pair.dsn, place.slot, folder)


@asynccontextmanager
async def exchanged(pair: Pair, folder: Path, which: str) -> AsyncIterator[Pair]:
    """Let the dead primary's place be taken by a new standby of the promoted one."""
    await asyncio.to_thread(shutil.rmtree, pair.primary.folder)
    name, settings = pair.primary.folder.name, _following(pair.standby, which)
    async with _paired(pair.standby, OwnServer(folder, which, name=name, settings=settings)) as new:
        yield new


@asynccontextmanager
async def _paired(primary: OwnServer, follower: OwnServer) -> AsyncIterator[Pair]:
    async with await AsyncConnection.connect(primary.dsn, autocommit=True) as conn:
        await conn.execute("select pg_create_physical_replication_slot(%s, true)", [STANDBY])
        await base_backup(primary, follower.folder, standby=True)
        await follower.start()
        try:
            pair = Pair(primary, follower, _either(primary.dsn, follower.dsn))
            await pair.wait_for_standby(conn)
            yield pair
        finally:
            await follower.stop()


async def base_backup(primary: OwnServer, folder: Path, *, standby: bool) -> None:
    """Copy a running server into *folder*, without its slots.

    Args:
        standby: whether the copy follows, or waits to be promoted, when it is started.
    """
    await asyncio.to_thread(_copy, primary, folder)
    if standby:
        (folder / "standby.signal").touch()
        find_identity().chown(folder / "standby.signal")


def _copy(primary: OwnServer, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    find_identity().chown(folder)
    command = [str(primary.bindir / "pg_basebackup"), "-D", str(folder), "-d", primary.dsn]
    _run(*find_identity().command(*command, "-c", "fast", "-X", "stream", "--no-sync"))
    for path in folder.glob(".s.PGSQL.*"):  # the primary's socket lives in its data directory
        path.unlink()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)


def _following(primary: OwnServer, which: str) -> dict[str, str]:
    """The settings of a standby."""
    settings = {
        "primary_conninfo": make_conninfo(primary.dsn, application_name=STANDBY),
        "primary_slot_name": STANDBY,
        "hot_standby_feedback": "on",
    }
    return settings | ({"sync_replication_slots": "on"} if version_of(which) >= SYNCED else {})


def _either(*dsns: str) -> str:
    """A connection string with several hosts, of which the primary is meant."""
    parts = [conninfo_to_dict(dsn) for dsn in dsns]
    hosts, ports = (",".join(str(part[key]) for part in parts) for key in ("host", "port"))
    return make_conninfo(
        dsns[0], host=hosts, port=ports, target_session_attrs="read-write", connect_timeout=5
    )
