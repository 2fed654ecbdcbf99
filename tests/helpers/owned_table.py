"""A table whose owner has put code into every place that planning or reading it executes.

The owner has no right in walagent.  The code tries to become more than the role that reads, and
writes what it saw into the server's log, which no rollback takes back.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from psycopg import AsyncConnection

from tests.helpers.database import run_all, value
from walagent.embedded.ownership import log_path

SCHEMA = Path(__file__).with_suffix(".sql")
LINE = re.compile(r"WARNING:  OWNED (.*)")


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """What the code of the owner has written, in the server's log."""

    log: Path
    start: int
    owner: str

    @property
    def lines(self) -> list[str]:
        """What it saw, since the table was made."""
        with self.log.open("rb") as file:
            file.seek(self.start)
            return LINE.findall(file.read().decode(errors="replace"))

    @property
    def escapes(self) -> list[str]:
        """Where it became more than the role that reads."""
        return [line for line in self.lines if "ESCAPED" in line]


@asynccontextmanager
async def owned_table(conn: AsyncConnection) -> AsyncIterator[OwnedTable]:
    """Make the tables of an owner."""
    owner = f"owner_{conn.info.dbname}"
    await run_all(conn, SCHEMA.read_text().replace("the_owner", owner))
    log = log_path(Path(await value(conn, "show data_directory")))
    try:
        yield OwnedTable(log, log.stat().st_size, owner)
    finally:
        await run_all(conn, f"drop owned by {owner} cascade; drop role {owner}")
