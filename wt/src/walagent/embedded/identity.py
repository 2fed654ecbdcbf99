"""As whom PostgreSQL runs.  It refuses uid 0, and in a container we often are uid 0.

A shim, run by a fresh interpreter that then becomes the server (same pid), changes identity and
asks the kernel to end the server with us.  A shim and not ``preexec_fn``, because we have threads;
ctypes and not util-linux, because small images lack it.
"""

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from walagent.errors import PreconditionError

# argv: identity ("same", "namespace" or "uid:gid"), pid of the parent to die with or 0, command.
# CLONE_NEWUSER is 0x10000000, PR_SET_PDEATHSIG is 1, SIGINT ("fast" shutdown) is 2.  The parent
# may have died before prctl; then nobody would ever stop us, so look once more afterwards.
_SHIM = """
import ctypes, os, sys
who, parent, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
if who == "namespace":
    uid, gid = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):
        sys.exit(97)
    for name, line in (
        ("setgroups", "deny"), ("uid_map", f"65534 {uid} 1"), ("gid_map", f"65534 {gid} 1")
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)
elif who != "same":
    uid, gid = map(int, who.split(":"))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
if parent and sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 2)
    if os.getppid() != parent:
        sys.exit(98)
os.execv(command[0], command)
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """How a child process stops being root.

    `mode` is ``same`` (we are not root), ``namespace`` (root, in a user namespace where uid 0
    looks like 65534: works under a 0700 home) or ``uid:gid`` (another user; it must be able to
    reach the files, and owns the data).
    """

    mode: str = "same"

    @property
    def owner(self) -> tuple[int, int] | None:
        """Who must own the data directory, when that is not ourselves."""
        uid, colon, gid = self.mode.partition(":")
        return (int(uid), int(gid)) if colon else None

    def command(self, *command: str | Path, die_with_us: bool = False) -> list[str]:
        """Wrap *command* so that it runs under this identity.

        Args:
            command: an absolute program, then its arguments.
            die_with_us: on Linux, SIGINT reaches it when the *thread* that starts it ends, so
                start it from one that lives as long as the process.
        """
        parent = os.getpid() if die_with_us else 0
        shim = [sys.executable, "-I", "-S", "-c", _SHIM, self.mode, str(parent)]
        return [*shim, *map(str, command)]

    def give(self, path: Path) -> None:
        """Make *path* belong to whoever the server runs as."""
        if self.owner:
            os.chown(path, *self.owner)


@cache
def our_identity() -> Identity:
    """Find out how the server can run here.

    Raises:
        PreconditionError: we are root, and there is no way to be somebody else.
    """
    if os.geteuid() != 0:
        return Identity()
    namespace = Identity("namespace")
    probe = subprocess.run(  # noqa: S603 - our own shim
        namespace.command(sys.executable, "-I", "-S", "-c", ""), capture_output=True, check=False
    )
    return namespace if probe.returncode == 0 else nobody()


def nobody() -> Identity:
    """The user ``nobody``, where user namespaces are forbidden (Docker's default profile).

    Raises:
        PreconditionError: this system has no such user.
    """
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        raise PreconditionError(
            "PostgreSQL does not run as root, and there is no user nobody to run it as",
            hint="start walagent as an ordinary user",
        ) from error
    return Identity(f"{entry.pw_uid}:{entry.pw_gid}")
