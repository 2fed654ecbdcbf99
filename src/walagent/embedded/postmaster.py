"""Read what a data directory records about the server that runs on it."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import make_conninfo

# On the server's command line, and so in postmaster.opts: walagent started this server.
MARK = "cluster_name=walagent"
PORT = 5432  # only part of the socket's file name: the server does not listen on TCP
SUPERUSER = "postgres"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The contents of postmaster.pid.

    Source: PostgreSQL's src/include/utils/pidfile.h; one field a line.
    """

    pid: int
    data_dir: Path
    port: int
    socket_dir: Path
    status: str  # starting, ready, standby, stopping

    @property
    def alive(self) -> bool:
        """Return whether this server runs; after a crash, its PID can be another process's."""
        try:
            os.kill(self.pid, 0)
            # A server works in its data directory.  Without /proc, check the PID.
            at = Path(f"/proc/{self.pid}/cwd")
            return not Path("/proc/self").exists() or at.samefile(self.data_dir)
        except OSError:  # no such process, or another user's: not walagent's server
            return False

    @property
    def answers(self) -> bool:
        """Return whether the server is ready and its socket accepts a connection."""
        if self.status != "ready" or not self.alive:
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self.socket_dir / f".s.PGSQL.{self.port}"))
            except OSError:
                return False
        return True

    def dsn(self, dbname: str) -> str:
        """Return the connection string for *dbname* as the superuser."""
        return make_conninfo(
            host=str(self.socket_dir), port=self.port, user=SUPERUSER, dbname=dbname
        )


def read_postmaster(data_dir: Path) -> Postmaster | None:
    """Parse `postmaster.pid`; None if it does not exist or is incomplete."""
    try:
        lines = (data_dir / "postmaster.pid").read_text().splitlines()
        status = lines[7].strip()
        return Postmaster(int(lines[0]), data_dir, int(lines[3]), Path(lines[4]), status)
    except (OSError, IndexError, ValueError):
        return None


def is_ours(data_dir: Path) -> bool:
    """Return whether walagent started the last server on *data_dir*."""
    try:
        return MARK in (data_dir / "postmaster.opts").read_text()
    except OSError:
        return False


def find_running(data_dir: Path, dbname: str = "postgres") -> str | None:
    """Return the connection string of the server that runs on *data_dir*, or None.

    Any process can call this, not only the one that started the server.
    """
    postmaster = read_postmaster(data_dir)
    return postmaster.dsn(dbname) if postmaster and postmaster.answers else None
