"""How many calls one key carries at once, when all of them pause, and when none is tried.

One `Limiter` stands for one provider, base URL and credential, since a provider counts by key.
It starts with few calls in flight, allows one more with each answer, halves and pauses when the
provider asks to slow down, and tries nothing for some seconds when nobody answers at all.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from walagent.agent.model import Model
from walagent.errors import ModelLimitedError, ModelUnavailableError, WalagentError
from walagent.message import ModelSpec, Reply, Request

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """How far a limiter goes.

    Args:
        calls: most calls in flight for one key in this process.
        patience: seconds of a pause that a call waits out; before a longer one its run is parked.
        pause: seconds of a pause when the provider names none; doubles up to `longest_pause`.
        failures: how many calls in a row go unanswered before none is tried.
        closed_for: seconds for which then none is tried.
    """

    calls: int = 256
    patience: float = 10.0
    pause: float = 1.0
    longest_pause: float = 60.0
    failures: int = 5
    closed_for: float = 10.0


class Limiter:
    """The state of one key."""

    def __init__(self, settings: LimitSettings, clock: Clock = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        # A thousand connections opened in one instant time out on a busy machine.
        self._allowed = max(min(settings.calls, 64), settings.calls // 4)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._paused_until = 0.0
        self._limited = 0  # pauses in a row
        self._failed = 0  # calls in a row
        self._closed_until = 0.0

    @property
    def allowed(self) -> int:
        """How many calls may be in flight now."""
        return self._allowed

    @property
    def in_flight(self) -> int:
        """How many calls hold a place."""
        return self._in_flight

    @asynccontextmanager
    async def place(self, spec: ModelSpec) -> AsyncGenerator[None]:
        """Hold a place for one call of *spec*, and learn from how it ends.

        Raises:
            ModelLimitedError: the pause is longer than a call should wait, or nobody has
                answered lately.
        """
        await self._take()
        try:
            self._refuse_while_closed(spec)
            await self._wait_out_pause(spec)
            with self._learning():
                yield
        finally:
            self._give_back()

    async def _take(self) -> None:
        """Wait for a place, first come first served."""
        if not self._waiting and self._in_flight < self._allowed:
            self._in_flight += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():  # the place was handed over in the same instant
                self._give_back()
            raise

    def _give_back(self) -> None:
        self._in_flight -= 1
        self._hand_over()

    def _hand_over(self) -> None:
        """Give free places to those who wait; each is counted before its taker wakes up."""
        while self._waiting and self._in_flight < self._allowed:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self._in_flight += 1
                turn.set_result(None)

    def _refuse_while_closed(self, spec: ModelSpec) -> None:
        if self._failed < self._settings.failures:
            return
        now = self._clock()
        if now < self._closed_until:
            raise ModelLimitedError(  # nothing was tried, so it costs no attempt
                f"{spec.provider} {spec.model_id} is not tried: "
                f"{self._failed} calls in a row went unanswered",
                retry_after=self._closed_until - now,
            )
        # This call finds out for the others, which wait another term.
        self._closed_until = now + self._settings.closed_for

    async def _wait_out_pause(self, spec: ModelSpec) -> None:
        while (left := self._paused_until - self._clock()) > 0:
            if left > self._settings.patience:
                raise ModelLimitedError(
                    f"{spec.provider} {spec.model_id} asked to slow down", retry_after=left
                )
            await asyncio.sleep(left)

    @contextmanager
    def _learning(self) -> Generator[None]:
        try:
            yield
            self._speed_up()
        except ModelLimitedError as error:
            self._slow_down(error.retry_after)
            raise
        except ModelUnavailableError:
            self._count_failure()
            raise
        except WalagentError:
            self._failed = 0  # a refusal is an answer
            raise

    def _speed_up(self) -> None:
        self._limited = self._failed = 0
        self._allowed = min(self._settings.calls, self._allowed + 1)
        self._hand_over()

    def _slow_down(self, retry_after: float | None) -> None:
        self._failed = 0
        now = self._clock()
        if now >= self._paused_until:  # once a pause: the other calls in flight hear the same
            self._allowed = max(1, self._allowed // 2)
            self._limited += 1
        wait = self._own_pause() if retry_after is None else retry_after
        self._paused_until = max(self._paused_until, now + wait)

    def _own_pause(self) -> float:
        doublings = min(self._limited - 1, 16)
        return min(self._settings.longest_pause, self._settings.pause * 2**doublings)

    def _count_failure(self) -> None:
        self._failed += 1
        if self._failed >= self._settings.failures:
            self._closed_until = self._clock() + self._settings.closed_for


@dataclass(frozen=True, slots=True)
class LimitedModel:
    """A model whose calls go through a limiter; implements `Model`."""

    model: Model
    limiter: Limiter

    @property
    def spec(self) -> ModelSpec:
        """The registry's row for this model."""
        return self.model.spec

    async def complete(self, request: Request) -> Reply:
        """Answer *request*; the request's timeout begins when the call has its place."""
        async with self.limiter.place(self.model.spec):
            return await self.model.complete(request)

    async def aclose(self) -> None:
        """Give connections back."""
        await self.model.aclose()


class Limits:
    """The limiters of this process, one for each key."""

    def __init__(self, settings: LimitSettings | None = None) -> None:
        self._settings = settings or LimitSettings()
        self._limiters: dict[tuple[str, str | None, str | None], Limiter] = {}

    def wrap(self, model: Model) -> LimitedModel:
        """Let *model* share the limiter of its key."""
        spec = model.spec
        key = (spec.provider, spec.base_url, spec.credential)
        return LimitedModel(model, self._limiters.setdefault(key, Limiter(self._settings)))
