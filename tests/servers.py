"""Which PostgreSQL the tests run on.

`embedded` (the default) and `debian` are started for the session on a fresh directory; anything
else is the superuser DSN of a server that is there already.
"""

import asyncio
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walagent.embedded.server import EmbeddedServer

# Nothing here survives a crash and nothing has to.  synchronous_commit stays on: when a commit
# counts as durable is part of what is tested.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_replication_slots": "40",
    "max_wal_senders": "40",
    "max_connections": "200",
    "max_prepared_transactions": "20",
    "max_wal_size": "256MB",  # it may be in memory
}


@contextmanager
def run_server(which: str) -> Iterator[str]:
    """Give a superuser DSN, for as long as the block lasts."""
    if which not in {"embedded", "debian"}:
        yield which
        return
    bindir = debian_bindir() if which == "debian" else None
    settings = SETTINGS | (plugin_setting(bindir) if bindir else {})
    with tempfile.TemporaryDirectory(prefix="walagent-test-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedServer(Path(folder) / "pg", bindir, settings=settings)
        asyncio.run(server.start())
        try:
            yield server.dsn()
        finally:
            asyncio.run(server.stop())


def debian_bindir() -> Path:
    """The newest server that Debian's packages have put here."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    if not found:
        raise LookupError("no PostgreSQL in /usr/lib/postgresql")
    return found[-1].parent


def plugin_setting(bindir: Path) -> dict[str, str]:
    """Allow wal2json where it is installed and the server asks for permission.

    Minor releases since 2026 load only the output plug-ins that a setting lists.
    """
    installed = (bindir.parent / "lib" / "wal2json.so").exists()
    known = b"output_plugin_libraries" in (bindir / "postgres").read_bytes()
    if not (installed and known):
        return {}
    return {"output_plugin_libraries": "pgoutput, test_decoding, wal2json"}


def _version(path: Path) -> int:
    return int(re.findall(r"\d+", str(path))[0])
