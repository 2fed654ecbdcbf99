"""Choose a folder for the server's Unix socket, whose path is limited to 103 bytes."""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from walagent.embedded.identity import Identity
from walagent.embedded.postmaster import PORT
from walagent.errors import PreconditionError

_LONGEST = 103  # bytes; sun_path has 108 on Linux and 104 on macOS, including the terminator


def socket_dir(data_dir: Path, identity: Identity) -> Path:
    """Return the data directory if its path is short enough, else a private folder in /tmp.

    Both have mode 0700: any user with access connects without a password.

    Raises:
        PreconditionError: the folder in /tmp belongs to another user.
    """
    folder = _folder(data_dir)
    if folder == data_dir:
        return data_dir
    folder.mkdir(mode=0o700, exist_ok=True)
    _check_owner(folder, {os.geteuid(), identity.owner[0] if identity.owner else os.geteuid()})
    identity.chown(folder)
    return folder


def remove_socket_dir(data_dir: Path) -> None:
    """Remove the folder in /tmp, if it exists and is empty."""
    folder = _folder(data_dir)
    if folder != data_dir:
        with suppress(OSError):
            folder.rmdir()


def _folder(data_dir: Path) -> Path:
    if len(os.fsencode(data_dir / f".s.PGSQL.{PORT}")) <= _LONGEST:
        return data_dir
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Path("/tmp") / f"walagent-{digest}"  # noqa: S108 - its owner is checked


def _check_owner(folder: Path, owners: set[int]) -> None:
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid in owners and not found.st_mode & 0o077:
        return
    raise PreconditionError(
        f"{folder} is not a private folder of this user", hint="Remove it, or set WALAGENT_HOME."
    )
