"""How many calls one model carries at once, when all of them pause, and when none is tried.

One `Limiter` stands for one provider, base URL, model and credential.  It starts with few calls in
flight and allows one more with each answer.

    limited       the provider asks to slow down: half as many calls, after a pause
    open          nobody answers: no call for some seconds (a circuit breaker)
    on trial      after either, or after a refused key: one call goes first, the others wait for
                  how it ends

A call waits here for a second at most, because it holds a worker's slot meanwhile; then it raises,
and its run is parked without using up an attempt.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from walagent.base.retries import doubling, seconds
from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import ModelSpec, Reply, Request
from walagent.models.batches import Batches, batches_of
from walagent.models.cost import FLEX
from walagent.models.embeddings import embeds
from walagent.models.model import Model
from walagent.models.replies import storable_reply
from walagent.telemetry.log import log

# Seconds that a run waits for its provider, if it could ask its fall-back.
LONGEST_WAIT = 30.0

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """How far a limiter goes.

    Args:
        calls: most calls in flight for one model in this process.
        patience: seconds that a call waits for its place or for the end of a pause.
        pause: seconds of a pause when the provider names none; doubles up to `longest_pause`.
        failures: how many calls in a row go unanswered before none is tried.
        open_for: seconds for which then none is tried.
    """

    calls: int = 256
    patience: float = 1.0
    pause: float = 1.0
    longest_pause: float = 60.0
    failures: int = 5
    open_for: float = 5.0


@dataclass(eq=False, slots=True)
class _Call:
    began: float


class Limiter:
    """The state of one model."""

    def __init__(
        self, settings: LimitSettings, clock: Clock = time.monotonic, *, model: str = ""
    ) -> None:
        """Begin without knowing anything of the provider.

        Args:
            model: what log events call it.
        """
        self._settings = settings
        self._clock = clock
        self._model = model
        # A thousand connections opened in one instant time out on a busy machine.
        self._allowed = max(min(settings.calls, 64), settings.calls // 4)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._held_until = 0.0  # no call before
        self._why = ""
        self._on_trial = False
        self._trial: _Call | None = None  # the call that finds out for the others
        self._limited = 0  # pauses in a row, without an answer between
        self._slowed_at = 0.0  # when the last of them began
        self._failed = 0  # calls in a row
        self._opened_at: float | None = None
        self._closed_at = 0.0

    @property
    def most(self) -> int:
        """How many calls may be in flight now."""
        if self._clock() < self._held_until:
            return 0
        return 1 if self._on_trial else self._allowed

    @property
    def in_flight(self) -> int:
        """How many calls hold a place."""
        return self._in_flight

    @property
    def is_open(self) -> bool:
        """Whether the circuit breaker is open: the last calls went unanswered."""
        return self._opened_at is not None

    @property
    def is_out(self) -> bool:
        """Whether nobody answers, or not for so long that a fall-back is asked instead."""
        return self.is_open or self._held_until - self._clock() > LONGEST_WAIT

    @asynccontextmanager
    async def place(self, spec: ModelSpec) -> AsyncGenerator[None]:
        """Hold a place for one call of *spec*, and learn from how it ends.

        Raises:
            ModelLimitedError: the call was not sent, as it would have to wait for too long.
            ModelUnauthorizedError: another call has just learnt that the key is refused.
        """
        await self._take(spec)
        call = _Call(0.0)
        try:
            await self._wait_out_hold(spec)
            self._begin(call, spec)
            with self._learning(call):
                yield
        finally:
            if self._trial is call:
                self._trial = None
            self._give_back()

    # Getting a place.

    async def _take(self, spec: ModelSpec) -> None:
        """Wait for a place, first come first served."""
        if not self._waiting and self._in_flight < self._allowed:
            self._in_flight += 1
            return
        try:
            async with asyncio.timeout(self._settings.patience):
                await self._queue_up()
        except TimeoutError:
            why = f"has {self._in_flight} calls in flight"
            raise self._not_sent(spec, why, self._settings.pause) from None

    async def _queue_up(self) -> None:
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

    async def _wait_out_hold(self, spec: ModelSpec) -> None:
        while (left := self._held_until - self._clock()) > 0:
            if left > self._settings.patience:
                raise self._not_sent(spec, self._why, left)
            await asyncio.sleep(left)

    def _begin(self, call: _Call, spec: ModelSpec) -> None:
        """Send the call, unless another one is finding out whether that makes sense."""
        if self._on_trial:
            if self._trial is not None:
                raise self._not_sent(spec, "is being tried by another call", self._settings.pause)
            self._trial = call
        call.began = self._clock()

    def _not_sent(self, spec: ModelSpec, why: str, seconds: float) -> ModelLimitedError:
        error = ModelLimitedError(
            f"{spec.provider} {spec.model_id} {why}",
            retry_after=seconds,
            sent=False,
            breaker=self.is_open,
        )
        error.in_row = self._limited
        return error

    # Learning.

    @contextmanager
    def _learning(self, call: _Call) -> Generator[None]:
        try:
            yield
            self._answered()
            self._speed_up()
        except ModelLimitedError as error:
            self._answered()
            self._slow_down(call, error.retry_after)
            error.in_row = self._limited
            raise
        except ModelUnavailableError as error:
            on_trial = self._trial is call
            self._count_failure(call, error)
            if on_trial and self.is_open:
                raise self._of_trial(error) from None
            raise
        except ModelUnauthorizedError as error:
            self._answered()
            self._refuse(error)
            raise
        except WalagentError:
            self._answered()  # a refusal is an answer
            self._on_trial = False
            raise

    def _answered(self) -> None:
        """Somebody is there: close the breaker."""
        self._failed = 0
        if self._opened_at is None:
            return
        now = self._clock()
        log.info("breaker.closed", model=self._model, seconds=round(now - self._opened_at, 1))
        self._opened_at, self._closed_at = None, now
        self._on_trial, self._held_until = False, 0.0

    def _speed_up(self) -> None:
        self._limited, self._on_trial = 0, False
        self._allowed = min(self._settings.calls, self._allowed + 1)
        self._hand_over()

    def _slow_down(self, call: _Call, retry_after: float | None) -> None:
        now = self._clock()
        if call.began >= self._slowed_at:  # once a pause: the others in flight hear the same
            self._allowed = max(1, self._allowed // 2)
            self._limited += 1
            self._slowed_at = now
            # As many as before would ask in vain again, where half of them just did.
            self._on_trial = self._limited > 1
        wait = self._pause(retry_after)
        self._held_until, self._why = max(self._held_until, now + wait), "asked to slow down"
        if self._limited == 1 and self._slowed_at == now:
            log.warning("model.rate_limited", model=self._model, seconds=round(wait, 1))

    def _pause(self, asked: float | None) -> float:
        """Say how long to pause: as asked, unless nothing was, or it was not long enough."""
        settings = self._settings
        own = seconds(doubling(settings.pause, settings.longest_pause), self._limited)
        if not asked:  # also a date that has passed: again at once would be a storm
            return own
        return asked if self._limited == 1 else max(own, asked)

    def _count_failure(self, call: _Call, error: ModelUnavailableError) -> None:
        """Count a call that nobody answered, unless it tells of a time that is over."""
        if call.began < self._closed_at or (self.is_open and self._trial is not call):
            return
        self._failed += 1
        if not self.is_open and self._failed < self._settings.failures:
            return
        now, seconds = self._clock(), self._settings.open_for
        self._why = f"is not tried: {self._failed} calls in a row went unanswered"
        self._on_trial, self._held_until = True, max(self._held_until, now + seconds)
        if self._opened_at is None:
            self._opened_at = now
            log.warning(
                "breaker.opened",
                model=self._model,
                failures=self._failed,
                seconds=seconds,
                error=error,
            )

    def _of_trial(self, error: ModelUnavailableError) -> ModelUnavailableError:
        """Let the failure of a trial cost its run nothing: it asked on behalf of all.

        Its run comes back later than the next trial.  So that is another run's, if there is one,
        and a request that no provider can answer does not stand in the way of the others.
        """
        again = self._settings.open_for * 1.5
        return ModelUnavailableError(
            str(error), retry_after=again, counts=False, usage=error.usage, breaker=True
        )

    def _refuse(self, error: ModelUnauthorizedError) -> None:
        """The key is refused: tell those who wait with the same key, without sending theirs."""
        self._on_trial = True
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(ModelUnauthorizedError(str(error), hint=error.hint))


class LimitedModel:
    """A model whose calls go through a limiter; implements `Model`.

    Args:
        flex: the limiter of calls in the tier flex, whose capacity is another.
    """

    def __init__(self, model: Model, limiter: Limiter, flex: Limiter | None = None) -> None:
        self.model = model
        self.limiter = limiter
        self.flex = flex or limiter
        self.calls = 0  # that go on, or wait for their place
        self.refused = False  # whether its key was

    @property
    def spec(self) -> ModelSpec:
        """The registry's row for this model."""
        return self.model.spec

    @property
    def batches(self) -> Batches | None:
        """Those of the model, which the limits of calls do not count."""
        return batches_of(self.model)

    async def complete(self, request: Request) -> Reply:
        """Answer *request*; the request's timeout begins when the call has its place."""
        if request.embeds and not embeds(self.model):
            spec = self.model.spec
            raise ModelRejectedError(f"{spec.provider} {spec.model_id} makes no embeddings")
        self.calls += 1
        try:
            limiter = self.flex if request.tier else self.limiter
            async with limiter.place(self.model.spec):
                return storable_reply(await self.model.complete(request))
        except ModelUnauthorizedError:
            self.refused = True
            raise
        finally:
            self.calls -= 1

    async def aclose(self) -> None:
        """Give connections back."""
        await self.model.aclose()


class ModelLimits:
    """The limiters of this process, one for each model and tier of a provider, base URL and key.

    Providers count by model within a key, so one model that is limited says nothing of the others;
    and a server that is gone is found out for each model with a handful of requests.
    """

    def __init__(self, settings: LimitSettings | None = None) -> None:
        self._settings = settings or LimitSettings()
        self._limiters: dict[tuple[str | None, ...], Limiter] = {}

    def wrap(self, model: Model) -> LimitedModel:
        """Let *model* share the limiter of its kind."""
        spec = model.spec
        key = (spec.tenant, spec.provider, spec.base_url, spec.model_id, spec.credential)
        limiter = self._limiter(key, spec.label)
        flex = self._limiter((*key, FLEX), f"{spec.label} ({FLEX})") if spec.flex_factor else None
        return LimitedModel(model, limiter, flex)

    def _limiter(self, key: tuple[str | None, ...], model: str) -> Limiter:
        if key not in self._limiters:
            self._limiters[key] = Limiter(self._settings, model=model)
        return self._limiters[key]
