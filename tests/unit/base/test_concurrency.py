"""Races of tasks, turns of a loop."""

import asyncio
from collections.abc import Callable
from typing import Never

import pytest

from tests.helpers.clock import run_jumping
from walagent.base.concurrency import Periodic, event_within, first_of


async def after(seconds: float, result: str) -> str:
    """Return *result* after so many seconds."""
    await asyncio.sleep(seconds)
    return result


async def fail_after(seconds: float, error: Exception) -> Never:
    """Raise *error* after so many seconds."""
    await asyncio.sleep(seconds)
    raise error


class Endless:
    """A task that ends only by cancellation, and takes a second to clean up."""

    started = ended = False

    async def run(self) -> Never:
        """Wait to be cancelled."""
        self.started = True
        try:
            await asyncio.Event().wait()
            raise AssertionError("unreachable")
        finally:
            await asyncio.sleep(1)
            self.ended = True


# first_of


def test_the_result_of_the_first_is_returned_and_the_others_have_ended() -> None:
    """Also one that takes a while to clean up."""
    other = Endless()
    assert run_jumping(first_of(other=other.run(), quick=after(1, "quick"))) == "quick"
    assert other.ended


def test_the_error_of_the_first_is_raised_and_the_others_have_ended() -> None:
    """It is the same exception, not a group."""
    other, error = Endless(), KeyError("first")
    with pytest.raises(KeyError) as caught:
        run_jumping(first_of(other=other.run(), quick=fail_after(1, error)))
    assert caught.value is error
    assert other.ended


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_of_several_that_end_together_the_first_argument_counts(order: tuple[str, str]) -> None:
    """Whichever task the event loop ran first."""
    assert run_jumping(first_of(**{name: after(0, name) for name in order})) == order[0]


def test_a_result_counts_although_a_later_argument_fails_at_the_same_time() -> None:
    """A question that has its answer is answered."""
    failing = fail_after(0, KeyError("late"))
    assert run_jumping(first_of(answer=after(0, "answer"), failing=failing)) == "answer"


def test_an_error_counts_although_a_later_argument_fails_at_the_same_time() -> None:
    """Of two errors, the first argument's is raised."""
    parts = {name: fail_after(0, KeyError(name)) for name in ("one", "two")}
    with pytest.raises(KeyError, match="one"):
        run_jumping(first_of(**parts))


def test_what_a_loser_raises_while_it_is_cancelled_is_dropped() -> None:
    """The winner's result is not lost to it."""

    async def fails_to_clean_up() -> str:
        try:
            return await after(60, "late")
        finally:
            raise KeyError("cleaning up")

    assert run_jumping(first_of(won=after(1, "won"), lost=fails_to_clean_up())) == "won"


def test_cancelling_the_race_cancels_all_and_waits_for_them() -> None:
    """Nothing runs on behind a caller that has gone."""
    parts = [Endless(), Endless()]

    async def cancelled_soon() -> None:
        racing = asyncio.create_task(first_of(one=parts[0].run(), two=parts[1].run()))
        await asyncio.sleep(1)
        racing.cancel()
        await racing

    with pytest.raises(asyncio.CancelledError):
        run_jumping(cancelled_soon())
    assert all(part.started and part.ended for part in parts)


def test_tasks_carry_the_names_of_the_arguments() -> None:
    """A dump of all tasks says which is which."""

    async def name() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    assert run_jumping(first_of(heartbeat=name())) == "heartbeat"


# event_within


def test_an_event_that_is_set_in_time_ends_the_wait() -> None:
    """The caller goes on at once."""

    async def main() -> tuple[bool, float]:
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.call_later(2, event.set)
        return await event_within(event, 5), loop.time()

    is_set, at = run_jumping(main())
    assert is_set
    assert at == pytest.approx(2)


def test_an_event_that_is_not_set_is_waited_for_no_longer_than_asked() -> None:
    """That is no error."""

    async def main() -> tuple[bool, float]:
        return await event_within(asyncio.Event(), 5), asyncio.get_running_loop().time()

    is_set, at = run_jumping(main())
    assert not is_set
    assert at == pytest.approx(5)


def test_cancelling_the_wait_is_no_timeout() -> None:
    """Stopping must not look like the passing of time."""

    async def main() -> None:
        waiting = asyncio.create_task(event_within(asyncio.Event(), 5))
        await asyncio.sleep(1)
        waiting.cancel()
        await waiting

    with pytest.raises(asyncio.CancelledError):
        run_jumping(main())


