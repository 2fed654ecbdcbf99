"""Claims of several workers by chance: keys, caps, tenants, pauses, late commits, crashes.

While they work, sessions of their own look for two running runs of one key, and for queues and
tenants above their limits; each look is one snapshot.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable
from dataclasses import dataclass, field

import pytest
from psycopg import AsyncConnection, Error
from psycopg.types.json import Jsonb

from tests.conftest import SEED
from tests.helpers.database import DESK, attach, column, refused, rows, run_all, session, value
from tests.helpers.passed_over import looking
from walagent.store.claiming import Turn

TENANTS = {"default": None, "acme": 3, "zeta": None}  # with max_running
QUEUES = 12
PRIORITIES = [0, 0, 0, 10, -100]
# Stamps of the moment: a statement sees what commits after it began.
CLOCK = """
create or replace function agent_internal.now() returns timestamptz
    language sql as 'select clock_timestamp()'
"""
ADD = """
insert into agent.run (tenant, reason, queue_id, attachment_id, attachment_version, change, key,
                       ordering_key, not_before, max_attempts, priority)
select %s, 'manual', %s, %s, 1, '{}', %s, %s, now() + %s * interval '1 ms', 1000, %s
"""
CHECKPOINT = """
insert into agent.checkpoint (slot, system_id, timeline, plugin, commit_lsn, end_lsn)
values ('s', '1', 1, 'pgoutput', '1/0', '1/0')
"""
CLAIM = """
select run_id, lease, queue_id, more, turn
  from agent_internal.claim_runs(%s, %s, %s::interval, _turn => %s)
"""
END = "select agent_internal.finish_run(%s, %s, %s, null, null, 0, 0)"
END_MANY = """
select failed from agent_internal.record_many(jsonb_build_array(
    jsonb_build_object('run', %s::bigint, 'lease', %s::bigint, 'state', 'succeeded')))
"""
PARK = "select agent_internal.park_run(%s, %s, %s, '20 ms', false, null, 0, 0, false)"
OPEN = "select count(*) from agent.run where not agent_internal.is_final(state)"
RETRY = """
select agent.retry(id) from (select id from agent.run where state = 'failed'
                              order by random() limit 2) r
"""
BROKEN = {
    "two of a key": """
        select queue_id, ordering_key from agent.run
         where state = 'running' and ordering_key is not null
         group by 1, 2 having count(*) > 1""",
    "a cap": """
        select q.id, q.cap, count(*)
          from agent.run r join agent_internal.queue q on q.id = r.queue_id
         where r.state = 'running' group by 1, 2 having count(*) > q.cap""",
    "a limit of a tenant": """
        select t.name, t.max_running, count(*)
          from agent.run r join agent.tenant t on t.name = r.tenant
         where r.state = 'running' group by 1, 2 having count(*) > t.max_running""",
    "a run waits for one of a lower priority": """
        select r.id, p.id from agent.run r join agent.run p on p.id = r.blocked_by
         where p.priority < r.priority and not agent_internal.is_final(p.state)""",
}
# Where the order of commits is that of the IDs.
DISORDER = """
select a.id, b.id
  from agent.run a join agent.run b on b.queue_id = a.queue_id and b.ordering_key = a.ordering_key
 where b.id > a.id and a.ordering_key like 'o%'
   and b.started_at < greatest(a.started_at, a.finished_at)
