"""How many calls a model carries, when all of them pause, and when none is tried."""

import asyncio

import pytest

from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
)
from walagent.message import Message, ModelSpec, Reply, Request, Stop, Text, ToolCall
from walagent.models.limits import LimitedModel, Limiter, LimitSettings, ModelLimits
from walagent.testing import ScriptedModel

SPEC = ModelSpec("m", "openai", "x")
REQUEST = Request("", (Message("user", (Text("q"),)),))
DOWN = ModelUnavailableError("down")


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


async def held(limiter: Limiter) -> float | None:
    """Make a call that is not sent; give the seconds that it is told to wait."""
    with pytest.raises(ModelLimitedError) as caught:
        await succeed(limiter)
    assert not caught.value.sent
    return caught.value.retry_after


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


async def test_a_model_starts_with_few_calls_and_gets_more_with_each_answer() -> None:
    """A burst of new connections times out on a busy machine."""
    limiter = Limiter(LimitSettings(calls=66))
    assert limiter.most == 64
    for expected in (65, 66, 66):
        await succeed(limiter)
        assert limiter.most == expected


async def test_a_call_waits_for_its_place_for_a_moment_only() -> None:
    """It holds a worker's slot meanwhile, which another model's run could use."""
    gate = Gate(Limiter(LimitSettings(calls=1, patience=0.02)))
    (first,) = await gate.start(1)
    with pytest.raises(ModelLimitedError, match="openai x has 1 calls in flight") as caught:
        await gate.call(2)
    assert not caught.value.sent
    await gate.end(1)
    await first
    assert gate.limiter.in_flight == 0
    await succeed(gate.limiter)


# Limited.


async def test_a_limited_call_pauses_every_call_of_its_model() -> None:
    """For as long as the provider said; a long pause is not waited for here."""
    clock = Clock()
    limiter = Limiter(LimitSettings(), clock)
    await fail(limiter, ModelLimitedError("slow", retry_after=30))
    clock.now += 10
    assert limiter.most == 0
    assert await held(limiter) == 20
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
    """A hundred calls that hear the same 429 are one pause, however late they hear it."""
    clock = Clock()
    gate = Gate(Limiter(LimitSettings(calls=64), clock))
    tasks = await gate.start(1, 2, 3)
    clock.now += 1
    for number in (1, 2):
        await gate.end(number, ModelLimitedError("slow", retry_after=9))
    assert gate.limiter.most == 0
    clock.now += 10
    assert gate.limiter.most == 32
    await gate.end(3, ModelLimitedError("slow", retry_after=9))
    await asyncio.gather(*tasks, return_exceptions=True)
    clock.now += 10
    assert gate.limiter.most == 32
    await fail(gate.limiter, ModelLimitedError("slow", retry_after=9))
    clock.now += 10
    await succeed(gate.limiter)
    assert gate.limiter.most == 17


@pytest.mark.parametrize("asked", [None, 0.0], ids=["nothing", "a date that has passed"])
async def test_pauses_without_a_length_grow(asked: float | None) -> None:
    """Up to a longest one; an answer starts them over.  Again at once would be a storm."""
    clock = Clock()
    limiter = Limiter(LimitSettings(patience=0, pause=1, longest_pause=3), clock)
    for expected in (1, 2, 3, 3):
        await fail(limiter, ModelLimitedError("slow", retry_after=asked))
        assert await held(limiter) == expected
        clock.now += expected
    await succeed(limiter)
    await fail(limiter, ModelLimitedError("slow", retry_after=asked))
    assert await held(limiter) == 1


async def test_a_pause_that_was_too_short_grows_too() -> None:
    """A provider that asks for a second each time, and never answers, is not asked each second."""
    clock = Clock()
    limiter = Limiter(LimitSettings(patience=0, pause=1), clock)
    for expected in (1, 2, 4, 8):
        await fail(limiter, ModelLimitedError("slow", retry_after=1))
        assert await held(limiter) == expected
        clock.now += expected


async def test_after_a_second_pause_one_call_goes_first() -> None:
    """After the first, half of them go: a provider that is a little busy loses no time."""
    clock = Clock()
    gate = Gate(Limiter(LimitSettings(calls=8), clock))
    await fail(gate.limiter, ModelLimitedError("slow"))
    clock.now += 1
    assert gate.limiter.most == 4
    await fail(gate.limiter, ModelLimitedError("slow"))
    clock.now += 2
    assert gate.limiter.most == 1
    (trial,) = await gate.start(1)
    assert await held(gate.limiter) == 1
    await gate.end(1)
    await trial
    assert gate.limiter.most == 3


# Open.


async def test_after_failures_in_a_row_nothing_is_tried_for_a_while() -> None:
    """Then one call finds out for the others."""
    clock = Clock()
    gate = Gate(Limiter(LimitSettings(failures=2, open_for=10), clock))
    for _ in range(2):
        assert not gate.limiter.is_open
        await fail(gate.limiter, DOWN)
    assert gate.limiter.is_open
    assert gate.limiter.most == 0
    with pytest.raises(ModelLimitedError, match="is not tried: 2 calls in a row"):
        await succeed(gate.limiter)
    clock.now += 10
    assert gate.limiter.most == 1
    (trial,) = await gate.start(1)
    clock.now += 60  # however long it takes
    assert await held(gate.limiter) == 1
    await gate.end(1)
    await trial
    assert not gate.limiter.is_open
    assert gate.limiter.most > 1
    await succeed(gate.limiter)


