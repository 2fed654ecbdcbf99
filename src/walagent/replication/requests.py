"""Request the tables that sinks need: the publications are the union of all requests."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.errors import ConflictError, DatabaseLostError, WalagentError
from walagent.replication.sinks import Answers, Sink, Table, TableRequest, requests_of
from walagent.store import gaps
from walagent.store.errors import translating
from walagent.telemetry.log import log

_COMPARE = 0.1  # seconds between two comparisons, in memory
_AGAIN: Final = 5.0  # seconds until a request that was refused is repeated
_NOTICED: Final = 6.0  # seconds until each process has seen that a table was removed
_GRANT: Final = "Grant EXECUTE on agent_internal.request_tables, see docs/sync.md."

Requests = Mapping[Table, TableRequest]


async def keep_requests(
    conn: AsyncConnection[Any],
    slot: str,
    sinks: Sequence[Sink],
    answers: Answers,
) -> None:
    """Request what the sinks need whenever that changes; does not end.

    A table that is refused is logged once, and requested again after some seconds: other tables
    and sinks do not depend on it.

    Args:
        answers: kept up to date.

    Raises:
        DatabaseLostError: start over.
    """
    answers.standing.clear()
    answers.refused.clear()
    answers.lost.clear()
    requester = _Requester(conn, slot, answers)
    async for _ in Periodic(_COMPARE):
        try:
            await requester.request(requests_of(sinks))
        except ConflictError:  # try again
            continue


class _Requester:
    def __init__(self, conn: AsyncConnection[Any], slot: str, answers: Answers) -> None:
        self._conn = conn
        self._slot = slot
        self._requested: Requests | None = None
        self._logged: dict[Table, str] = {}
        self._busy: dict[Table, float] = {}  # when a lock could not be had
        self._answers = answers

    async def request(self, needed: Requests) -> None:
        """Request what is needed and was not refused lately.

        Raises:
            ConflictError: a table to be withdrawn is locked; try again.
            DatabaseLostError: start over.
        """
        now = time.monotonic()
        due = {table for table, at in self._answers.lost.items() if now - at >= _NOTICED}
        # Of a durable sink it is a gap, which must not be hidden.
        if due := {table for table in due if table not in needed or not needed[table].durable}:
            await self._withdraw(due)
        self._busy = {table: at for table, at in self._busy.items() if table in needed}
        wanted = {
            table: each
            for table, each in needed.items()
            if now - self._answers.refused.get(table, now - _AGAIN) >= _AGAIN
            and now - self._busy.get(table, now - _AGAIN) >= _AGAIN
        }
        if wanted == self._requested:
            return
        try:
            if self._busy:
                wanted = await self._one_by_one(wanted)
            else:
                await self._send(wanted)
        except DatabaseLostError:
            raise
        except WalagentError:
            wanted = await self._one_by_one(wanted)
        for table in wanted:
            self._answers.refused.pop(table, None)
            self._busy.pop(table, None)
        self._requested = wanted

    async def _withdraw(self, lost: set[Table]) -> None:
        """End the requests of tables that are no longer published, so that new ones add them."""
        kept = {table: each for table, each in (self._requested or {}).items() if table not in lost}
        try:
            await self._send(kept)
        except (ConflictError, DatabaseLostError):
            raise
        except WalagentError as error:
            for table in lost:
                self._log(table, error)
        self._requested = kept
        for table in lost:
            del self._answers.lost[table]

    async def _one_by_one(self, wanted: Requests) -> Requests:
        """Request tables one after the other; return those that were accepted.

        One that others lock makes none of the others wait: it comes last, and again later.
        """
        known = self._requested or {}
        accepted = {table: each for table, each in wanted.items() if known.get(table) == each}
        for table in sorted(wanted.keys() - accepted.keys(), key=lambda each: each in self._busy):
            try:
                await self._send({**accepted, table: wanted[table]})
                accepted[table] = wanted[table]
            except DatabaseLostError:
                raise
            except WalagentError as error:
                tried = self._busy if isinstance(error, ConflictError) else self._answers.refused
                tried[table] = time.monotonic()
                self._log(table, error)
        return accepted

    async def _send(self, wanted: Requests) -> None:
        self._answers.standing.intersection_update(wanted)  # the others end with this request
        with translating():
            await gaps.request_tables(self._conn, self._slot, {
                table: (each.inserts_only, each.durable) for table, each in wanted.items()
            })  # fmt: skip
        self._answers.standing.update(wanted)

    def _log(self, table: Table, error: WalagentError) -> None:
        if self._logged.get(table) == str(error):
            return
        self._logged[table] = str(error)
        hint = error.hint or (_GRANT if "request_tables" in str(error) else "")
        log.warning(
            "publication.refused", slot=self._slot, table=".".join(table), error=error, hint=hint
        )
