"""Calls that are made at about one time, and carried out together.

Each has its own result or error, and pays for its own part of what came: what a run records does
not depend on the others.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from walagent.errors import ModelError
from walagent.models.usage import usage_of

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(eq=False, frozen=True, slots=True)
class Waiting(Generic[Asked, Answer]):
    """A call that waits for its result."""

    asked: Asked
    result: "asyncio.Future[Answer]"

    def succeed(self, answer: Answer) -> None:
        """Give it its result, if it still waits."""
        if not self.result.done():
            self.result.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Let it fail, if it still waits."""
        if not self.result.done():
            self.result.set_exception(error)


CarryOut = Callable[[Sequence[Waiting[Asked, Answer]]], Awaitable[None]]
"""Succeeds or fails each of some calls; what it raises is raised by all that still wait."""


@dataclass(eq=False, slots=True)
class _Group(Generic[Asked, Answer]):
    """Calls that wait for others.

    Args:
        until: time of the loop at which it is carried out at the latest.
    """

    carry_out: CarryOut[Asked, Answer]
    until: float
    waiting: list[Waiting[Asked, Answer]] = field(default_factory=list[Waiting[Asked, Answer]])
    size: int = 0
    timer: asyncio.TimerHandle | None = None


class Gathering(Generic[Asked, Answer]):
    """The calls of one kind in this process.

    Args:
        quiet: seconds without another call after which a group is carried out.
        longest: seconds for which a call waits for others.
        size: of the calls of a group, at most; one call can be larger.
    """

    def __init__(self, *, quiet: float, longest: float, size: int) -> None:
        self._quiet = quiet
        self._longest = longest
        self._size = size
        self._open = dict[Hashable, _Group[Asked, Answer]]()
        self._tasks = set[asyncio.Task[None]]()

    async def ask(
        self,
        key: Hashable,
        asked: Asked,
        carry_out: CarryOut[Asked, Answer],
        *,
        size: int,
        most: int,
    ) -> Answer:
        """Ask with what others ask of *key* meanwhile; raises what *carry_out* raises.

        Args:
            most: calls of a group.
        """
        loop = asyncio.get_running_loop()
        group = self._open.get(key)
        if group is not None and group.size + size > self._size:
            self._close(key)
            group = None
        if group is None:
            group = self._open[key] = _Group(carry_out, loop.time() + self._longest)
        call: Waiting[Asked, Answer] = Waiting(asked, loop.create_future())
        group.waiting.append(call)
        group.size += size
        if group.timer is not None:
            group.timer.cancel()
        if len(group.waiting) == most:
            self._close(key)
        else:
            at = min(loop.time() + self._quiet, group.until)
            group.timer = loop.call_at(at, self._close, key)
        return await call.result

    async def aclose(self) -> None:
        """End what is under way; calls that wait are cancelled."""
        for group in self._open.values():
            for call in group.waiting:
                call.result.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _close(self, key: Hashable) -> None:
        group = self._open.pop(key)
        if group.timer is not None:
            group.timer.cancel()
        waiting = [call for call in group.waiting if not call.result.done()]
        if not waiting:
            return
        task = asyncio.create_task(_carry_out(group.carry_out, waiting), name="gathered calls")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        for call in waiting:
            call.result.add_done_callback(lambda _: _leave(task, waiting))


def fail_all(waiting: Sequence[Waiting[Asked, Answer]], error: Exception) -> None:
    """Let all fail; each pays for its part of the tokens that came."""
    shares = usage_of(error).shares(len(waiting))
    for call, share in zip(waiting, shares, strict=True):
        own = copy.copy(error)
        if isinstance(own, ModelError):
            own.usage = share
        call.fail(own)


async def _carry_out(
    carry_out: CarryOut[Asked, Answer], waiting: Sequence[Waiting[Asked, Answer]]
) -> None:
    try:
        await carry_out(waiting)
    except Exception as error:  # noqa: BLE001 - it is raised where the calls are made
        fail_all(waiting, error)
    finally:
        for call in waiting:
            call.result.cancel()  # nothing, unless this task was cancelled


def _leave(task: "asyncio.Task[None]", waiting: Sequence[Waiting[Asked, Answer]]) -> None:
    """Do no more if nobody waits."""
    if all(call.result.done() for call in waiting):
        task.cancel()
