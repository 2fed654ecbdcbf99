"""Group commit: what several runs have produced is recorded in one transaction.

Nothing waits for a group to fill.  A record that is ready while no statement is on its way is sent
at once; those that become ready meanwhile go together with the next one.  Each keeps its fence, and
one that is refused is repeated by itself, which raises why.
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
        """Take the pool whose connections it writes on, one for each statement."""
        self._pool = pool
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None  # while there is something to write

    async def record(self, record: Record) -> bool:
        """Record; return whether another run of its ordering key was waiting for its end.

        Raises:
            LeaseLostError, RunCancelledError: nothing was recorded; leave the run.
            StepTakenError: the step is there already.
            DatabaseLostError: nobody knows whether it was recorded.
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
            except BaseException as error:  # noqa: BLE001 - belongs to those who wait
                _settle_all(group, error)

    def _next_group(self) -> list[_Waiting]:
        """Take those who still wait: a run that was abandoned meanwhile records nothing."""
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
        """Record a group; return those that were refused, and are to be repeated alone."""
        try:
            with translating():
                async with self._pool.connection() as conn:
                    outcomes = await runs.record_many(conn, [record for record, _ in group])
        except DatabaseLostError:
            raise
        except Exception:  # noqa: BLE001 - a value that cannot be stored, or a deadlock
            return group  # find out whose
        found = {outcome.run_id: outcome for outcome in outcomes}
        for record, done in group:
            outcome = found[record.claim.run_id]
            if outcome.failed is None:
                _settle(done, outcome.unblocked)
        return [each for each in group if found[each[0].claim.run_id].failed is not None]


def _settle(done: "asyncio.Future[bool]", outcome: bool | BaseException) -> None:  # noqa: FBT001
    if done.done():
        return  # the task that waited was cancelled
    if isinstance(outcome, BaseException):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)


def _settle_all(group: Sequence[_Waiting], error: BaseException) -> None:
    for _, done in group:
        _settle(done, error)
