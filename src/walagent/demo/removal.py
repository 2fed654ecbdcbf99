"""Remove the demo's database, and the embedded server's folder if nothing else is in it."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from psycopg.conninfo import make_conninfo

from walagent.config.dsn import Places
from walagent.demo.database import DATABASE, drop_demo
from walagent.embedded.ownership import log_path, try_lock
from walagent.errors import PreconditionError
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect

# The databases of a server that initdb does not create, and those with tables or other schemas.
_DATABASES = (
    "select datname from pg_database where not datistemplate and datname <> %s order by datname"
)
_IS_USED = """
select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname !~ '^(pg_.*|information_schema)$')
"""


class Kept(Enum):
    """Why the folder stays."""

    NOTHING = auto()  # it is removed
    RUNNING = auto()
    DATABASES = auto()


@dataclass(frozen=True, slots=True)
class DemoFound:
    """What there is of the demo.

    Args:
        folder: the server's data directory, and its *size* in bytes.
        others: databases that have something in them.
    """

    has_database: bool
    folder: Path
    size: int
    kept: Kept
    others: Sequence[str]


async def find_demo(places: Places) -> DemoFound:
    """Find the demo's database, and whether the server has anything else."""
    server = places.embedded
    if server is None:
        raise PreconditionError("the embedded server is not used")
    async with await connect(places.dsn, application="walagent uninstall") as conn:
        with translating():
            cursor = await conn.execute(_DATABASES, [DATABASE])
            names = [row[0] for row in await cursor.fetchall()]
            cursor = await conn.execute("select from pg_database where datname = %s", [DATABASE])
            has_database = await cursor.fetchone() is not None
    others = [name for name in names if name != "postgres" or await _is_used(places.dsn, name)]
    kept = Kept.DATABASES if others else Kept.NOTHING if server.owned else Kept.RUNNING
    return DemoFound(has_database, server.data_dir, _size(server.data_dir), kept, others)


async def remove_demo(places: Places) -> None:
    """Drop the database and its slots."""
    async with await connect(places.dsn, application="walagent uninstall") as conn:
        with translating():
            await drop_demo(conn)


def remove_folder(data_dir: Path) -> None:
    """Remove the data directory of a stopped server, its log and its lock."""
    lock = try_lock(data_dir)
    if lock is None:
        raise PreconditionError(f"another process has started the server in {data_dir}")
    with lock:
        shutil.rmtree(data_dir)
        log = log_path(data_dir)
        for path in (log, log.with_suffix(".log.1"), Path(lock.name)):
            path.unlink(missing_ok=True)


async def _is_used(dsn: str, name: str) -> bool:
    there = make_conninfo(dsn, dbname=name)
    async with await connect(there, application="walagent uninstall") as conn:
        row = await (await conn.execute(_IS_USED)).fetchone()
    return row is None or bool(row[0])


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # the server removes files meanwhile
            total += path.lstat().st_size
    return total
