"""Runs of one ordering key under random cancels, retries, decisions: nothing gets stuck."""

import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from psycopg import AsyncConnection, Error

from tests.conftest import SEED
from tests.helpers.database import DESK, attach, column, run_all, value
from tests.helpers.queue import NOTHING, add_runs, claim, finish, park_for_approval, set_clock
from walagent.domain.run import Claim, RunState
from walagent.store import claiming, runs
from walagent.store.attachments import cancel_detached

RUNS = 3
SEQUENCES = 12  # of each part
MOVES: dict[str, float] = {
    "claim": 12,
    "park": 6,
    "cancel": 6,
    "retry": 6,
    "approve": 4,
    "end": 2,
}  # with weights
MOVES |= dict.fromkeys(("release", "lose", "reject", "expire", "pause", "resume", "tick"), 1)
MOVES |= {"detach": 0.2}
SAME_TIME = "select count(*) > 1 from agent.run where state = 'running'"
UNFINISHED = "select id from agent.run where not agent_internal.is_final(state)"
DECIDE = "select agent.{}(id) from agent.approval where state = 'pending'"
ENDS = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)


@dataclass(slots=True)
class World:
    """The runs of one ordering key, and who acts on them."""

    conn: AsyncConnection
    chance: random.Random
    added: list[int]
    held: list[Claim] = field(default_factory=list[Claim])
    moves: list[str] = field(default_factory=list[str])

    async def move(self) -> None:
        """Do one thing at random; what the state of a run does not allow is refused."""
        self.moves += self.chance.choices([*MOVES], [*MOVES.values()])
        with suppress(Error):
            await self.do(self.moves[-1])
        assert not await value(self.conn, SAME_TIME), self.moves
        assert await column(self.conn, "select rule from agent.broken_invariant") == [], self.moves

    async def do(self, move: str) -> None:
        """Do one thing."""
        match move:
            case "claim":
                self.held += await claim(self.conn)
            case "end" | "park":
                while self.held:
                    await (self.end if move == "end" else self.park)(self.held.pop())
            case "release":
                self.held.clear()
                await claiming.release_runs(self.conn, "w1")
            case "lose" | "expire":
                await self.later("31 s" if move == "lose" else "2 days")
            case "cancel" | "retry":
                await value(self.conn, f"select agent.{move}(%s)", self.chance.choice(self.added))
            case "approve" | "reject":
                await run_all(self.conn, DECIDE.format(move))
            case "pause" | "resume" | "detach":
                await run_all(self.conn, f"select agent.{move}(name) from agent.attachment")
            case _:
                await claiming.tick(self.conn)

    async def end(self, held: Claim) -> None:
        """End a run in some way."""
        await finish(self.conn, held, self.chance.choice(ENDS))

    async def park(self, held: Claim) -> None:
        """Let a run wait: for a person, or for its retry."""
        if self.chance.random() < 0.6:
            await park_for_approval(self.conn, held)
        else:
            await runs.park_run(self.conn, held, RunState.WAITING_RETRY, delay=0, spent=NOTHING)

    async def later(self, ahead: str) -> None:
        """Let a tick see a later time."""
        await set_clock(self.conn, ahead)
        await claiming.tick(self.conn)
        await set_clock(self.conn, "0 s")

    async def settle(self) -> None:
        """Let workers, people and time end all that can end."""
        for move in ("resume", "lose", "tick"):
            await self.do(move)
        self.held.clear()
        for _ in range(3 * RUNS):
            for move in ("approve", "claim"):
                await self.do(move)
            for held in self.held:
                await finish(self.conn, held)
            self.held.clear()
            await cancel_detached(self.conn)  # as the daemon does; no claim takes these


@pytest.mark.few(1)
@pytest.mark.parametrize("part", range(4))
async def test_after_any_sequence_each_run_of_an_ordering_key_can_end(
    conn: AsyncConnection, part: int
) -> None:
    """Never two at the same time, no invariant broken on the way, and none left at the end."""
    await run_all(conn, f"set jit = off; {DESK}")  # as sessions of walagent have it
    chance = random.Random(f"{SEED} {part}")
    for number in range(SEQUENCES):
        attachment = await attach(conn, f"name=desk{number}, tools=[refund_user]")
        world = World(conn, chance, await add_runs(conn, attachment, *"a" * RUNS))
        for _ in range(40):
            await world.move()
        await world.settle()
        assert await column(conn, UNFINISHED) == [], world.moves
        await run_all(
            conn, "select agent.detach(name) from agent.attachment; delete from agent.run"
        )
