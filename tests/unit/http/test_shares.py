"""Places that are shared: what one principal or tenant takes, others still have."""

import asyncio
from contextlib import AsyncExitStack, ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.domain.tenant import Actor
from walagent.http.exchange import RefusedError
from walagent.http.shares import NOBODY, Shares

EVE, EVA, BOB = Actor("acme", "eve"), Actor("acme", "eva"), Actor("umbra", "bob")


def shares(waiting: int = 0) -> Shares:
    """Four places, of which a tenant has three and a principal two."""
    return Shares("questions", 4, of_tenant=3, of_principal=2, waiting=waiting)


def test_neither_a_principal_nor_a_tenant_takes_all() -> None:
    """And who is refused is told whose limit it was."""
    places = shares()
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(places.now(EVE))
        with pytest.raises(RefusedError, match="2 questions of one principal") as refused:
            stack.enter_context(places.now(EVE))
        assert refused.value.status == 429
        stack.enter_context(places.now(EVA))
        with pytest.raises(RefusedError, match="3 questions of one tenant"):
            stack.enter_context(places.now(EVA))
        stack.enter_context(places.now(BOB))
        with pytest.raises(RefusedError, match="4 questions at once") as refused:
            stack.enter_context(places.now(NOBODY))
        assert refused.value.status == 503
    with places.now(EVE), places.now(EVE):
        pass


async def test_who_waits_is_passed_by_who_has_a_share_left() -> None:
    """And is the first to have a place that becomes free to it."""
    places, order = shares(waiting=2), list[str]()

    async def work(who: Actor, name: str, until: asyncio.Event) -> None:
        async with places.in_turn(who):
            order.append(name)
            await until.wait()

    first, rest = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name, until in (("1", first), ("2", rest), ("3", rest), ("4", rest)):
            group.create_task(work(EVE, name, until))
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="2 questions of one principal"):
            async with places.in_turn(EVE):
                pass
        group.create_task(work(BOB, "bob", rest))
        await asyncio.sleep(0)
        assert order == ["1", "2", "bob"]
        first.set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert order == ["1", "2", "bob", "3"]
        rest.set()
    assert order == ["1", "2", "bob", "3", "4"]


@given(st.lists(st.tuples(st.sampled_from([EVE, EVA, BOB]), st.sampled_from("ecl")), max_size=40))
def test_no_place_is_lost(moves: list[tuple[Actor, str]]) -> None:
    """Whoever enters, is cancelled while waiting, or leaves, in any order."""

    async def play() -> None:
        places = shares(waiting=100)
        doors = dict[asyncio.Task[None], asyncio.Event]()
        left = list[asyncio.Task[None]]()

        async def work(who: Actor, door: asyncio.Event) -> None:
            async with places.in_turn(who):
                await door.wait()

        for who, move in moves:
            if move == "e":
                door = asyncio.Event()
                doors[asyncio.create_task(work(who, door))] = door
            elif doors:
                task, door = next(iter(doors.items()))
                door.set()
                if move == "c":
                    task.cancel()
                del doors[task]
                left.append(task)
                await asyncio.sleep(0)
        for task, door in doors.items():
            door.set()
            task.cancel()
        await asyncio.gather(*doors, *left, return_exceptions=True)
        async with AsyncExitStack() as stack:
            for who in (EVE, EVE, EVA, BOB):
                stack.enter_context(places.now(who))

    asyncio.run(play())
