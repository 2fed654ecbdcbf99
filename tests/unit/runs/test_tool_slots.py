"""How many tools hold a connection at once."""

import asyncio

from walagent.runs.tools.slots import KEPT, Gate


class Visitor:
    """A call that stays inside until it is let go."""

    def __init__(self, gate: Gate, attachment: int) -> None:
        self.inside, self._go = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._visit(gate, attachment))

    async def _visit(self, gate: Gate, attachment: int) -> None:
        async with gate.place(attachment):
            self.inside.set()
            await self._go.wait()

    async def leave(self) -> None:
        """Come out."""
        self._go.set()
        await self.task


async def visits(gate: Gate, *attachments: int) -> list[Visitor]:
    """Let calls come, one after the other."""
    come = [Visitor(gate, attachment) for attachment in attachments]
    await asyncio.sleep(0)
    return come


def inside(visitors: list[Visitor]) -> list[bool]:
    """Who is inside."""
    return [visitor.inside.is_set() for visitor in visitors]


async def test_some_connections_are_kept_back() -> None:
    """And those who wait get theirs in the order in which they came."""
    gate = Gate(KEPT + 2)
    all_ = await visits(gate, 1, 1, 2, 1)
    assert inside(all_) == [True, True, False, False]
    await all_[0].leave()
    assert inside(all_) == [True, True, True, False]
    for visitor in all_[1:]:
        await visitor.leave()


async def test_there_is_always_one_place() -> None:
    """A pool of one connection works, one thing after the other."""
    gate = Gate(1)
    first, second = await visits(gate, 1, 1)
    assert inside([first, second]) == [True, False]
    await first.leave()
    await second.leave()


async def test_an_agent_in_trouble_has_one_place_and_the_others_pass_it_by() -> None:
    """Until a call of its succeeds; then all that it has waiting may come."""
    gate = Gate(KEPT + 3)
    gate.jam(1, jammed=True)
    first, second, third, other = await visits(gate, 1, 1, 1, 2)
    assert inside([first, second, third, other]) == [True, False, False, True]
    await first.leave()
    assert inside([second, third]) == [True, False]
    gate.jam(1, jammed=False)
    await asyncio.sleep(0)
    assert inside([second, third]) == [True, True]
    for visitor in (second, third, other):
        await visitor.leave()


async def test_a_call_that_is_cancelled_takes_no_place_along() -> None:
    """While it waits, and in the instant in which it is its turn."""
    gate = Gate(1)
    first, second, third = await visits(gate, 1, 1, 1)
    second.task.cancel()
    first._go.set()  # noqa: SLF001 - both in one turn of the loop
    await asyncio.wait([first.task, second.task])
    await asyncio.wait_for(third.inside.wait(), 5)
    await third.leave()
