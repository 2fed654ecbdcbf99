"""What a data directory says about the server that runs on it."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import make_conninfo

# On the server's command line, and so in postmaster.opts: this server was started by walagent.
MARK = "cluster_name=walagent"
PORT = 5432  # only part of the socket's file name: nothing listens on TCP
SUPERUSER = "postgres"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The server's own record.

    Source: PostgreSQL's src/include/utils/pidfile.h; the file has one fact a line.
    """

    pid: int
    data_dir: Path
    port: int
    socket_dir: Path
    status: str  # starting, ready, standby, stopping

    @property
    def alive(self) -> bool:
        """Whether this server runs; after a crash its pid may be some other process's."""
        try:
            os.kill(self.pid, 0)
            # A server works in its data directory.  Where there is no /proc, the pid must do.
            at = Path(f"/proc/{self.pid}/cwd")
            return not Path("/proc/self").exists() or at.samefile(self.data_dir)
        except OSError:  # no such process, or another user's: no server on a directory of ours
            return False

    @property
    def answers(self) -> bool:
        """Whether it is ready and its socket takes a connection."""
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
        """How to connect to *dbname* as the superuser."""
        return make_conninfo(
            host=str(self.socket_dir), port=self.port, user=SUPERUSER, dbname=dbname
        )


def read_postmaster(data_dir: Path) -> Postmaster | None:
    """Read `postmaster.pid`; None when it is not there or not complete yet."""
    try:
        lines = (data_dir / "postmaster.pid").read_text().splitlines()
        status = lines[7].strip()
        return Postmaster(int(lines[0]), data_dir, int(lines[3]), Path(lines[4]), status)
    except (OSError, IndexError, ValueError):
        return None


def is_ours(data_dir: Path) -> bool:
    """Whether the last server on *data_dir* was started by walagent."""
    try:
        return MARK in (data_dir / "postmaster.opts").read_text()
    except OSError:
        return False


def find_running(data_dir: Path, dbname: str = "postgres") -> str | None:
    """The connection string of the server that runs on *data_dir*, or None.

    Any process may ask, also one that did not start the server.
    """
    postmaster = read_postmaster(data_dir)
    return postmaster.dsn(dbname) if postmaster and postmaster.answers else None
