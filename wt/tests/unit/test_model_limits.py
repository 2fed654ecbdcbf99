"""How many calls a key carries, when all of them pause, and when none is tried."""

import asyncio

import pytest

from walagent.agent.models.limits import Limiter, Limits, LimitSettings
from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnavailableError,
)
from walagent.message import Message, ModelSpec, Reply, Request, Stop, Text
from walagent.testing import ScriptedModel

SPEC = ModelSpec("m", "openai", "x")
REQUEST = Request("", (Message("user", (Text("q"),)),))
REPLY = Reply((Text("ok"),), Stop.END)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        """Start at noon."""
        self.now = 1_000.0

    def __call__(self) -> float:
        """Read it."""
        return self.now


class Gate:
    """Calls that stay in flight until the test ends them."""

    def __init__(self, limiter: Limiter) -> None:
        """Go through *limiter*."""
        self.limiter = limiter
        self.inside: list[int] = []
        self.ends: dict[int, asyncio.Future[None]] = {}

    async def call(self, number: int) -> None:
        """Hold a place until `end`."""
        async with self.limiter.place(SPEC):
            self.inside.append(number)
            self.ends[number] = asyncio.get_running_loop().create_future()
            await self.ends[number]

    async def start(self, *numbers: int) -> list[asyncio.Task[None]]:
        """Start calls, and let each get as far as it can."""
        tasks = [asyncio.create_task(self.call(number)) for number in numbers]
        await settle()
        return tasks

    async def end(self, number: int, error: Exception | None = None) -> None:
        """End a call that is inside."""
        if error is None:
            self.ends[number].set_result(None)
        else:
            self.ends[number].set_exception(error)
        await settle()


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


async def fail(limiter: Limiter, error: Exception) -> None:
    """Make one call that ends with *error*."""
    with pytest.raises(type(error)):
        async with limiter.place(SPEC):
            raise error


async def succeed(limiter: Limiter) -> None:
    """Make one call that succeeds."""
    async with limiter.place(SPEC):
        pass


async def test_no_more_calls_than_allowed_are_in_flight_and_the_first_come_first() -> None:
    """A place that is given back goes to who has waited longest."""
    gate = Gate(Limiter(LimitSettings(calls=2)))
    tasks = await gate.start(1, 2, 3, 4)
    assert gate.inside == [1, 2]
    await gate.end(2)
    assert gate.inside == [1, 2, 3]
    await gate.end(1)
    assert gate.inside == [1, 2, 3, 4]
    await gate.end(3)
    await gate.end(4)
    await asyncio.gather(*tasks)
    assert gate.limiter.in_flight == 0


async def test_a_call_that_is_cancelled_while_it_waits_leaves_no_hole() -> None:
    """Neither before its turn nor in the very instant of it."""
    gate = Gate(Limiter(LimitSettings(calls=1)))
    first, second, third = await gate.start(1, 2, 3)
    gate.ends[1].set_result(None)
    await asyncio.sleep(0)  # 1 hands its place to 2, which has not run yet
    second.cancel()
    await settle()
    assert first.done()
    assert gate.inside == [1, 3]
    fourth = (await gate.start(4))[0]
    fourth.cancel()
    await gate.end(3)
    await third
    assert gate.limiter.in_flight == 0
    await succeed(gate.limiter)


async def test_a_key_starts_with_few_calls_and_gets_more_with_each_answer() -> None:
    """A burst of new connections times out on a busy machine."""
    limiter = Limiter(LimitSettings(calls=66))
    assert limiter.allowed == 64
    for expected in (65, 66, 66):
        await succeed(limiter)
        assert limiter.allowed == expected


async def test_a_limited_call_pauses_every_call_of_its_key() -> None:
    """For as long as the provider said; a long pause is not waited for here."""
    clock = Clock()
    limiter = Limiter(LimitSettings(patience=5), clock)
    await fail(limiter, ModelLimitedError("slow", retry_after=30))
    clock.now += 10
    with pytest.raises(ModelLimitedError) as caught:
        await succeed(limiter)
    assert caught.value.retry_after == 20
    clock.now += 20
    await succeed(limiter)


