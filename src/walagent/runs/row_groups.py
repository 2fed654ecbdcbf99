"""First calls of runs of one agent that are made at one time: one request has the rows of several.

Each run keeps what it has with a call of its own: its reservation, its attempt, and its step, with
its share of the tokens.  A row that has no reply, or two, is asked alone.
"""

import asyncio
import copy
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from walagent.deciders.several_rows import combined, is_first, replies_in, shares_of
from walagent.domain.run import RunSpec
from walagent.errors import (
    ModelLimitedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Reply, Request, Usage
from walagent.models.model import Model
from walagent.runs.metering import counting, usage_of

_QUIET: Final = 0.05  # seconds without another row after which a request is made
_LONGEST: Final = 0.5  # seconds for which a row waits for others
_SIZE: Final = 200_000  # characters of the rows of a request
_PASSING: Final = (ModelLimitedError, ModelUnavailableError, ModelUnauthorizedError)

Asked = tuple[Request, "asyncio.Future[Reply]"]


@dataclass(slots=True)
class _Group:
    """Rows that wait for others.

    Args:
        until: time of the loop at which it is asked at the latest.
    """

    model: Model
    until: float
    asked: list[Asked] = field(default_factory=list[Asked])
    size: int = 0
    timer: asyncio.TimerHandle | None = None


class RowGroups:
    """The groups of a process."""

    def __init__(self) -> None:
        """Wait for nothing."""
        self._open = dict[Hashable, _Group]()
        self._asking = set[asyncio.Task[None]]()

    def of(self, run: RunSpec, model: Model, request: Request) -> "Together | None":
        """Return what answers a call of a run with rows of other runs; None: it is made alone."""
        most, claim = run.agent.rows_per_request, run.claim
        if most == 1 or claim.kind != "agent" or not is_first(request):
            return None
        version = claim.attachment_id, claim.attachment_version
        key = claim.tenant, *version, model.spec.label, request.tier, request.system
        return Together(self, key, most, model)

    async def ask(self, key: Hashable, most: int, model: Model, request: Request) -> Reply:
        """Ask with what others ask meanwhile; raises as `Model.complete`."""
        loop = asyncio.get_running_loop()
        group = self._open.setdefault(key, _Group(model, loop.time() + _LONGEST))
        answer = loop.create_future()
        group.asked.append((request, answer))
        group.size += sum(len(str(part)) for part in request.messages[0].parts)
        if group.timer is not None:
            group.timer.cancel()
        if len(group.asked) == most or group.size >= _SIZE:
            self._close(key)
        else:
            at = min(loop.time() + _QUIET, group.until)
            group.timer = loop.call_at(at, self._close, key)
        return await answer

    def _close(self, key: Hashable) -> None:
        group = self._open.pop(key)
        asked = [each for each in group.asked if not each[1].done()]
        if not asked:
            return
        task = asyncio.create_task(_answer(group.model, asked), name="rows of several runs")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        for _, answer in asked:
            answer.add_done_callback(lambda _: _leave(task, asked))


@dataclass(frozen=True, slots=True)
class Together:
    """A model that is asked with rows of other runs."""

    groups: RowGroups
    key: Hashable
    most: int
    model: Model

    async def complete(self, request: Request) -> Reply:
        """As `Model.complete`."""
        return await self.groups.ask(self.key, self.most, self.model, request)


def _leave(task: "asyncio.Task[None]", asked: list[Asked]) -> None:
    """Ask no more if nobody waits."""
    if all(answer.done() for _, answer in asked):
        task.cancel()


async def _answer(model: Model, asked: list[Asked]) -> None:
    """Ask once for all, and again for each row that has no reply."""
    if len(asked) == 1:
        await _ask_alone(model, *asked[0], Usage())
        return
    requests = [request for request, _ in asked]
    try:
        with counting(model.spec.name):
            reply = await model.complete(combined(requests, model.spec.max_output_tokens))
    except _PASSING as error:
        _fail(error, asked)
        return
    except WalagentError as error:  # perhaps of one row
        shares = shares_of(usage_of(error), len(asked))
        replies: list[Reply | None] = [None] * len(asked)
    except Exception as error:  # noqa: BLE001 - as each of them would have it
        _fail(error, asked)
        return
    else:
        shares, replies = shares_of(reply.usage, len(asked)), replies_in(reply, requests)
    alone = list[asyncio.Task[None]]()
    for (request, answer), share, found in zip(asked, shares, replies, strict=True):
        if answer.done():
            continue
        if found is not None:
            answer.set_result(found)
        else:
            alone.append(asyncio.create_task(_ask_alone(model, request, answer, share)))
    try:
        await asyncio.gather(*alone)
    finally:
        for each in alone:
            each.cancel()


async def _ask_alone(
    model: Model, request: Request, answer: "asyncio.Future[Reply]", lost: Usage
) -> None:
    """Ask for one row.

    Args:
        lost: tokens of a reply without it.
    """
    try:
        with counting(model.spec.name):
            reply = await model.complete(request)
    except Exception as error:  # noqa: BLE001 - the run's own
        if not answer.done():
            answer.set_exception(_with(error, usage_of(error) + lost) if lost.total else error)
        return
    if not answer.done():
        answer.set_result(replace(reply, usage=reply.usage + lost))


def _fail(error: Exception, asked: list[Asked]) -> None:
    """Let all fail; each pays for its part of what came."""
    shares = shares_of(usage_of(error), len(asked))
    for (_, answer), share in zip(asked, shares, strict=True):
        if not answer.done():
            answer.set_exception(_with(error, share))


def _with(error: Exception, usage: Usage) -> Exception:
    """Copy an error with the tokens that a run pays for."""
    own = copy.copy(error)
    if hasattr(own, "usage"):
        own.usage = usage  # pyright: ignore[reportAttributeAccessIssue]
    return own
