"""Submit batches, look at them, store their results: beside the runs of each worker.

Any number of processes do this: each batch is claimed with a lease.  Its row and items are
committed before it is submitted.  If the process ends before the provider's ID is, the next one
looks for the batch at the provider before it submits it again.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

from walagent.base import faults
from walagent.base.concurrency import Periodic
from walagent.base.retries import doubling, seconds
from walagent.config import Batches as BatchSettings
from walagent.domain.batch import BatchCall
from walagent.errors import (
    ConfigError,
    DatabaseLostError,
    LeaseLostError,
    ModelLimitedError,
    ModelMissingError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Usage
from walagent.models.batches import NOTHING, Batches, BatchLine, batches_of
from walagent.models.cost import BATCH, cost_of
from walagent.models.model import Model
from walagent.models.usage import usage_of
from walagent.runs.batching import INVALID
from walagent.runs.worker_models import Models
from walagent.store.calls import batched_calls
from walagent.store.calls.batched_calls import Batch, BatchReply
from walagent.store.errors import translating
from walagent.store.sessions.connections import Pool
from walagent.telemetry.log import log

_SIZE = 64 << 20  # bytes of the calls of a batch; providers take 100 MB and more
_AT_ONCE = 8  # batches, of one process
_CHUNK = 100  # results of one transaction
_LOOK = 5.0  # seconds between looks for work, at most
_CALM = 6  # of so many turns, one looks while there is no batch
_SLOWEST = 30  # times the first pause between looks at a batch


class BatchWork:
    """The batches of all runs."""

    def __init__(self, settings: BatchSettings, lease: float, pool: Pool, models: Models) -> None:
        """Look at nothing yet.

        Args:
            lease: seconds without a sign after which another process takes over a batch.
        """
        self._settings = settings
        self._lease = timedelta(seconds=lease)
        self._pool = pool
        self._models = models
        self._pauses = doubling(settings.poll, settings.poll * _SLOWEST)
        self._is_open = False
        self._advancing = set[asyncio.Task[None]]()

    async def keep_working(self) -> None:
        """Work until cancelled; after an error, again at the next interval."""
        settings, turns = self._settings, count()
        try:
            async for _ in Periodic(min(_LOOK, settings.wait, settings.poll)):
                if next(turns) % _CALM and not self._is_open:
                    continue
                try:
                    with translating():
                        await self._begin()
                except WalagentError as error:
                    log.warning("batch.failed", batch=0, error=error)
        finally:
            for each in self._advancing:
                each.cancel()
            await asyncio.gather(*self._advancing, return_exceptions=True)

    async def work_some(self) -> None:
        """Make batches of the calls that wait, and advance those that are due."""
        while begun := await self._begin():
            await asyncio.gather(*begun)

    async def _begin(self) -> "list[asyncio.Task[None]]":
        """Advance what is due, each beside the others: a slow server holds up its own batches."""
        settings = self._settings
        async with self._pool.connection() as conn:
            wait = timedelta(seconds=settings.wait)
            formed, self._is_open = await batched_calls.form_batches(
                conn, settings.items, _SIZE, wait
            )
        if formed:
            faults.hit("batch.formed")
        begun = list[asyncio.Task[None]]()
        while self._is_open and len(self._advancing) < _AT_ONCE:
            async with self._pool.connection() as conn:
                batch = await batched_calls.claim_batch(conn, self._lease)
            if batch is None:
                break
            task = asyncio.create_task(self._advance(batch), name=f"batch {batch.id} advances")
            self._advancing.add(task)
            task.add_done_callback(partial(self._advanced, batch.id))
            begun.append(task)
        return begun

    def _advanced(self, batch: int, task: "asyncio.Task[None]") -> None:
        self._advancing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("batch.failed", batch=batch, error=error)

    async def _advance(self, batch: Batch) -> None:
        """Submit a batch, or look at it; one that fails holds up no other."""
        try:
            with translating():
                async with self._held(batch):
                    await self._advance_held(batch)
        except LeaseLostError as error:
            log.warning("batch.lost", batch=batch.id, error=error)

    async def _advance_held(self, batch: Batch) -> None:
        try:
            with translating():
                model = await self._model(batch)
                if batch.provider_id is None:
                    await self._submit(batch, _batches(model))
                else:
                    await self._look(batch, batch.provider_id, model)
        except (LeaseLostError, DatabaseLostError):
            raise
        except WalagentError as error:
            await self._failed(batch, error)
        except Exception as error:  # noqa: BLE001 - of one batch; the others go on
            log.error("batch.crashed", batch=batch.id, exc_info=error)
            await self._later(batch, type(error).__name__)

    async def _model(self, batch: Batch) -> Model:
        """Return the model of a batch: until that is submitted, the one it was written for."""
        name = batch.model.removeprefix(f"{batch.tenant}/")
        await self._models.prepare(name, batch.tenant)
        model = self._models.get(name, batch.tenant)
        is_the_same = (model.spec.label, model.spec.model_id) == (batch.model, batch.model_id)
        if batch.provider_id is None and not is_the_same:
            raise ConfigError(f'model "{batch.model}" was changed')
        return model

    # Submit.

    async def _submit(self, batch: Batch, made_of: Batches) -> None:
        async with self._pool.connection() as conn:
            calls = await batched_calls.begin_batch(conn, batch)
        if not calls:
            await self._end(batch, "")
            return
        faults.hit("batch.submitting")
        found = await self._find(batch, made_of, calls)
        provider_id = found or await made_of.submit(_key(calls), calls)
        faults.hit("batch.taken")
        async with self._pool.connection() as conn:
            await batched_calls.submit_batch(conn, batch, provider_id, self._settings.poll)
        if found:
            log.info("batch.adopted", batch=batch.id, model=batch.model, items=len(calls))
        else:
            log.info("batch.submitted", batch=batch.id, model=batch.model, items=len(calls))
        faults.hit("batch.submitted")

    async def _find(self, batch: Batch, made_of: Batches, calls: list[BatchCall]) -> str | None:
        """Find a batch that an earlier attempt may have submitted."""
        if batch.tried_at is None:
            return None
        return await made_of.find(_key(calls), calls, batch.tried_at)

    # Look.

    async def _look(self, batch: Batch, provider_id: str, model: Model) -> None:
        made_of = _batches(model)
        state = await made_of.look(provider_id)
        if not state.ended:
            await self._later(batch, None)
            return
        if state.full and batch.items > 1:  # directly, they would cost twice as much
            await self._end(batch, state.why, full=True)
            log.warning("batch.requeued", batch=batch.id, items=batch.items, reason=state.why)
            return
        async for replies in _chunks(made_of.results(state, batch.items)):
            read = [_reply(line, made_of, model) for line in replies]
            async with self._pool.connection() as conn:
                await batched_calls.store_replies(conn, batch, read)
            faults.hit("batch.fetched")
        await self._end(batch, state.why)
        log.info("batch.ended", batch=batch.id, model=batch.model, seconds=_age(batch).seconds)
        faults.hit("batch.ended")

    # Wait, and end.

    async def _failed(self, batch: Batch, error: WalagentError) -> None:
        """Try again; a batch that can never be submitted ends, and its calls are made directly.

        A model that is missing here can be known to another process, or soon.
        """
        passing = isinstance(error, ModelUnavailableError | ModelLimitedError | ModelMissingError)
        log.warning("batch.failed", batch=batch.id, error=error)
        if batch.provider_id is None and not passing:
            await self._end(batch, f"not submitted: {type(error).__name__}")
        else:
            await self._later(batch, str(error))

    async def _later(self, batch: Batch, error: str | None) -> None:
        if batch.overdue:
            await self._end(batch, "no result in time", charged=batch.tried_at is not None)
            return
        pause = seconds(self._pauses, batch.attempts + 1)
        async with self._pool.connection() as conn:
            await batched_calls.postpone_batch(conn, batch, pause, error)

    async def _end(
        self, batch: Batch, why: str, *, charged: bool = False, full: bool = False
    ) -> None:
        async with self._pool.connection() as conn:
            await batched_calls.end_batch(conn, batch, why, charged=charged, full=full)

    @asynccontextmanager
    async def _held(self, batch: Batch) -> AsyncGenerator[None]:
        """Extend the lease meanwhile; if it is lost, cancel what is done under it."""
        lost: list[WalagentError] = []
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs has a task

        async def extend() -> None:
            while True:
                await asyncio.sleep(self._lease.total_seconds() / 3)
                try:
                    with translating():
                        async with self._pool.connection() as conn:
                            await batched_calls.hold_batch(conn, batch, self._lease)
                except LeaseLostError as error:
                    lost.append(error)
                    task.cancel()
                    return
                except WalagentError:
                    continue  # the database is away; the lease may expire

        extending = asyncio.create_task(extend(), name=f"batch {batch.id}")
        try:
            yield
        except asyncio.CancelledError:
            if lost and not task.uncancel():
                raise lost[0] from None
            raise
        finally:
            extending.cancel()


def _batches(model: Model) -> Batches:
    if (found := batches_of(model)) is None:
        raise ConfigError(f"provider {model.spec.provider} has no batches")
    return found


def _key(calls: list[BatchCall]) -> str:
    """Return what names a batch at its provider: the database and the batch, as in each call."""
    return calls[0].custom_id.rsplit("-", 2)[0]


def _age(batch: Batch) -> timedelta:
    return datetime.now(UTC) - batch.formed_at


def _reply(line: BatchLine, made_of: Batches, model: Model) -> BatchReply:
    """Read what a result cost, and whether it can be used; the run reads it again."""
    if line.answer is None:
        return BatchReply(line.custom_id, None, line.why, None, None)
    answer, why, usage = None, INVALID, Usage()
    try:
        usage = made_of.reply_of(line.answer, NOTHING).usage
        answer, why = json.dumps(line.answer), ""
    except WalagentError as error:
        usage = usage_of(error)
    except RecursionError:  # orjson reads what json cannot write
        pass
    cost = cost_of(usage, model.spec, BATCH)
    return BatchReply(line.custom_id, answer, why, _counts(usage), cost)


def _counts(usage: Usage) -> list[int]:
    return [
        usage.input_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
    ]


async def _chunks(lines: AsyncIterator[BatchLine]) -> AsyncIterator[list[BatchLine]]:
    chunk: list[BatchLine] = []
    async for line in lines:
        chunk.append(line)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
