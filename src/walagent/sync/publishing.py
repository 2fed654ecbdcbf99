"""Request the tables of shapes, and wait until the stream carries them."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.replication.fan_out import FanOut
from walagent.replication.sinks import Table, Want
from walagent.store.queries import query
from walagent.sync.checks import ShapeRefusedError
from walagent.telemetry.log import log
from walagent.wal.publications import published_as

_PUBLISHING: Final = 0.1  # seconds between two looks
_KEPT: Final = 60.0  # seconds after its last use for which a table stays published
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
        self._used: dict[Table, float] = {}  # when it was asked for, or last seen in use
        # The entries beside which no transaction is open that wrote before.
        self._settled: dict[Table, Sequence[str | None]] = {}

    def request(self, table: Table) -> None:
        """Request a table, without waiting for it."""
        self.tables.setdefault(table, Want())
        self._used[table] = time.monotonic()

    def forget(self, table: Table) -> None:
        """Rely on a table no more; it remains requested while it is used."""
        if table in self.tables:
            self.tables[table] = Want()

    def withdraw_unused(self, used: Collection[Table]) -> None:
        """Request the tables no more that no shape has had for a minute."""
        now = time.monotonic()
        for table in [*self.tables]:
            if table in used:
                self._used[table] = now
            elif now - self._used[table] > _KEPT:
                del self.tables[table], self._used[table]
                self._settled.pop(table, None)

    async def publish(self, conn: AsyncConnection[Any], *tables: Table) -> None:
        """Request tables, and wait until the stream carries all that commits from now on.

        No lock is taken: writers go on, and those that wrote before the table was published are
        waited for.

        Raises:
            ShapeRefusedError: the reader cannot publish one, or such a writer does not end; the log
                says more.
        """
        for table in tables:
            self.request(table)
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
                for table in tables:
                    self._rely(table, found[table])
                    if self._settled.get(table) != found[table]:
                        missing = {table}
                        await _writers_end(conn, table)
                        self._settled[table] = found[table]
        except TimeoutError as error:
            raise _unpublished(missing) from error

    def _rely(self, table: Table, entry: Sequence[str | None]) -> None:
        """Expect the stream to carry a table from now on; if it had not, end what relied on it."""
        if self.tables[table].entry not in (None, entry):
            self._drop([table])
        self.tables[table] = Want(entry=entry)


async def _writers_end(conn: AsyncConnection[Any], table: Table) -> None:
    """Wait for the transactions that have written to a table, and are open; not for later ones."""
    waiting: set[tuple[str, int | None]] | None = None
    try:
        async for _ in Periodic(_PUBLISHING):
            rows = await (
                await conn.execute(query("shape_writers"), {"schema": table[0], "name": table[1]})
            ).fetchall()
            now = {(transaction, pid) for transaction, pid in rows}
            waiting = now if waiting is None else waiting & now
            if not waiting:
                return
    except asyncio.CancelledError:
        pids = sorted(pid or 0 for _, pid in waiting or ())
        log.warning("publication.waits_for_writers", table=".".join(table), pids=pids)
        raise


def _unpublished(tables: Collection[Table]) -> ShapeRefusedError:
    names = ", ".join(sorted(f"{schema}.{name}" for schema, name in tables))
    text = f"the changes of {names} are not sent yet; the log of walagent says why: publication."
    return ShapeRefusedError(503, text)
