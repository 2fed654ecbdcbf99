"""Group commit: steps and ends of several runs are recorded in one transaction.

A record never waits for a group to fill: it is sent at once if no statement is being executed.  The
records that become ready during a statement form the next group.  Each has its own fence.  One that
is refused, or would have to wait for a lock, is repeated alone and does not hold up the others.
"""

import asyncio
from collections.abc import Mapping, Sequence

from walagent.errors import DatabaseLostError
from walagent.store import runs
from walagent.store.errors import translating
from walagent.store.runs import Record, RecordOutcome
from walagent.store.sessions.connections import Pool

_GROUP = 200  # records of one transaction at most

# The future has whether a run was unblocked; None: the record must be repeated alone.
_Waiting = tuple[Record, "asyncio.Future[bool | None]"]


class Recorder:
    """Records for all runs of a process."""

    def __init__(self, pool: Pool) -> None:
        """Write on connections of *pool*."""
        self._pool = pool
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None  # while there is something to write

    async def record(self, record: Record) -> bool:
        """Record; return whether another run of its ordering key was waiting for its end.

        Raises:
            LeaseLostError, RunCancelledError: nothing was recorded; leave the run.
            StepTakenError: the step is there already.
            DatabaseLostError: it is unknown whether it was recorded.
        """
        if record.reserved:  # it locks rows of budgets, which all processes share
            return await self._alone(record)
        done: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name="recorder")
        unblocked = await done
        return await self._alone(record) if unblocked is None else unblocked

    async def _alone(self, record: Record) -> bool:
        with translating():
            async with self._pool.connection() as conn:
                return await runs.record(conn, record)

    async def _write(self) -> None:
        while group := self._next_group():
            try:
                outcomes = await self._write_group([record for record, _ in group])
            except asyncio.CancelledError:
                _settle(group, DatabaseLostError("the process is stopping"))
                raise
            except BaseException as error:  # noqa: BLE001 - raised to the waiting tasks
                _settle(group, error)
            else:
                _settle(group, outcomes)

    def _next_group(self) -> list[_Waiting]:
        """Take the next records, without those of cancelled tasks."""
        waiting = [each for each in self._waiting if not each[1].done()]
        group, self._waiting = waiting[:_GROUP], waiting[_GROUP:]
        return group

    async def _write_group(self, records: Sequence[Record]) -> Mapping[int, RecordOutcome]:
        """Record a group; return the outcomes by run."""
        try:
            with translating():
                async with self._pool.connection() as conn:
                    outcomes = await runs.record_many(conn, records)
        except DatabaseLostError:
            raise
        except Exception:  # noqa: BLE001 - a value that cannot be stored: each task finds out
            return {}
        return {outcome.run_id: outcome for outcome in outcomes}


def _settle(group: Sequence[_Waiting], result: Mapping[int, RecordOutcome] | BaseException) -> None:
    for record, done in group:
        if done.done():
            continue  # its task was cancelled
        if isinstance(result, BaseException):
            done.set_exception(result)
            continue
        outcome = result.get(record.claim.run_id)
        done.set_result(None if outcome is None or outcome.failed else outcome.unblocked)
