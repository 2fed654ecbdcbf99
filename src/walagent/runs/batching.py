"""Calls of one run that wait for a batch of their provider.

The run is released with its call as an item; what it may cost stays reserved.  When it is claimed
again, the reply is there, and becomes its step before anything acts on it.
"""

import json
from dataclasses import replace

import orjson

from walagent.deciders.fall_back import standard_tier
from walagent.domain.run import RunSpec
from walagent.errors import WalagentError
from walagent.message import ModelSpec, Reply, Request
from walagent.models.batches import Batches, batches_of
from walagent.models.cost import BATCH
from walagent.models.model import Model
from walagent.models.replies import storable_reply
from walagent.moves import Note, Prompt
from walagent.runs.resources import Resources
from walagent.runs.step_log import StepLog
from walagent.store.calls import batched_calls
from walagent.store.calls.batched_calls import FromBatch, Waiting
from walagent.telemetry.log import log

INVALID = "invalid reply"


class Batching:
    """The calls of one run."""

    def __init__(self, resources: Resources, log: StepLog) -> None:
        """Wait for nothing yet."""
        self._resources = resources
        self._log = log

    def of(self, run: RunSpec, prompt: Prompt, model: Model) -> Batches | None:
        """Return the batches that a call waits for; None: it is made directly.

        Turns of threads and trials, for whose results people wait, are.
        """
        if prompt.tier != BATCH or run.claim.kind != "agent" or not self._resources.shares:
            return None
        return batches_of(model) if model.spec.batch_factor is not None else None

    async def find(self, run: RunSpec, seq: int) -> FromBatch | None:
        """Return what a batch has for a call; None: the call has not waited yet."""
        async with self._resources.pool.connection() as conn:
            return await batched_calls.batch_reply(conn, run.claim, seq, self._log.spent)

    async def wait(  # noqa: PLR0913, PLR0917 - a row's columns
        self,
        run: RunSpec,
        seq: int,
        call: int | None,
        model: ModelSpec,
        made_of: Batches,
        request: Request,
    ) -> None:
        """Release the run until its call has a reply."""
        body = json.dumps(made_of.body_of(request), default=dict)
        waiting = Waiting(seq, call, model.label, model.model_id, body)
        async with self._resources.pool.connection() as conn:
            await batched_calls.await_batch(conn, run.claim, waiting, self._log.spent)

    async def used(self, run: RunSpec, seq: int) -> None:
        """Forget a reply that is a step now; if the process dies before, retention does."""
        async with self._resources.pool.connection() as conn:
            await batched_calls.end_item(conn, run.run_id, seq)


def reply_in(found: FromBatch, made_of: Batches, request: Request) -> Reply | Note:
    """Return the reply of a batch, or the note that the standard tier is asked instead."""
    if found.answer is not None:
        try:
            reply = storable_reply(made_of.reply_of(orjson.loads(found.answer), request))
        except WalagentError:
            return directly(INVALID)
        return replace(reply, tier=BATCH)
    return directly(found.why)


def directly(why: str) -> Note:
    """Return the note that a call is made directly."""
    log.warning("batch.unanswered", reason=why)
    return standard_tier(BATCH, why)
