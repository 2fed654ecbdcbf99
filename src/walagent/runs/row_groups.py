"""First calls of runs of one agent that are made at one time: one request has the rows of several.

Each run keeps what it has with a call of its own: its reservation, its attempt, and its step, with
its share of the tokens.  A row that has no reply, or two, is asked alone.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from walagent.deciders.several_rows import combined, is_first, replies_in
from walagent.domain.run import RunSpec
from walagent.errors import (
    ModelLimitedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Reply, Request, Usage
from walagent.models.gathering import Gathering, Waiting
from walagent.models.model import Model
from walagent.models.usage import usage_of
from walagent.runs.metering import counting

_QUIET: Final = 0.05  # seconds without another row after which a request is made
_LONGEST: Final = 0.5  # seconds for which a row waits for others
_SIZE: Final = 200_000  # characters of the rows of a request
_PASSING: Final = (ModelLimitedError, ModelUnavailableError, ModelUnauthorizedError)

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
        """As `Model.complete`."""
        size = sum(len(str(part)) for part in request.messages[0].parts)
        return await self.gathering.ask(self.key, request, self._answer, size=size, most=self.most)

    async def _answer(self, rows: Sequence[Row]) -> None:
        """Ask once for all, and again for each row that has no reply."""
        if len(rows) == 1:
            await self._alone(rows[0], Usage())
            return
        requests = [row.asked for row in rows]
        try:
            with counting(self.model.spec.name):
                most = self.model.spec.max_output_tokens
                reply = await self.model.complete(combined(requests, most))
        except _PASSING:
            raise
        except WalagentError as error:  # perhaps of one row
            shares = usage_of(error).shares(len(rows))
            replies: list[Reply | None] = [None] * len(rows)
        else:
            shares, replies = reply.usage.shares(len(rows)), replies_in(reply, requests)
        alone = list[tuple[Row, Usage]]()
        for row, share, found in zip(rows, shares, replies, strict=True):
            if found is None:
                alone.append((row, share))
            else:
                row.succeed(found)
        await asyncio.gather(*(self._alone(row, lost) for row, lost in alone))

    async def _alone(self, row: Row, lost: Usage) -> None:
        """Ask for one row, if its run still waits.

        Args:
            lost: tokens of a reply without it.
        """
        if row.result.done():
            return
        try:
            with counting(self.model.spec.name):
                reply = await self.model.complete(row.asked)
        except Exception as error:  # noqa: BLE001 - the run's own
            if lost.total and hasattr(error, "usage"):
                error.usage = usage_of(error) + lost  # pyright: ignore[reportAttributeAccessIssue]
            row.fail(error)
        else:
            row.succeed(replace(reply, usage=reply.usage + lost))