"""


@dataclass(slots=True)
class World:
    """Queues, who fills them, who works, and who looks."""

    dsn: str
    chance: random.Random
    queues: list[tuple[int, str]]  # with their tenant
    held: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # by the reader
    leases: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    broken: list[str] = field(default_factory=list[str])
    seen: Counter[str] = field(default_factory=Counter[str])
    pauses: list[int] = field(default_factory=list[int])  # queues, as their pauses begin
    quiet: bool = False  # nothing more is added
    over: bool = False

    def new_run(self, prefix: str) -> tuple[str, int, str | None]:
        """Choose tenant, queue and ordering key."""
        queue, tenant = self.chance.choice(self.queues)
        if self.chance.random() < 0.3:
            tenant = self.chance.choice([*TENANTS])
        return tenant, queue, self.chance.choice([None, f"{prefix}{self.chance.randrange(4)}"])

    async def read(self) -> None:
        """Be the reader: insert in order, some of it as claimed."""
        async with session(self.dsn) as own:
            position = 0x100000000
            while not self.quiet:
                runs = list[dict[str, object]]()
                keys = set[tuple[int, str]]()
                for ordinal in range(self.chance.randint(1, 4)):
                    tenant, queue, key = self.new_run("o")
                    first = key is None or (queue, key) not in keys
                    keys |= {(queue, key)} if key else set()
                    runs.append({
                        "tenant": tenant, "attachment_id": queue, "attachment_version": 1,
                        "commit_lsn": f"1/{position + 1 - 0x100000000:X}", "ordinal": ordinal,
                        "change": {}, "key": key, "ordering_key": key, "max_attempts": 1000,
                        "start": first and self.chance.random() < 0.5,
                        "priority": self.chance.choice(PRIORITIES),
                    })  # fmt: skip
                position += 0x10
                at = f"1/{position - 0x100000000:X}"
                async with looking(own, self.broken, self.pauses, idle=False) as taken:
                    started = await value(
                        own,
                        "select agent_internal.ingest('s', 0, 1, %s, %s, %s, 'reader', '1 hour')",
                        at,
                        at,
                        Jsonb(runs),
                    )
                    taken += [run for run, *_ in started or ()]
                self.seen["added"] += len(runs)
                for run, lease, *_ in started or ():
                    self.take(run, lease)
                    self.held.append((run, lease))
                await asyncio.sleep(self.chance.random() * 0.02)

    async def add(self) -> None:
        """Insert runs whose commits come later than those of younger ones."""
        async with session(self.dsn) as own:
            while not self.quiet:
                async with own.transaction():
                    for _ in range(self.chance.randint(1, 4)):
                        tenant, queue, key = self.new_run("r")
                        delay = self.chance.choice([None, None, None, 30])
                        rank = self.chance.choice(PRIORITIES)
                        await own.execute(ADD, [tenant, queue, queue, key, key, delay, rank])
                        self.seen["added"] += 1
                        await asyncio.sleep(self.chance.random() * 0.004)
                    await own.execute("select agent_internal.wake_workers()")
                await asyncio.sleep(self.chance.random() * 0.02)

    def take(self, run: int, lease: int) -> None:
        """Note a claim."""
        if (run, lease) in self.leases:
            self.broken.append(f"a lease was given twice: {run}, {lease}")
        self.leases.add((run, lease))
        self.seen["taken"] += 1

    async def work(self, name: str) -> None:
        """Claim and end, in any order; crash now and then."""
        turn, held = Turn(), list[tuple[int, int]]()
        async with session(self.dsn) as own:
            while not self.over:
                if len(held) < 20:
                    slots = self.chance.choice([1, 2, 5, 20])
                    async with looking(own, self.broken, self.pauses, idle=self.quiet) as taken:
                        found = await rows(own, CLAIM, name, slots, "400 ms", Jsonb(turn.place))
                        taken += [int(str(run)) for run, *_ in found]
                    for run, lease, _, _, turn.place in found:
                        self.take(run, lease)
                        held.append((run, lease))
                    self.seen["empty"] += not found
                    assert len(found) <= slots
                while name == "w0" and self.held:
                    held.append(self.held.pop())
                if self.chance.random() < 0.01 and name != "w0":  # a crash
                    held.clear()
                self.chance.shuffle(held)
                for run, lease in [held.pop() for _ in range(self.chance.randint(0, len(held)))]:
                    if not await self.end(own, run, lease):
                        held.append((run, lease))
                await asyncio.sleep(self.chance.random() * 0.005)

    async def end(self, own: AsyncConnection, run: int, lease: int) -> bool:
        """End or park a run; another worker might have it.

        Returns whether that is done: a conflict is not, and the lease of the reader lasts an hour.
        """
        luck = self.chance.random()
        try:
            if luck < 0.08:
                await own.execute(PARK, [run, lease, "waiting_retry"])
            elif luck < 0.12:
                await own.execute(PARK, [run, lease, "needs_review"])
            elif luck < 0.5:
                failed = await value(own, END_MANY, run, lease)
                self.seen[str(failed)] += 1
                return failed != "55P03"
            else:
                key = await value(own, "select ordering_key from agent.run where id = %s", run)
                fails = key and str(key)[0] == "r" and luck < 0.8
                await own.execute(END, [run, lease, "failed" if fails else "succeeded"])
        except Error as error:
            if error.sqlstate not in {"WA001", "40P01"}:
                raise
            self.seen[str(error.sqlstate)] += 1
            return error.sqlstate != "40P01"
        return True

    async def decide(self) -> None:
        """Retry older runs in transactions that stay open, and let reviewed ones go on."""
        async with session(self.dsn) as own:
            while not self.over:
                await own.execute(
                    "update agent.run set state = 'pending' where state = 'needs_review'"
                )
                if not self.quiet:
                    async with own.transaction():
                        await own.execute(RETRY)
                        await asyncio.sleep(self.chance.random() * 0.005)
                await asyncio.sleep(0.02)

    async def pause(self) -> None:
        """Pause a queue: nothing of it begins until it is resumed."""
        async with session(self.dsn) as own:
            while not self.quiet:
                queue, _ = self.chance.choice(self.queues)
                self.pauses.append(queue)
                async with own.transaction():
                    await own.execute(f"select agent.pause('desk{queue}')".encode())
                    await asyncio.sleep(self.chance.random() * 0.02)
                since = await value(own, "select clock_timestamp()")
                await asyncio.sleep(0.1)
                late = "select id from agent.run where queue_id = %s and started_at > %s"
                if found := await column(own, late, queue, since):
                    self.broken.append(f"queue {queue} is paused, and began {found}")
                await own.execute(f"select agent.resume('desk{queue}')".encode())

    async def tick(self) -> None:
        """Let leases expire and retries become due."""
        async with session(self.dsn) as own:
            while not self.over:
                await own.execute("select agent_internal.tick()")
                await asyncio.sleep(0.05)

    async def look(self) -> None:
        """Look for broken promises, each time in one snapshot."""
        async with session(self.dsn) as own:
            while not self.over:
                for what, query in BROKEN.items():
                    self.broken += [f"{what}: {each}" for each in await rows(own, query)]
                self.seen["looks"] += 1
                await asyncio.sleep(0)

    async def go(self, seconds: float) -> None:
        """Work for some seconds, then until nothing is left."""
        parts = [self.read(), self.add(), self.add(), self.decide(), self.pause(), self.tick()]
        parts += [self.look(), *(self.work(f"w{n}") for n in range(5)), self.end_after(seconds)]
        async with asyncio.timeout(seconds + 60), asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(self.while_whole(part))

    async def while_whole(self, part: Awaitable[None]) -> None:
        """Do a part; if it fails, all end."""
        try:
            await part
        finally:
            self.over = self.over or not self.quiet

    async def end_after(self, seconds: float) -> None:
        """Let all that was added come to its end."""
        async with session(self.dsn) as own:
            await asyncio.sleep(seconds)
            self.quiet = True
            while not self.over and await value(own, OPEN):  # noqa: ASYNC110 - a statement
                await asyncio.sleep(0.05)
        self.over = True


async def world(conn: AsyncConnection, dsn: str, part: str, tenants: list[str]) -> World:
    """A world with a queue for each tenant that is named."""
    await run_all(conn, DESK)
    await conn.execute("select agent.create_tenant('acme'), agent.create_tenant('zeta')")
    await run_all(conn, CLOCK)
    queues = list[tuple[int, str]]()
    for n, tenant in enumerate(tenants, 1):
        found = await attach(conn, f"name=desk{n}")
        assert found == n
        await conn.execute(
            "update agent_internal.queue set tenant = %s where id = %s", [tenant, found]
        )
        queues.append((found, tenant))
    return World(dsn, random.Random(f"{SEED} {part}"), queues)


@pytest.mark.parametrize(
    ("part", "seconds"),
    [(0, 2), *(pytest.param(n, 8, marks=pytest.mark.slow) for n in range(1, 5))],
)
async def test_no_promise_of_a_claim_is_broken(
    conn: AsyncConnection, dsn: str, part: int, seconds: float
) -> None:
    """One run of a key at a time, in order; caps, limits, pauses and priorities hold; all end."""
    chance = random.Random(f"{SEED} {part}")
    made = await world(conn, dsn, str(part), chance.choices([*TENANTS], k=QUEUES))
    for name, most in TENANTS.items():
        await conn.execute("update agent.tenant set max_running = %s where name = %s", [most, name])
    for queue, _ in made.queues:
        cap = chance.choice([None, None, None, 1, 2, 4])
        await conn.execute("update agent.attachment set cap = %s where id = %s", [cap, queue])
    await run_all(conn, CHECKPOINT)
    await made.go(seconds)
    assert made.broken == []
    assert await rows(conn, DISORDER) == []
    assert made.seen["taken"] >= made.seen["added"] > 50
    assert len(made.pauses) > 2


async def test_a_run_that_is_committed_late_waits_for_the_younger_one_of_its_key(
    conn: AsyncConnection, dsn: str
) -> None:
    """Two claims that do not see each other's run of a key: the second one leaves its own."""
    await world(conn, dsn, "late", ["default"])
    take = "select run_id from agent_internal.claim_runs(%s, 5, '1 hour')"
    await value(conn, "select agent_internal.check_database()")  # which notes it at first
    async with session(dsn) as first, session(dsn) as second, session(dsn) as late:
        await late.execute("begin")
        await late.execute(ADD, ["default", 1, 1, "k", "k", None, 0])
        await conn.execute(ADD, ["default", 1, 1, "k", "k", None, 0])
        await conn.execute(ADD, ["default", 1, 1, "other", "other", None, 0])
        await first.execute("begin")
        assert await column(first, take, "w1") == [2, 3]
        await late.execute("commit")
        other = asyncio.create_task(column(second, take, "w2"))
        await asyncio.sleep(0.2)
        await first.execute("commit")
        assert await other == []
    assert await rows(conn, "select id, state::text from agent.run order by id") == [
        (1, "pending"),
        (2, "running"),
        (3, "running"),
    ]
    await conn.execute(END, [2, 1, "succeeded"])
    assert await column(conn, take, "w2") == [1]