# Periodic


def turns(
    periodic: Callable[[], Periodic],
    count: int,
    *,
    work: float = 0.0,
    nudges: tuple[float, ...] = (),
) -> list[tuple[float, bool]]:
    """Run some turns whose work takes so long; give the time of each, and whether it was nudged."""

    async def main() -> list[tuple[float, bool]]:
        loop, made, seen = asyncio.get_running_loop(), periodic(), []
        for at in nudges:
            loop.call_at(at, made.nudge)
        async for nudged in made:
            seen.append((round(loop.time(), 3), nudged))
            if len(seen) == count:
                break
            await asyncio.sleep(work)
        return seen

    return run_jumping(main())


def test_the_first_turn_comes_at_once_and_then_one_each_period() -> None:
    """Nobody nudges."""
    assert turns(lambda: Periodic(5), 3) == [(0, False), (5, False), (10, False)]


def test_the_first_turn_can_wait_its_period() -> None:
    """For what makes no sense right after a start."""
    assert turns(lambda: Periodic(5, at_once=False), 2) == [(5, False), (10, False)]


def test_work_does_not_delay_the_turns() -> None:
    """A heartbeat of slow statements is no slower."""
    assert [at for at, _ in turns(lambda: Periodic(5), 4, work=3)] == [0, 5, 10, 15]


def test_turns_that_long_work_missed_are_skipped() -> None:
    """One turn follows at once; none are made up for."""
    assert [at for at, _ in turns(lambda: Periodic(5), 3, work=17)] == [0, 17, 34]


def test_a_rest_is_kept_after_long_work() -> None:
    """A slow database gets a pause between two looks."""
    assert [at for at, _ in turns(lambda: Periodic(5, rest=2), 3, work=17)] == [0, 19, 38]


def test_a_nudge_brings_the_next_turn_forward_and_restarts_the_period() -> None:
    """The turn after it comes a whole period later."""
    seen = turns(lambda: Periodic(5), 4, nudges=(7,))
    assert seen == [(0, False), (5, False), (7, True), (12, False)]


def test_a_nudge_during_a_turn_adds_one_after_it() -> None:
    """What the turn has read already may be out of date; several nudges are one."""
    seen = turns(lambda: Periodic(50), 3, work=3, nudges=(1, 2))
    assert seen == [(0, False), (3, True), (53, False)]


def test_a_nudge_before_the_first_turn_starts_it() -> None:
    """Nothing is lost before the loop runs."""
    assert turns(lambda: Periodic(5, at_once=False), 1, nudges=(1,)) == [(1, True)]


def test_nudges_leave_a_rest_between_turns() -> None:
    """However often it is nudged."""
    nudges = tuple(number / 10 for number in range(1, 30))
    seen = turns(lambda: Periodic(60, rest=1), 4, nudges=nudges)
    assert [at for at, _ in seen] == [0, 1, 2, 3]


def test_a_loop_that_is_nudged_in_each_turn_lets_others_run() -> None:
    """A body that never waits must not starve the event loop."""

    async def main() -> int:
        periodic, count, over = Periodic(60), 0, asyncio.Event()
        asyncio.get_running_loop().call_soon(over.set)
        async for _ in periodic:
            count += 1
            periodic.nudge()
            if over.is_set() or count == 100:
                break
        return count

    assert run_jumping(main()) < 100


def test_an_error_of_the_body_ends_the_loop_which_can_start_again() -> None:
    """The first turn of the new loop comes at once, like that of the first loop."""
    periodic, seen = Periodic(5), []

    async def failing() -> None:
        async for _ in periodic:
            seen.append(asyncio.get_running_loop().time())
            await asyncio.sleep(1)
            raise KeyError("body")

    async def main() -> list[float]:
        for _ in range(2):
            with pytest.raises(KeyError, match="body"):
                await failing()
        return seen

    assert run_jumping(main()) == [0, 1]


@pytest.mark.parametrize("when", [0.5, 3])
def test_cancelling_ends_the_loop_in_its_work_and_in_its_wait(when: float) -> None:
    """No turn follows."""

    async def main() -> int:
        count = 0

        async def body() -> None:
            nonlocal count
            async for _ in Periodic(5):
                count += 1
                await asyncio.sleep(1)

        looping = asyncio.create_task(body())
        await asyncio.sleep(when)
        looping.cancel()
        await asyncio.wait({looping}, timeout=60)
        assert looping.cancelled()
        return count

    assert run_jumping(main()) == 1
