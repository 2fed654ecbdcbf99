"""Start and stop one embedded PostgreSQL, which several processes share.

The first process becomes the owner and holds a lock file while it runs; later ones join.  The
server ends with its owner, even after SIGKILL; committed data stays, and a process that still needs
the server becomes its next owner.
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

from walagent.base.concurrency import Periodic
from walagent.base.retries import DATABASE, seconds
from walagent.embedded.cluster import prepare
from walagent.embedded.identity import Identity, find_identity
from walagent.embedded.ownership import log_path, open_log, try_lock
from walagent.embedded.paths import default_bindir, default_data_dir
from walagent.embedded.postmaster import MARK, PORT, Postmaster, is_ours, read_postmaster
from walagent.embedded.sockets import remove_socket_dir, socket_dir
from walagent.errors import PreconditionError
from walagent.telemetry.log import log

# Of the environment, what a server needs: not the keys of models, which its superuser could read.
_NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")
_CHECK = 0.5  # seconds between looks at postmaster.pid, while clients reconnect with backoff

# The kernel signals the server when the *thread* that started it ends.  This thread ends with the
# interpreter.  One thread for all servers is enough: starting and stopping are rare.
_launcher = ThreadPoolExecutor(1, thread_name_prefix="postgres")


class EmbeddedServer:
    """A PostgreSQL server on *data_dir* that listens only on a private Unix socket."""

    def __init__(
        self,
        data_dir: Path | None = None,
        bindir: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        identity: Identity | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Store the parameters; nothing is started yet.

        Args:
            data_dir: created if it does not exist; default `default_data_dir()`.
            bindir: folder of the server's binaries; default those of the `local` extra.
            settings: server settings for this start, which override those of the data directory.
            identity: the user as whom it runs; default what is possible here.
            timeout: seconds for a start, including crash recovery, and for a stop.
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
        """Return whether this object started the server, and therefore stops it."""
        return self._process is not None

    def dsn(self, dbname: str = "postgres") -> str:
        """Return the connection string for *dbname* as the superuser.

        Raises:
            PreconditionError: the server is not running.
        """
        if self._postmaster is None:
            raise PreconditionError(f"no server was started on {self.data_dir}")
        return self._postmaster.dsn(dbname)

    async def start(self) -> None:
        """Start the server, or join it if another process runs it on the same directory.

        Raises:
            PreconditionError: it is not installed, not built for this machine, or does not start.
        """
        await asyncio.get_running_loop().run_in_executor(_launcher, self._start)

    async def keep_running(self) -> None:
        """Start or join the server again after it ended: with its owner, or by a crash.

        If an operator started it, only an operator starts it again.
        """
        failures = 0
        async for _ in Periodic(_CHECK, at_once=False):
            if self._is_running() or not is_ours(self.data_dir):
                continue
            try:
                await self.start()
            except PreconditionError as error:
                failures += 1
                log.warning("embedded.start_failed", error=error)
                await asyncio.sleep(seconds(DATABASE, failures))
            else:
                failures = 0
                log.info("embedded.restarted", owned=self.owned)

    async def stop(self) -> None:
        """Stop the server if this object started it."""
        await asyncio.get_running_loop().run_in_executor(_launcher, self._stop)

    def _is_running(self) -> bool:
        """Return whether the server runs and does not shut down, without connecting to it."""
        if self._process is not None and self._process.poll() is not None:
            return False
        found = read_postmaster(self.data_dir)
        return found is not None and found.status == "ready" and found.alive

    def _start(self) -> None:
        if self._process is not None and self._still_answers(self._process):
            return
        self._stop()
        try:
            self.data_dir.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._wait_for(self._own_or_join, "another process holds the lock without a server")
            if self._postmaster is None:
                self._launch()
        except OSError as error:
            self._stop()
            raise PreconditionError(
                f"cannot start PostgreSQL on {self.data_dir}: {error}",
                hint="The folder must be writable. Use WALAGENT_HOME to choose another.",
            ) from error
        except BaseException:
            self._stop()
            raise

    def _still_answers(self, process: subprocess.Popen[bytes]) -> bool:
        """Return whether the server that this object started answers.

        A killed process closes its files a moment before it can be reaped, and a server that shuts
        down takes longer: wait for the exit, because neither will answer again.
        """
        deadline = time.monotonic() + self._timeout
        while process.poll() is None and time.monotonic() < deadline:
            found = read_postmaster(self.data_dir)
            if found is not None and found.pid == process.pid and found.answers:
                return True
            time.sleep(0.02)
        return False

    def _own_or_join(self) -> bool:
        """Acquire the lock, or find the server of the process that holds it."""
        self._lock = self._lock or try_lock(self.data_dir)
        found = read_postmaster(self.data_dir)
        running = found is not None and found.alive
        if self._lock is not None and not running:
            return True
        if self._lock is not None and found is not None and is_ours(self.data_dir):
            # Its owner has ended.  On Linux it already shuts down; another signal is harmless.
            if found.status == "ready":
                os.kill(found.pid, signal.SIGINT)
            return False
        # Its owner runs, or an operator started it: join it, and do not stop it.
        self._postmaster = found if found is not None and found.answers else None
        return self._postmaster is not None

    def _launch(self) -> None:
        identity = self._identity or find_identity()
        bindir = self._bindir or default_bindir()
        prepare(bindir, self.data_dir, identity, sync=self._settings.get("fsync") != "off")
        command = identity.command(
            *(bindir / "postgres", "-D", self.data_dir, "-p", str(PORT)),
            *("-k", socket_dir(self.data_dir, identity)),
            *_set({"listen_addresses": "", **self._settings}),
            *("-c", MARK),
            die_with_parent=True,
        )
        with open_log(self.data_dir) as log:
            self._process = subprocess.Popen(  # noqa: S603 - the operator's server binaries
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_environment() | _forget(read_postmaster(self.data_dir)),
                start_new_session=True,  # Ctrl-C signals only walagent, which then stops the server
            )
        self._wait_for(self._is_up, f"it did not become ready; see {log_path(self.data_dir)}")

    def _is_up(self) -> bool:
        """Return whether the *started* server is ready; an old file can also say "ready"."""
        assert self._process is not None  # noqa: S101 - called only during a start
        if (code := self._process.poll()) is not None:
            raise PreconditionError(
                f"PostgreSQL exited with code {code} while starting on {self.data_dir}",
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
                raise PreconditionError(f"cannot start PostgreSQL on {self.data_dir}: {otherwise}")
            time.sleep(0.02)

    def _stop(self) -> None:
        if self._process is not None:
            _shut_down(self._process, self._timeout)
            remove_socket_dir(self.data_dir)
        if self._lock is not None:
            self._lock.close()
        self._process = self._lock = self._postmaster = None


def _set(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _NEEDED if name in os.environ}


def _forget(stale: Postmaster | None) -> dict[str, str]:
    """Mark the PID in a crashed server's file as stale.

    In a container PIDs repeat, and the server would not start while any process has that PID.
    Source: PostgreSQL's CreateLockFile(), which has this exception for pg_ctl.
    """
    return {"PG_GRANDPARENT_PID": str(stale.pid)} if stale else {}


def _shut_down(process: subprocess.Popen[bytes], timeout: float) -> None:
    """Request a fast shutdown; then kill, because a reader that hangs can block the shutdown."""
    patience = {signal.SIGINT: timeout, signal.SIGQUIT: 10.0, signal.SIGKILL: 10.0}
    for sign, limit in patience.items():
        if process.poll() is not None:
            return
        process.send_signal(sign)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            continue