async def test_a_pause_waits_for_claims_under_way_and_stops_later_ones(
    conn: AsyncConnection, dsn: str
) -> None:
    """Once it is committed, nothing of the queue begins; while it is open, others are served."""
    await world(conn, dsn, "pause", ["default", "default"])
    for queue in (1, 1, 2, 2):
        await conn.execute(ADD, ["default", queue, queue, None, None, None, 0])
    take = "select queue_id from agent_internal.claim_runs(%s, 1, '1 hour', _turn => %s)"
    await value(conn, "select agent_internal.check_database()")
    async with session(dsn) as worker, session(dsn) as person:
        await worker.execute("begin")
        turn = Jsonb({"tenant": "default", "queues": {"0 default": 2}})
        assert await column(worker, take, "w1", turn) == [1]
        pausing = asyncio.create_task(person.execute("select agent.pause('desk1')"))
        await asyncio.sleep(0.2)
        assert not pausing.done()
        await worker.execute("commit")
        await pausing
        assert await column(worker, take, "w1", turn) == [2]
        await person.execute("begin; set constraints all immediate; select agent.pause('desk2')")
        assert await column(worker, take, "w1", turn) == []
        await person.execute("rollback")
        assert await column(worker, take, "w1", turn) == [2]


@pytest.mark.parametrize(
    ("workers", "slots", "queues"),
    [
        (1, 1, {"default": 16}),
        (1, 1, {"default": 6, "acme": 3, "zeta": 1}),
        pytest.param(3, 1, {"default": 12, "acme": 3, "zeta": 1}, marks=pytest.mark.slow),
        pytest.param(3, 5, {"default": 40}, marks=pytest.mark.slow),
    ],
)
async def test_no_queue_waits_longer_than_a_round(
    conn: AsyncConnection, dsn: str, workers: int, slots: int, queues: dict[str, int]
) -> None:
    """Tenants in turn, and the queues of each: the bound is a round of each worker."""
    await world(conn, dsn, "turns", [tenant for tenant, n in queues.items() for _ in range(n)])
    await run_all(
        conn,
        "insert into agent.run (tenant, reason, queue_id, attachment_id, attachment_version,"
        " change, key) select q.tenant, 'manual', q.id, q.id, 1, '{}', n::text"
        " from agent_internal.queue q, generate_series(1, 300) n",
    )
    total = sum(queues.values())
    log = list[set[int]]()

    async def work(name: str) -> None:
        turn = Turn()
        async with session(dsn) as own:
            for _ in range(total * 8 // workers):
                found = await rows(own, CLAIM, name, slots, "1 hour", Jsonb(turn.place))
                turn.place = found[0][-1]
                log.append({int(str(queue)) for _, _, queue, *_ in found})

    await asyncio.gather(*(work(f"w{n}") for n in range(workers)))
    bound = workers * max(queues.values()) * len(queues)
    last, longest = dict.fromkeys(range(1, total + 1), -1), defaultdict[int, int](int)
    for n, found in enumerate([*log, {*last}]):
        for queue in found:
            longest[queue] = max(longest[queue], n - last[queue])
            last[queue] = n
    assert max(longest.values()) <= bound


async def test_what_a_worker_remembers_decides_about_turns_alone(conn: AsyncConnection) -> None:
    """Whatever it is, a claim is made; what is no queue is refused."""
    await run_all(conn, DESK)
    await attach(conn, "name=desk1")
    for turn in (
        {},
        {"tenant": "gone"},
        {"queues": {"0 default": -5}},
        {"queues": {"x": 2}, "z": 1},
    ):
        await conn.execute(ADD, ["default", 1, 1, None, None, None, 0])
        assert len(await rows(conn, CLAIM, "w", 5, "1 hour", Jsonb(turn))) == 1
    await conn.execute(ADD, ["default", 1, 1, None, None, None, 0])
    await refused(
        conn, CLAIM, "w", 5, "1 hour", Jsonb({"queues": {"0 default": "x"}}), state="22P02"
    )
