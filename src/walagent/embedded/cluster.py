"""Initialize a data directory, and write its configuration before every start."""

import shutil
import subprocess
from pathlib import Path

from walagent.embedded.identity import Identity
from walagent.embedded.postmaster import SUPERUSER
from walagent.errors import PreconditionError

_SETTINGS = """\
# Written by walagent at every start.  Settings of ALTER SYSTEM take precedence.
wal_level = logical
max_replication_slots = 20
max_wal_senders = 20
max_slot_wal_keep_size = 1GB      # an abandoned slot must not fill the disk
shared_buffers = 64MB
unix_socket_permissions = 0700
log_checkpoints = off
"""
_BUILTIN_LOCALE_SINCE = 17


def server_version(bindir: Path, identity: Identity) -> int:
    """Return the major version of the server in *bindir*.

    Raises:
        PreconditionError: the server cannot run here.
    """
    result = _run(identity, bindir / "postgres", "--version")
    return int(result.split()[2].split(".")[0])


def prepare(bindir: Path, data_dir: Path, identity: Identity, *, sync: bool) -> None:
    """Initialize *data_dir* if it does not exist, and write the settings.

    Raises:
        PreconditionError: initdb failed, or the directory has another major version.
    """
    version = server_version(bindir, identity)
    if not data_dir.exists():
        _init(bindir, data_dir, identity, version=version, sync=sync)
    found = _version_of(data_dir)
    if found != version:
        raise PreconditionError(
            f"{data_dir} was initialized by PostgreSQL {found}, the server is {version}",
            hint="Upgrade it with pg_upgrade or pg_dump, or use another data directory.",
        )
    settings = data_dir / "walagent.conf"
    settings.write_text(_SETTINGS)
    identity.chown(settings)


def _version_of(data_dir: Path) -> int:
    try:
        return int((data_dir / "PG_VERSION").read_text())
    except (OSError, ValueError) as error:
        raise PreconditionError(
            f"{data_dir} is not a PostgreSQL data directory", hint="Use an empty or new folder."
        ) from error


def _init(bindir: Path, data_dir: Path, identity: Identity, *, version: int, sync: bool) -> None:
    """Run initdb in a temporary folder, then rename it: a crash leaves no partial directory."""
    building = data_dir.with_name(f"{data_dir.name}.new")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700, parents=True)
    identity.chown(building)
    # The builtin provider is the same on every system; before 17 only libc exists.
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
        result = subprocess.run(  # noqa: S603 - the operator's server binaries
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
        return "The folder must be on a local disk, writable, and the binaries for this processor."
    return (
        "PostgreSQL cannot run as root and user namespaces are not allowed here, so it runs as "
        f"UID {identity.owner[0]}. That user needs access to every parent folder of the server and "
        "of the data directory (none with mode 0700, such as /root). Set WALAGENT_HOME."
    )
