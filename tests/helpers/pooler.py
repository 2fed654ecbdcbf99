"""PgBouncer in front of the server under test."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walagent.embedded.identity import find_identity

ALIAS = "app_pool"  # of the same database
_CONFIG = """
[databases]
{dbname} = host={host} port={port} user={user}
{alias} = host={host} port={port} user={user} dbname={dbname}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
ignore_startup_parameters = extra_float_digits{ignored}
default_pool_size = {size}
client_login_timeout = 5
server_login_retry = 1
query_wait_timeout = 10
"""


@contextmanager
def pgbouncer(dsn: str, folder: Path, *, mode: str, options: bool = True) -> Iterator[str]:
    """Start PgBouncer; yield a connection string that leads through it.

    Args:
        mode: session, transaction or statement.
        options: whether it ignores the settings of a connection instead of rejecting them.
    """
    program = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    given = {"host": "127.0.0.1", "port": "5432", **conninfo_to_dict(dsn)}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = probe.getsockname()[1]
    config = folder / "pgbouncer.ini"
    config.write_text(
        _CONFIG.format(
            **{name: given[name] for name in ("dbname", "host", "port", "user")},
            listen=listen,
            alias=ALIAS,
            size=20 if mode == "session" else 4,
            mode=mode,
            ignored=", options" if options else "",
        )
    )
    process = subprocess.Popen(find_identity().command(program, "-q", config))
    try:
        through = make_conninfo(dsn, host="127.0.0.1", port=listen)
        _wait(through if options else make_conninfo(through, dbname="pgbouncer"), process)
        yield through
    finally:
        process.terminate()
        process.wait(10)


def _wait(dsn: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 10
    while True:
        try:
            psycopg.connect(dsn, autocommit=True).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise
            if "Connection refused" not in str(error):
                return
        else:
            return
        time.sleep(0.02)
