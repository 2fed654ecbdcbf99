"""A private PostgreSQL to measure on, with the settings of a production server."""

import asyncio
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from walagent.embedded.paths import default_bindir
from walagent.embedded.server import EmbeddedServer

# Durable as in production (fsync, synchronous_commit and full_page_writes keep their default, on).
# Room enough that no checkpoint is forced by size in the middle of a measurement.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",  # Debezium's JDBC driver knows no Unix sockets
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
    "max_slot_wal_keep_size": "16GB",
    "checkpoint_timeout": "30min",
    "max_connections": "200",
    # For rows that count.  It counts nothing in databases that do not say so.
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "none",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A fresh database of one measurement, and how to reach it and its server."""

    url: str  # by Unix socket; understood by libpq, asyncpg and SQLAlchemy
    tcp_url: str
    postmaster: int  # pid, for the server's CPU time
    bindir: Path


@dataclass(frozen=True, slots=True)
class Server:
    """The running server."""

    socket_dir: str
    port: int
    password: str
    postmaster: int
    bindir: Path
    version: str

    def url(self, dbname: str) -> str:
        """How to reach *dbname* by Unix socket."""
        return f"postgresql://postgres@/{dbname}?host={quote(self.socket_dir, '')}&port={self.port}"

    @contextmanager
    def fresh_database(self, name: str) -> Iterator[Place]:
        """Make a database for one measurement and drop it afterwards, slots included."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as admin:
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
            admin.execute("checkpoint")  # the write load of the one before is not this one's
            tcp_url = f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{name}"
            try:
                yield Place(self.url(name), tcp_url, self.postmaster, self.bindir)
            finally:
                _drop_slots(admin, name)
                admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@contextmanager
def running_server(bindir: Path | None = None) -> Iterator[Server]:
    """Start a server on an empty directory, and remove both at the end.

    Args:
        bindir: of the server's binaries; default the newest that Debian's packages installed,
            else the embedded ones.
    """
    bindir = bindir or _installed_bindir()
    folder = Path(tempfile.mkdtemp(prefix="bench"))
    folder.chmod(0o711)  # the server may run as another user
    port = _free_port()
    server = EmbeddedServer(folder / "data", bindir, settings=_SETTINGS | {"port": str(port)})
    try:
        asyncio.run(server.start())
        yield _describe(server, port, bindir)
    finally:
        asyncio.run(server.stop())
        shutil.rmtree(folder, ignore_errors=True)


def _describe(server: EmbeddedServer, port: int, bindir: Path) -> Server:
    password = secrets.token_hex(16)
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute(sql.SQL("alter role postgres password {}").format(sql.Literal(password)))
        version = conn.info.parameter_status("server_version") or "unknown"
        pid_file = (server.data_dir / "postmaster.pid").read_text()
        return Server(
            conn.info.host, port, password, int(pid_file.split()[0]), bindir, version.split()[0]
        )


def _drop_slots(admin: psycopg.Connection, dbname: str) -> None:
    """Drop the slots that a measurement left behind: they pin their database and their WAL."""
    admin.execute(
        "select pg_terminate_backend(active_pid, 5000) from pg_replication_slots"
        " where database = %s and active",
        [dbname],
    )
    admin.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s",
        [dbname],
    )


def _installed_bindir() -> Path:
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    return max(found, key=lambda path: int(path.parent.name), default=None) or default_bindir()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
