"""Request the tables of shapes, and wait until the stream carries them."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.replication.fan_out import FanOut
from walagent.replication.sinks import Table, Want
from walagent.sync.checks import ShapeRefusedError
from walagent.wal.publications import published_as

_PUBLISHING: Final = 0.1  # seconds between two looks
_PUBLICATION: Final = "walagent"


class Publishing:
    """The tables that the shapes of a process request from the reader.

    Args:
        patience: seconds until a table is published.
        drop: ends the shapes of tables.
    """

    def __init__(
        self, fan_out: FanOut, patience: float, drop: Callable[[Collection[Table]], None]
    ) -> None:
        self._fan_out = fan_out
        self._patience = patience
        self._drop = drop
        self.tables: dict[Table, Want] = {}

    def forget(self, table: Table) -> None:
        """Rely on a table no more; it remains requested."""
        if table in self.tables:
            self.tables[table] = Want()

    async def publish(self, conn: AsyncConnection[Any], *tables: Table) -> None:
        """Request tables, and wait until the stream carries them.

        Raises:
            ShapeRefusedError: the reader cannot publish one; it logs why.
        """
        for table in tables:
            self.tables.setdefault(table, Want())
        answers, missing = self._fan_out.answers, set(tables)
        found: Mapping[Table, Sequence[str | None]] = {}
        try:
            async with asyncio.timeout(self._patience):
                async for _ in Periodic(_PUBLISHING):
                    # Before it is answered, a request of this process can remove a table.
                    missing = set(tables) - answers.standing - answers.refused.keys()
                    if not missing:
                        found = await published_as(conn, _PUBLICATION)
                        missing = set(tables) - found.keys()
                    if not missing:
                        break
                    if refused := missing & answers.refused.keys():
                        raise _unpublished(refused)
        except TimeoutError as error:
            raise _unpublished(missing) from error
        for table in tables:
            self._rely(table, found[table])

    def _rely(self, table: Table, entry: Sequence[str | None]) -> None:
        """Expect the stream to carry a table from now on; if it had not, end what relied on it."""
        if self.tables[table].entry not in (None, entry):
            self._drop([table])
        self.tables[table] = Want(entry=entry)


def _unpublished(tables: Collection[Table]) -> ShapeRefusedError:
    names = ", ".join(sorted(f"{schema}.{name}" for schema, name in tables))
    text = f"not published yet: {names}; see publication.refused in the log"
    return ShapeRefusedError(503, text)
