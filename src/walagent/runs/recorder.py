"""Group commit: steps and ends of several runs are recorded in one transaction.

A record never waits for a group to fill: it is sent at once if no statement is being executed.  The
records that become ready during a statement form the next group.  Each has its own fence; one that
is refused is repeated alone, which raises the reason.
"""

import asyncio
from collections.abc import Sequence

from walagent.errors import DatabaseLostError
from walagent.store import runs
from walagent.store.connections import Pool
from walagent.store.errors import translating
from walagent.store.runs import Record

_GROUP = 200  # records of one transaction at most: a refused value is looked for among them

_Waiting = tuple[Record, "asyncio.Future[bool]"]


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
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((record, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name="recorder")
        return await done

    async def _write(self) -> None:
        while group := self._next_group():
            try:
                await self._write_group(group)
            except asyncio.CancelledError:
                _settle_all(group, DatabaseLostError("the process is stopping"))
                raise
            except BaseException as error:  # noqa: BLE001 - raised to the waiting tasks
                _settle_all(group, error)

    def _next_group(self) -> list[_Waiting]:
        """Take the next records, without those of cancelled tasks."""
        group = [each for each in self._waiting[:_GROUP] if not each[1].done()]
        del self._waiting[:_GROUP]
        return group

    async def _write_group(self, group: Sequence[_Waiting]) -> None:
        alone = group
        if len(group) > 1:
            alone = await self._write_together(group)
        for record, done in alone:
            _settle(done, await self._write_alone(record))

    async def _write_alone(self, record: Record) -> bool | Exception:
        try:
            with translating():
                async with self._pool.connection() as conn:
                    return await runs.record(conn, record)
        except Exception as error:  # noqa: BLE001 - raised to the task that waits
            return error

    async def _write_together(self, group: Sequence[_Waiting]) -> Sequence[_Waiting]:
        """Record a group; return the records that must be repeated alone."""
        try:
            with translating():
                async with self._pool.connection() as conn:
                    outcomes = await runs.record_many(conn, [record for record, _ in group])
        except DatabaseLostError:
            raise
        except Exception:  # noqa: BLE001 - a value that cannot be stored, or a deadlock
            return group  # find the one that causes it
        found = {outcome.run_id: outcome for outcome in outcomes}
        for record, done in group:
            outcome = found[record.claim.run_id]
            if outcome.failed is None:
                _settle(done, outcome.unblocked)
        return [each for each in group if found[each[0].claim.run_id].failed is not None]


def _settle(done: "asyncio.Future[bool]", outcome: bool | BaseException) -> None:  # noqa: FBT001
    if done.done():
        return  # its task was cancelled
    if isinstance(outcome, BaseException):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)


def _settle_all(group: Sequence[_Waiting], error: BaseException) -> None:
    for _, done in group:
        _settle(done, error)
