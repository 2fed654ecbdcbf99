"""A data directory: made once, configured before every start."""

import shutil
import subprocess
from pathlib import Path

from walagent.embedded.identity import Identity
from walagent.embedded.postmaster import SUPERUSER
from walagent.errors import PreconditionError

_SETTINGS = """\
# Written by walagent at every start.  What ALTER SYSTEM sets wins over this file.
wal_level = logical
max_replication_slots = 20
max_wal_senders = 20
max_slot_wal_keep_size = 1GB      # a reader that never comes back must not fill the disk
shared_buffers = 64MB
unix_socket_permissions = 0700
log_checkpoints = off
"""
_BUILTIN_LOCALE_SINCE = 17


def server_version(bindir: Path, identity: Identity) -> int:
    """The major version of the server in *bindir*.

    Raises:
        PreconditionError: it cannot be run here.
    """
    result = _run(identity, bindir / "postgres", "--version")
    return int(result.split()[2].split(".")[0])


def prepare(bindir: Path, data_dir: Path, identity: Identity, *, sync: bool) -> None:
    """Make *data_dir* if it is not there, and write the settings.

    Raises:
        PreconditionError: initdb failed, or the directory is of another major version.
    """
    version = server_version(bindir, identity)
    if not data_dir.exists():
        _init(bindir, data_dir, identity, version=version, sync=sync)
    found = _version_of(data_dir)
    if found != version:
        raise PreconditionError(
            f"{data_dir} is of PostgreSQL {found}, the server is {version}",
            hint="move it with pg_upgrade or pg_dump, or name another data directory",
        )
    settings = data_dir / "walagent.conf"
    settings.write_text(_SETTINGS)
    identity.give(settings)


def _version_of(data_dir: Path) -> int:
    try:
        return int((data_dir / "PG_VERSION").read_text())
    except (OSError, ValueError) as error:
        raise PreconditionError(
            f"{data_dir} is not a PostgreSQL data directory", hint="name an empty or new folder"
        ) from error


def _init(bindir: Path, data_dir: Path, identity: Identity, *, version: int, sync: bool) -> None:
    """Run initdb beside its place, then rename: a crash in between leaves no half directory."""
    building = data_dir.with_name(f"{data_dir.name}.new")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700, parents=True)
    identity.give(building)
    # The builtin provider is the same on every system; before 17 there is only the C library.
    builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    _run(
        identity,
        bindir / "initdb",
        *("-D", building, "-U", SUPERUSER, "--encoding=UTF8", "--locale=C"),
        *("--auth-local=trust", "--auth-host=scram-sha-256"),
        *(builtin if version >= _BUILTIN_LOCALE_SINCE else []),
        *([] if sync else ["--no-sync"]),
    )
    with (building / "postgresql.conf").open("a") as file:
        file.write("include_if_exists = 'walagent.conf'\n")
    building.rename(data_dir)


def _run(identity: Identity, *command: str | Path) -> str:
    try:
        result = subprocess.run(  # noqa: S603 - the operator's own server binaries
            identity.command(*command), capture_output=True, text=True, check=False, cwd="/"
        )
    except OSError as error:
        raise PreconditionError(f"cannot run {command[0]}: {error}") from error
    if result.returncode != 0:
        raise PreconditionError(
            f"{command[0]} failed: {result.stderr.strip()[-400:]}", hint=_hint(identity)
        )
    return result.stdout


def _hint(identity: Identity) -> str:
    if identity.owner is None:
        return "the folder must be on this machine's disk, writable, and for this processor"
    return (
        "PostgreSQL does not run as root and no user namespace is allowed here, so it runs as "
        f"uid {identity.owner[0]}; that user must be able to enter every parent folder of the "
        "server and of the data directory (not one under a 0700 home): set WALAGENT_HOME"
    )