async def test_a_trial_that_fails_opens_again_and_costs_its_run_nothing() -> None:
    """Its run comes back after the next trial, which another run makes, if there is one."""
    clock = Clock()
    limiter = Limiter(LimitSettings(patience=0, failures=1, open_for=10), clock)
    await fail(limiter, DOWN)
    clock.now += 10
    with pytest.raises(ModelUnavailableError, match="still down") as caught:
        async with limiter.place(SPEC):
            raise ModelUnavailableError("still down")
    assert not caught.value.counts
    assert caught.value.retry_after == 15
    clock.now += 9
    assert await held(limiter) == 1


async def test_a_trial_that_is_cancelled_makes_room_for_another() -> None:
    """A worker that stops does not leave the breaker open for ever."""
    clock = Clock()
    gate = Gate(Limiter(LimitSettings(failures=1, open_for=10), clock))
    await fail(gate.limiter, DOWN)
    clock.now += 10
    (trial,) = await gate.start(1)
    trial.cancel()
    await settle()
    await succeed(gate.limiter)
    assert not gate.limiter.is_open


async def test_what_began_before_the_breaker_closed_does_not_open_it_again() -> None:
    """Calls that hang for minutes tell of minutes ago."""
    clock = Clock()
    gate = Gate(Limiter(LimitSettings(failures=2, open_for=10), clock))
    old = await gate.start(1, 2, 3, 4)
    await gate.end(1, DOWN)
    await gate.end(2, DOWN)
    clock.now += 10
    await succeed(gate.limiter)
    clock.now += 1
    await gate.end(3, DOWN)
    await gate.end(4, DOWN)
    await asyncio.gather(*old, return_exceptions=True)
    assert not gate.limiter.is_open


@pytest.mark.parametrize(
    "answer", [ModelRejectedError("no"), ModelLimitedError("slow", retry_after=0.001)], ids=repr
)
async def test_a_refusal_is_an_answer(answer: Exception) -> None:
    """Failures in a row are calls that nobody answered."""
    limiter = Limiter(LimitSettings(failures=2))
    await fail(limiter, DOWN)
    await fail(limiter, answer)
    await fail(limiter, DOWN)
    assert not limiter.is_open
    await succeed(limiter)


# Refused keys.


async def test_a_refused_key_is_tried_by_one_call_at_a_time() -> None:
    """Who waits for a place with the same key hears it without asking."""
    gate = Gate(Limiter(LimitSettings(calls=2)))
    tasks = await gate.start(1, 2, 3, 4)
    await gate.end(1, ModelUnauthorizedError("no such key", hint="mend it"))
    for task in tasks[2:]:
        error = task.exception()
        assert isinstance(error, ModelUnauthorizedError)
        assert (str(error), error.hint) == ("no such key", "mend it")
    assert gate.inside == [1, 2]
    await gate.end(2, ModelUnauthorizedError("no such key"))
    await asyncio.gather(*tasks, return_exceptions=True)
    (trial,) = await gate.start(5)
    assert gate.limiter.most == 1
    assert await held(gate.limiter) == 1
    await gate.end(5)
    await trial
    assert gate.limiter.most == 2


# Whose limiter.


def model(model_id: str, credential: str, *replies: object, url: str = "") -> ScriptedModel:
    """A model that answers so."""
    spec = ModelSpec(model_id, "openai", model_id, url or None, credential)
    return ScriptedModel(replies, spec=spec)  # pyright: ignore[reportArgumentType]


async def test_each_model_of_each_key_has_a_limiter_of_its_own() -> None:
    """Providers count by model within a key; two names of one model are one."""
    limits = ModelLimits(LimitSettings(failures=1))
    down = limits.wrap(model("a", "K", DOWN))
    with pytest.raises(ModelUnavailableError, match="down"):
        await down.complete(REQUEST)
    with pytest.raises(ModelLimitedError, match="openai a is not tried"):
        await limits.wrap(model("a", "K", "ok")).complete(REQUEST)
    for other in (model("b", "K", "ok"), model("a", "L", "ok"), model("a", "K", "ok", url="u")):
        assert (await limits.wrap(other).complete(REQUEST)).text == "ok"


async def test_a_reply_of_any_provider_can_be_stored() -> None:
    """A lone surrogate ended the run as a crash: the model is told, as of other arguments."""
    half = Reply((Text("a\ud800"), ToolCall("1", "set", {"category": "x\ud800"})), Stop.TOOL)
    whole = Reply((Text("a"), ToolCall("2", "set", {"category": "\U0001f600 \\u0000"})), Stop.TOOL)
    model = LimitedModel(ScriptedModel([half, whole]), Limiter(LimitSettings()))
    reply = await model.complete(REQUEST)
    assert reply.text == "a\ufffd"
    (call,) = reply.calls
    assert (call.name, call.arguments) == ("set", None)
    assert "surrogate" in call.problem
    said = (*REQUEST.messages, Message("assistant", reply.parts))
    assert await model.complete(Request("", said)) == whole
