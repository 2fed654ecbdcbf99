"""Request the tables that sinks need: the publications are the union of all requests."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection

from walagent.concurrency import Periodic
from walagent.errors import ConflictError, DatabaseLostError, WalagentError
from walagent.log import log
from walagent.replication.sinks import Sink, Table, TableRequest, requests_of
from walagent.store import gaps
from walagent.store.errors import translating

_COMPARE = 0.5  # seconds between two comparisons, in memory


async def keep_requests(conn: AsyncConnection[Any], slot: str, sinks: Sequence[Sink]) -> None:
    """Request what the sinks need whenever that changes; does not end.

    A request that is refused is logged once and not repeated: other sinks do not depend on it.

    Raises:
        DatabaseLostError: start over.
    """
    requested: Mapping[Table, TableRequest] | None = None
    async for _ in Periodic(_COMPARE):
        needed = requests_of(sinks)
        if needed == requested:
            continue
        try:
            with translating():
                await gaps.request_tables(conn, slot, {
                    table: (each.inserts_only, each.durable) for table, each in needed.items()
                })  # fmt: skip
        except ConflictError:  # a transaction writes to a table; try again
            continue
        except DatabaseLostError:
            raise
        except WalagentError as error:
            log.warning("publication.refused", slot=slot, error=error)
        requested = needed
