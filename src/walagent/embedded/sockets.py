"""The folder of the server's Unix socket, whose path may have 107 bytes and no more."""

import hashlib
import os
import stat
from pathlib import Path

from walagent.embedded.identity import Identity
from walagent.embedded.postmaster import PORT
from walagent.errors import PreconditionError

_LONGEST = 107  # sun_path has 108 bytes, one of them the closing zero (macOS: 104)


def socket_dir(data_dir: Path, identity: Identity) -> Path:
    """The data directory itself where its path is short enough, else a folder of ours in /tmp.

    Both are 0700: whoever can enter connects without a password.

    Raises:
        PreconditionError: the folder in /tmp belongs to somebody else.
    """
    if len(os.fsencode(data_dir / f".s.PGSQL.{PORT}.lock")) <= _LONGEST - 4:
        return data_dir
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    folder = Path("/tmp") / f"walagent-{digest}"  # noqa: S108 - checked below
    folder.mkdir(mode=0o700, exist_ok=True)
    _check_owner(folder, {os.geteuid(), identity.owner[0] if identity.owner else os.geteuid()})
    identity.give(folder)
    return folder


def _check_owner(folder: Path, owners: set[int]) -> None:
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid in owners and not found.st_mode & 0o077:
        return
    raise PreconditionError(
        f"{folder} is not a folder of ours alone", hint="remove it, or set WALAGENT_HOME"
    )
