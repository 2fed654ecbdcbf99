"""First calls of runs of one agent that are made at one time: one request has the rows of several.

Each run keeps what it has with a call of its own: its reservation, its attempt, and its step, with
its share of the tokens.  Of a row that has no answer, or two, that step is a note, and its run asks
alone then: what it has paid is recorded, and what it will pay is reserved first.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from walagent.deciders.several_rows import combined, is_first, left_out, replies_in
from walagent.domain.run import RunSpec
from walagent.errors import ModelRejectedError
from walagent.message import Reply, Request, Stop
from walagent.models.gathering import Gathering, Waiting
from walagent.models.model import Model
from walagent.models.usage import usage_of
from walagent.runs.metering import counting

_QUIET: Final = 0.05  # seconds without another row after which a request is made
_LONGEST: Final = 0.5  # seconds for which a row waits for others
_SIZE: Final = 200_000  # characters of the rows of a request
_WHY: Final = 300  # characters of a reason

Row = Waiting[Request, Reply]


class RowGroups:
    """The requests of a process that have rows of several runs."""

    def __init__(self) -> None:
        """Wait for nothing."""
        self._gathering = Gathering[Request, Reply](quiet=_QUIET, longest=_LONGEST, size=_SIZE)

    def of(self, run: RunSpec, model: Model, request: Request) -> "Together | None":
        """Return what answers a call of a run with rows of other runs; None: it is made alone."""
        most, claim = run.agent.rows_per_request, run.claim
        if most == 1 or claim.kind != "agent" or not is_first(request):
            return None
        version = claim.attachment_id, claim.attachment_version
        key = claim.tenant, *version, model.spec.label, request.tier, request.system
        return Together(self._gathering, key, most, model)


@dataclass(frozen=True, slots=True)
class Together:
    """A model that is asked with rows of other runs."""

    gathering: Gathering[Request, Reply]
    key: tuple[object, ...]
    most: int
    model: Model

    async def complete(self, request: Request) -> Reply:
        """As `Model.complete`; see `is_left_out`."""
        size = sum(len(str(part)) for part in request.messages[0].parts)
        return await self.gathering.ask(self.key, request, self._answer, size=size, most=self.most)

    async def _answer(self, rows: Sequence[Row]) -> None:
        """Ask once for all; the run of a row that is left out asks again, as its own next step."""
        if len(rows) == 1:
            await self._alone(rows[0])
            return
        requests = [row.asked for row in rows]
        try:
            with counting(self.model.spec.name):
                most = self.model.spec.max_output_tokens
                reply = await self.model.complete(combined(requests, most))
        except ModelRejectedError as error:  # perhaps of one row
            used = usage_of(error)
            if not used.total:  # what is reserved for each pays for its own call
                await asyncio.gather(*map(self._alone, rows))
                return
            refused = Reply((), Stop.REFUSAL, used, self.model.spec.model_id)
            replies = left_out(refused, len(rows), f"rejected: {error}"[:_WHY])
        else:
            replies = replies_in(reply, requests)
        for row, each in zip(rows, replies, strict=True):
            row.succeed(each)

    async def _alone(self, row: Row) -> None:
        """Ask for one row, if its run still waits."""
        if row.result.done():
            return
        try:
            with counting(self.model.spec.name):
                reply = await self.model.complete(row.asked)
        except Exception as error:  # noqa: BLE001 - the run's own
            row.fail(error)
        else:
            row.succeed(reply)
