"""Choose the user as whom PostgreSQL runs.  It rejects UID 0, the usual user in a container.

A wrapper script in a new interpreter changes identity, asks the kernel to signal the server when
the parent ends, and then executes the server with the same PID.  ``preexec_fn`` is not safe with
threads; util-linux is missing in small images, so the script uses ctypes.
"""

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from walagent.errors import PreconditionError

# argv: identity ("same", "namespace" or "uid:gid"), PID of the parent to end with or 0, command.
# CLONE_NEWUSER is 0x10000000, PR_SET_PDEATHSIG is 1, SIGINT ("fast" shutdown) is 2.  The parent
# may have ended before prctl, and then no signal would be sent, so the script checks it again.
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
    """How a child process runs as a user other than root.

    `mode` is ``same`` (not root), ``namespace`` (root, in a user namespace where UID 0 appears as
    65534: works below a 0700 home) or ``uid:gid`` (another user, who needs access to the files and
    owns the data).
    """

    mode: str = "same"

    @property
    def owner(self) -> tuple[int, int] | None:
        """Return the user who must own the data directory, if not the current one."""
        uid, colon, gid = self.mode.partition(":")
        return (int(uid), int(gid)) if colon else None

    def command(self, *command: str | Path, die_with_parent: bool = False) -> list[str]:
        """Wrap *command* so that it runs as this user.

        Args:
            command: an absolute program, then its arguments.
            die_with_parent: on Linux, the command receives SIGINT when the *thread* that starts it
                ends, so start it from one that lives as long as the process.
        """
        parent = os.getpid() if die_with_parent else 0
        shim = [sys.executable, "-I", "-S", "-c", _SHIM, self.mode, str(parent)]
        return [*shim, *map(str, command)]

    def chown(self, path: Path) -> None:
        """Make the server's user the owner of *path*."""
        if self.owner:
            os.chown(path, *self.owner)


@cache
def find_identity() -> Identity:
    """Find how the server can run here.

    Raises:
        PreconditionError: the current user is root, and no other user is available.
    """
    if os.geteuid() != 0:
        return Identity()
    namespace = Identity("namespace")
    probe = subprocess.run(  # noqa: S603 - the script above
        namespace.command(sys.executable, "-I", "-S", "-c", ""), capture_output=True, check=False
    )
    return namespace if probe.returncode == 0 else nobody_identity()


def nobody_identity() -> Identity:
    """Use the user ``nobody``, if user namespaces are forbidden (Docker's default profile).

    Raises:
        PreconditionError: this system has no such user.
    """
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        raise PreconditionError(
            "PostgreSQL cannot run as root, and this system has no user nobody to run it as",
            hint="Start walagent as an ordinary user.",
        ) from error
    return Identity(f"{entry.pw_uid}:{entry.pw_gid}")
