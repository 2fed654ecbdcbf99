"""One embedded PostgreSQL: started by whoever comes first, joined by whoever comes later.

The owner holds a lock file for as long as it lives.  The server dies with its owner, also when
that is killed; what was committed stays, and the next owner starts it again.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from walagent.embedded.cluster import prepare
from walagent.embedded.identity import Identity, our_identity
from walagent.embedded.ownership import log_path, open_log, try_lock
from walagent.embedded.paths import default_bindir, default_data_dir
from walagent.embedded.postmaster import MARK, PORT, Postmaster, is_ours, read_postmaster
from walagent.embedded.sockets import forget_socket_dir, socket_dir
from walagent.errors import PreconditionError

# The kernel signals the server when the *thread* that started it ends.  This one ends with the
# interpreter.  One thread for all servers: starting and stopping are rare.
_launcher = ThreadPoolExecutor(1, thread_name_prefix="postgres")


class EmbeddedServer:
    """A PostgreSQL on *data_dir*, reachable by a Unix socket of ours alone."""

    def __init__(
        self,
        data_dir: Path | None = None,
        bindir: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        identity: Identity | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Remember what to start; nothing happens yet.

        Args:
            data_dir: made when it is not there; default `default_data_dir()`.
            bindir: of a server's binaries; default those of the `local` extra.
            settings: server settings for this start, over those of the data directory.
            identity: as whom it runs; default whatever is possible here.
            timeout: seconds for a start, crash recovery included, and for a stop.
        """
        self.data_dir = (data_dir or default_data_dir()).absolute()
        self._bindir = bindir
        self._settings = dict(settings or {})
        self._identity = identity
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[bytes] | None = None
        self._postmaster: Postmaster | None = None

    @property
    def owned(self) -> bool:
        """Whether this object started the server, and so will stop it."""
        return self._process is not None

    def dsn(self, dbname: str = "postgres") -> str:
        """How to connect to *dbname* as the superuser.

        Raises:
            PreconditionError: the server is not started.
        """
        if self._postmaster is None:
            raise PreconditionError(f"no server is started on {self.data_dir}")
        return self._postmaster.dsn(dbname)

    async def start(self) -> None:
        """Start the server, or join the one that another process runs on the same directory.

        Raises:
            PreconditionError: not installed, not for this machine, or it does not come up.
        """
        await asyncio.get_running_loop().run_in_executor(_launcher, self._start)

    async def stop(self) -> None:
        """Stop the server if we started it; leave it alone if we joined it."""
        await asyncio.get_running_loop().run_in_executor(_launcher, self._stop)

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._stop()
        try:
            self.data_dir.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._wait_for(self._own_or_join, "another process holds it, but runs no server")
            if self._postmaster is None:
                self._launch()
        except OSError as error:
            self._stop()
            raise PreconditionError(
                f"no PostgreSQL on {self.data_dir}: {error}",
                hint="that must be a folder that we may write to; WALAGENT_HOME names another",
            ) from error
        except BaseException:
            self._stop()
            raise

    def _own_or_join(self) -> bool:
        """Take the lock, or find the server of whoever has it."""
        self._lock = self._lock or try_lock(self.data_dir)
        found = read_postmaster(self.data_dir)
        running = found is not None and found.alive
        if self._lock is not None and not running:
            return True
        if self._lock is not None and found is not None and is_ours(self.data_dir):
            # Its owner has died.  On Linux it is going down already; asking again does no harm.
            if found.status == "ready":
                os.kill(found.pid, signal.SIGINT)
            return False
        # Its owner lives, or somebody started it by hand: use it, and leave it running.
        self._postmaster = found if found is not None and found.answers else None
        return self._postmaster is not None

    def _launch(self) -> None:
        identity = self._identity or our_identity()
        bindir = self._bindir or default_bindir()
        prepare(bindir, self.data_dir, identity, sync=self._settings.get("fsync") != "off")
        command = identity.command(
            *(bindir / "postgres", "-D", self.data_dir, "-p", str(PORT)),
            *("-k", socket_dir(self.data_dir, identity)),
            *_set({"listen_addresses": "", **self._settings}),
            *("-c", MARK),
            die_with_us=True,
        )
        with open_log(self.data_dir) as log:
            self._process = subprocess.Popen(  # noqa: S603 - the operator's own server binaries
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=os.environ | _forget(read_postmaster(self.data_dir)),
                start_new_session=True,  # Ctrl-C is for us; we stop the server ourselves
            )
        self._wait_for(self._is_up, f"it did not become ready; see {log_path(self.data_dir)}")

    def _is_up(self) -> bool:
        """Whether *our* server is ready; after a crash an old file says "ready", too."""
        assert self._process is not None  # noqa: S101 - called only while launching
        if (code := self._process.poll()) is not None:
            raise PreconditionError(
                f"PostgreSQL ended with {code} while starting on {self.data_dir}",
                hint=f"read {log_path(self.data_dir)}",
            )
        found = read_postmaster(self.data_dir)
        if found is None or found.pid != self._process.pid or not found.answers:
            return False
        self._postmaster = found
        return True

    def _wait_for(self, done: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + self._timeout
        while not done():
            if time.monotonic() > deadline:
                raise PreconditionError(f"no PostgreSQL on {self.data_dir}: {otherwise}")
            time.sleep(0.02)

    def _stop(self) -> None:
        if self._process is not None:
            _shut_down(self._process, self._timeout)
            forget_socket_dir(self.data_dir)
        if self._lock is not None:
            self._lock.close()
        self._process = self._lock = self._postmaster = None


def _set(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _forget(stale: Postmaster | None) -> dict[str, str]:
    """Tell the server that the pid in a crashed one's file is no server any more.

    In a container pids repeat, and it would refuse to start as long as anybody has that pid.
    Source: PostgreSQL's CreateLockFile(), which excepts this pid for the sake of pg_ctl.
    """
    return {"PG_GRANDPARENT_PID": str(stale.pid)} if stale else {}


def _shut_down(process: subprocess.Popen[bytes], timeout: float) -> None:
    """Ask for a fast shutdown; a reader that does not read can block it, so insist later."""
    patience = {signal.SIGINT: timeout, signal.SIGQUIT: 10.0, signal.SIGKILL: 10.0}
    for sign, seconds in patience.items():
        if process.poll() is not None:
            return
        process.send_signal(sign)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