async def test_a_short_pause_is_waited_out() -> None:
    """No run is parked for the blink of an eye."""
    limiter = Limiter(LimitSettings())
    loop = asyncio.get_running_loop()
    began = loop.time()
    await fail(limiter, ModelLimitedError("slow", retry_after=0.05))
    await asyncio.wait_for(succeed(limiter), 5)
    assert loop.time() - began >= 0.05


async def test_a_pause_halves_what_is_allowed_once() -> None:
    """A hundred calls that hear the same 429 are one pause."""
    clock = Clock()
    gate = Gate(Limiter(LimitSettings(calls=64), clock))
    tasks = await gate.start(1, 2, 3)
    for number in (1, 2, 3):
        await gate.end(number, ModelLimitedError("slow", retry_after=9))
    await asyncio.gather(*tasks, return_exceptions=True)
    assert gate.limiter.allowed == 32
    clock.now += 10
    await fail(gate.limiter, ModelLimitedError("slow", retry_after=9))
    assert gate.limiter.allowed == 16


async def test_pauses_without_a_length_grow() -> None:
    """Up to a longest one; an answer starts them over."""
    clock = Clock()
    limiter = Limiter(LimitSettings(patience=0, pause=1, longest_pause=3), clock)
    for expected in (1, 2, 3, 3):
        await fail(limiter, ModelLimitedError("slow"))
        with pytest.raises(ModelLimitedError) as caught:
            await succeed(limiter)
        assert caught.value.retry_after == expected
        clock.now += expected
    await succeed(limiter)
    await fail(limiter, ModelLimitedError("slow"))
    with pytest.raises(ModelLimitedError) as caught:
        await succeed(limiter)
    assert caught.value.retry_after == 1


async def test_after_failures_in_a_row_nothing_is_tried_for_a_while() -> None:
    """Then one call finds out for the others."""
    clock = Clock()
    gate = Gate(Limiter(LimitSettings(failures=2, closed_for=10), clock))
    for _ in range(2):
        await fail(gate.limiter, ModelUnavailableError("down"))
    with pytest.raises(ModelLimitedError, match="is not tried: 2 calls in a row"):
        await succeed(gate.limiter)
    clock.now += 10
    (probe,) = await gate.start(1)
    with pytest.raises(ModelLimitedError, match="is not tried"):
        await succeed(gate.limiter)
    await gate.end(1)
    await probe
    await succeed(gate.limiter)


async def test_a_probe_that_fails_closes_again() -> None:
    """For another term, counted from its failure."""
    clock = Clock()
    limiter = Limiter(LimitSettings(failures=1, closed_for=10), clock)
    await fail(limiter, ModelUnavailableError("down"))
    clock.now += 10
    await fail(limiter, ModelUnavailableError("still down"))
    clock.now += 9
    with pytest.raises(ModelLimitedError, match="is not tried"):
        await succeed(limiter)


async def test_a_refusal_is_an_answer() -> None:
    """Failures in a row are calls that nobody answered."""
    limiter = Limiter(LimitSettings(failures=2))
    await fail(limiter, ModelUnavailableError("down"))
    await fail(limiter, ModelRejectedError("no"))
    await fail(limiter, ModelUnavailableError("down"))
    await succeed(limiter)


async def test_models_of_one_key_share_a_limiter_and_others_do_not() -> None:
    """A provider counts by key."""
    limits = Limits(LimitSettings(failures=1))

    def model(model_id: str, credential: str, *replies: object) -> ScriptedModel:
        spec = ModelSpec(model_id, "openai", model_id, credential=credential)
        return ScriptedModel(replies, spec=spec)  # pyright: ignore[reportArgumentType]

    down = limits.wrap(model("a", "K", ModelUnavailableError("down")))
    same_key = limits.wrap(model("b", "K", "ok"))
    other_key = limits.wrap(model("a", "L", "ok"))
    with pytest.raises(ModelUnavailableError, match="down"):
        await down.complete(REQUEST)
    with pytest.raises(ModelLimitedError, match="openai b is not tried"):
        await same_key.complete(REQUEST)
    assert (await other_key.complete(REQUEST)).text == "ok"
