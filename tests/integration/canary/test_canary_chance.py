"""Canaries begun, changed, promoted and rolled back between random commits, with crashes.

A model in Python, which follows the statements in the order of their commits, says which version
each change gets.  It has a hash of its own.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, rows, run_all, value
from walagent.base import faults

POINTS = ("intake.runs_inserted", "intake.checkpoint_advanced", "intake.committed")
# Text of this length is stored apart, so that the WAL leaves the definitions out of an update.
PROMPT = "".join(random.Random(3).choices("abcdefghijklmnopqrstuvwxyz ", k=9000))
DECISIONS = ("share", "share", "promote", "roll back", "replace", "pause")
FOUND = """
select (r.change -> 'new' ->> 'amount')::integer, a.name, r.attachment_version
  from agent.run r join agent.attachment a on a.id = r.attachment_id
 where a.name in ('desk', 'kinds') order by 1, 2
"""


@dataclass
class Modelled:
    """One attachment, as it should be."""

    id: int
    last: int = 1  # number of a version
    version: int = 1
    canary: int | None = None
    share: float = 0.0
    expected: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def change(self, number: int, key: str) -> None:
        """A change has committed, or will with its transaction."""
        version = self.version
        if self.canary is not None:
            named = f"{self.id}/{self.canary}/{key}".encode()
            part = int(blake2b(named, digest_size=8).hexdigest(), 16) / 2**64
            version = self.canary if part < self.share else version
        self.expected.append((number, version))

    def copy(self) -> "Modelled":
        """As it is now, for a transaction that may roll back."""
        return Modelled(
            self.id, self.last, self.version, self.canary, self.share, list(self.expected)
        )


class World:
    """The database and its model."""

    def __init__(self, conn: AsyncConnection, chance: random.Random) -> None:
        self.conn, self.chance = conn, chance
        self.numbers, self.ids = count(1), count(1)
        self.there: dict[int, str] = {}  # ID and category of the rows
        self.made: dict[str, Modelled] = {}

    async def statement(self) -> None:
        """Change rows, or something about a canary."""
        if self.chance.random() < 0.25:
            await self.decide(self.chance.choice(list(self.made)))
        elif self.there and self.chance.random() < 0.4:
            await self.update(self.chance.choice(list(self.there)))
        else:
            await self.insert(self.chance.randint(1, 25))

    async def insert(self, many: int) -> None:
        """Insert rows, in one statement."""
        new = [
            (next(self.ids), next(self.numbers), self.chance.choice(("bug", "billing")))
            for _ in range(many)
        ]
        await self.conn.cursor().execute(
            "insert into support_tickets (id, amount, category) select * from"
            " unnest(%s::bigint[], %s::int[], %s::text[])",
            [list(each) for each in zip(*new, strict=True)],
        )
        for key, number, category in new:
            self.there[key] = category
            self.made["desk"].change(number, str(key))
            self.made["kinds"].change(number, category)

    async def update(self, key: int) -> None:
        """Update a row, which can get another key."""
        number, category = next(self.numbers), self.there[key]
        new = key if self.chance.random() < 0.8 else next(self.ids)
        await self.conn.execute(
            "update support_tickets set amount = %s, id = %s where id = %s", [number, new, key]
        )
        del self.there[key]
        self.there[new] = category
        self.made["desk"].change(number, str(key))  # behind the runs of the former key
        self.made["kinds"].change(number, category)

    async def decide(self, name: str, among: Sequence[str] = DECISIONS) -> None:
        """Begin, change or end a canary, or change the attachment."""
        it, chance = self.made[name], self.chance
        if it.canary is None:
            it.share = round(chance.uniform(0.05, 0.95), 3)
            it.last = it.canary = it.last + 1
            changes = f'max_steps={it.last + 5}, system_prompt="{PROMPT} {it.last}"'
            made = await value(
                self.conn, "select agent.canary(%s, %s, share => %s)", name, changes, it.share
            )
            assert made == it.canary
            return
        match chance.choice(among):
            case "share":
                it.share = round(chance.uniform(0.05, 0.95), 3)
                await value(self.conn, "select agent.canary(%s, share => %s)", name, it.share)
            case "promote":
                await value(self.conn, "select agent.promote_canary(%s)", name)
                it.version, it.canary = it.canary, None
            case "roll back":
                await value(self.conn, "select agent.roll_back_canary(%s)", name)
                it.canary = None
            case "replace":
                await self.conn.execute(
                    "update agent.attachment set priority = 1 - priority where name = %s", [name]
                )
                it.last = it.version = it.last + 1
                it.canary = None
            case _:
                await value(self.conn, "select agent.pause(%s)", name)
                await value(self.conn, "select agent.resume(%s)", name)

    async def transaction(self) -> None:
        """Some statements; now and then they are rolled back."""
        before = dict(self.there), {name: it.copy() for name, it in self.made.items()}
        await self.conn.execute("begin")
        for _ in range(self.chance.choice((1, 1, 1, 2, 5))):
            await self.statement()
        if self.chance.random() < 0.1:
            await self.conn.execute("rollback")
            self.there, self.made = before
        else:
            await self.conn.execute("commit")

    async def crash(self, d: Daemon) -> None:
        """Let the reader die at one of its points, while it reads."""
        with faults.armed(self.chance.choice(POINTS)):
            for _ in range(self.chance.randint(1, 4)):
                await self.transaction()
            await self.decide("desk", ("share",))  # some points are only passed with an effect
            await d.dies("reader")
        if self.chance.random() < 0.5:
            await self.transaction()
        await d.start_reader()


@pytest.mark.parametrize("changes", [700, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_the_order_of_commits_says_which_version_a_change_gets(
    conn: AsyncConnection, dsn: str, changes: int
) -> None:
    """Of each change one run, with the version that the model gives it."""
    seed = random.randrange(1 << 30)
    world = World(conn, random.Random(seed))
    await run_all(conn, DESK)
    crashes, next_crash = 0, changes // 8
    async with daemon(conn, dsn, parts=("reader",)) as d:
        common = 'on=[insert, update], system_prompt="x"'
        for name, key in (("desk", ""), ("kinds", ", ordering_key=[category]")):
            made = await attach(conn, f"name={name}, {common}{key}")
            world.made[name] = Modelled(made)
        while len(world.made["desk"].expected) < changes:
            await world.transaction()
            if len(world.made["desk"].expected) >= next_crash:
                await world.crash(d)
                crashes, next_crash = crashes + 1, next_crash + changes // 8
        await d.caught_up()
    expected = sorted(
        (number, name, version)
        for name, it in world.made.items()
        for number, version in it.expected
    )
    found = await rows(conn, FOUND)
    wrong = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
    assert (len(found), wrong[:3]) == (len(expected), []), seed
    assert crashes >= 5
    assert len({version for _, _, version in expected}) > 2
