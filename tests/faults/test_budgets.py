"""Budgets near their limit: fifty runs at once, workers killed with reservations open."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, pause, running
from tests.faults.rig.proxy import Link, Proxy
from tests.faults.rig.serving import serving
from tests.faults.rig.stage import REPLIES, Figure, Place, make_ready
from tests.faults.rig.waiting import fetch, until

SCENARIO = 15
pytestmark = pytest.mark.scenario(SCENARIO)

# With this the worst case of a call is 0.0032 dollars and 140 tokens; each costs 0.002 and 110.
PRICES = """
update agent.model set input_price = 10, output_price = 100, context_window = 120,
                       max_output_tokens = 20 where name = 'script'
"""
COST, WORST = Decimal("0.002"), Decimal("0.0032")
TOKENS, WORST_TOKENS = 110, 140
CHANGE = """
with new as (
    insert into item select n, 1 from generate_series(%s::bigint, %s) n returning id, version
)
insert into written (item, version) select * from new
"""
BUDGET = "insert into agent.budget (name, period, max_cost) values ('all', 'total', %s)"
OPEN = "select exists (select from agent.spend where settled_at is null)"
SEEN = """
select greatest(spent_cost / max_cost, spent_tokens / max_tokens::numeric),
       greatest((spent_cost + reserved_cost) / max_cost,
                (spent_tokens + reserved_tokens) / max_tokens::numeric), reserved_tokens
  from agent.budget_overview
"""
# Nothing goes on any more: each run has ended, or waits for a budget.
QUIET = """
select (select count(*) from agent.run) >= %s
   and not exists (select from agent.run where not agent_internal.is_final(state)
                      and (state <> 'waiting_retry' or error ->> 'budget' is null
                           or next_attempt_at < agent_internal.now() + interval '1 minute'))
   and not exists (select from agent.spend where settled_at is null)
"""
LEAKED = "select name, reserved_cost, reserved_tokens from agent.budget_overview"
SUMS = """
select o.name, o.spent_cost, o.spent_tokens, s.cost, s.tokens, p.cost, p.tokens
  from agent.budget_overview o
       cross join (select sum(cost) as cost,
                          sum(input_tokens + cached_tokens + cache_write_tokens
                              + output_tokens) as tokens
                     from agent.step where kind = 'reply') s
       cross join lateral (select sum(cost) as cost, sum(tokens) as tokens
                             from agent.spend join agent.budget b on b.id = budget_id
                            where b.name = o.name) p
"""


@dataclass(slots=True)
class Watched:
    """What somebody saw who looked at the budgets all the time."""

    looks: int = 0
    spent: Decimal = Decimal(0)  # the highest part of a limit
    with_reserved: Decimal = Decimal(0)
    open_calls: int = 0  # the most tokens that were reserved at once, in calls
    beyond: list[Any] = field(default_factory=list)

    def see(self, rows: list[Any]) -> None:
        """Note one look."""
        self.looks += 1
        for spent, with_reserved, tokens in rows:
            self.spent = max(self.spent, spent)
            self.with_reserved = max(self.with_reserved, with_reserved)
            self.open_calls = max(self.open_calls, tokens // WORST_TOKENS)
            if with_reserved > 1:
                self.beyond.append((spent, with_reserved))


@asynccontextmanager
async def watching(dsn: str) -> AsyncIterator[Watched]:
    """Look at the budgets, on a connection of its own, until the block ends."""
    seen = Watched()
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:

        async def look() -> None:
            while True:
                seen.see(await fetch(conn, SEEN))
                await asyncio.sleep(0.002)

        task = asyncio.create_task(look())
        try:
            yield seen
        finally:
            task.cancel()
            await asyncio.wait([task])
    assert seen.looks
    assert seen.beyond == []


async def adds_up(conn: AsyncConnection[Any]) -> None:
    """Nothing is reserved, and each budget counted what the steps cost, to the last digit."""
    assert await fetch(conn, "select * from agent.broken_invariant") == []
    for name, cost, tokens in await fetch(conn, LEAKED):
        assert (cost, tokens) == (0, 0), f"{name} keeps what nobody holds"
    for name, spent, spent_tokens, *sums in await fetch(conn, SUMS):
        assert [spent, spent_tokens] * 2 == sums, name


@dataclass(frozen=True, slots=True)
class Load:
    """How many runs ask at once, how often a process is killed, and which budgets there are."""

    runs: int
    kills: int
    daemons: int
    budgets: tuple[str, ...] = ("'all', 'total', {limit}, null, null",)


LOADS = [
    pytest.param(Load(50, 1, 2), id="short"),
    pytest.param(
        Load(
            300,
            12,
            3,
            (
                "'all', 'total', {limit}, null, null",
                "'model', 'month', null, {tokens}, 'script'",
                "'mine', 'day', {limit} * 2, {tokens} * 2, null",
            ),
        ),
        id="long",
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS)
async def test_what_is_spent_never_passes_the_limit_whatever_is_killed(
    place: Place, chance: random.Random, figure: Figure, load: Load
) -> None:
    """Two thirds of the runs' cost are allowed: calls stop there, and go on when it is raised."""
    await make_ready(place, latency=0.05)
    await place.conn.execute(PRICES)
    limit = load.runs * REPLIES * COST * 2 / 3
    for columns in load.budgets:
        values = columns.format(limit=limit, tokens=load.runs * REPLIES * TOKENS * 3 // 4)
        await place.conn.execute(
            "insert into agent.budget (name, period, max_cost, max_tokens, model)"
            f" values ({values})".encode()
        )
    settings = {"workers": {"slots": 50}}
    killed = 0
    async with watching(place.dsn) as seen:
        with ExitStack() as processes:
            names = [str(n) for n in range(load.daemons)]
            daemons = {
                n: processes.enter_context(running(Daemon(place, settings=settings, name=n)))
                for n in names
            }
            await place.conn.execute(CHANGE, [1, load.runs])
            for _ in range(load.kills):
                await until(place.conn, OPEN)
                await pause(chance.uniform(0, 0.15))
                name = chance.choice(names)
                daemons[name].kill()
                killed += 1
                again = Daemon(place, settings=settings, name=name)
                daemons[name] = processes.enter_context(running(again))
            await until(place.conn, QUIET, load.runs, seconds=120)
            (waits,) = await fetch(
                place.conn, "select count(*) from agent.run where state = 'waiting_retry'"
            )
            assert waits[0] > 0, "the limit was never felt"
            await adds_up(place.conn)
            ((spent,),) = await fetch(
                place.conn, "select spent_cost from agent.budget_overview where name = 'all'"
            )
            assert limit - WORST < spent <= limit, "calls stopped too early"
            await place.conn.execute("update agent.budget set max_cost = 100, max_tokens = 1000000")
            await until(place.conn, ALL_ENDED, seconds=120)
            await all_is_well(place.conn)
    await adds_up(place.conn)
    figure("runs", load.runs)
    figure("kills", killed)
    figure("highest spent / limit", float(seen.spent))
    figure("highest (spent + reserved) / limit", float(seen.with_reserved))
    figure("calls reserved at once", seen.open_calls)


KILLS = [
    pytest.param(point, nth, marks=() if (point, nth) == ("model.asking", 2) else pytest.mark.slow)
    for point in ("model.asking", "model.answered", "step.recorded", "tool.done", "run.finished")
    for nth in (1, 2)
]


@pytest.mark.parametrize(("point", "nth"), KILLS)
async def test_a_worker_that_dies_with_a_reservation_leaks_nothing(
    place: Place, point: str, nth: int
) -> None:
    """Wherever it dies: the reservation goes with the lease, a stored reply is settled once."""
    await make_ready(place)
    await place.conn.execute(PRICES)
    await place.conn.execute(BUDGET, [1])
    with running(Daemon(place, failpoint=f"{point}:{nth}:kill")) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(CHANGE, [1, 3])
        assert await daemon.ended() == -signal.SIGKILL
    before = await fetch(place.conn, "select count(*) from agent.spend where settled_at is null")
    with running(Daemon(place)) as daemon:
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
    if point.startswith(("model.", "run.")):
        assert before[0][0] > 0
    await adds_up(place.conn)
    assert await fetch(place.conn, "select spent_cost from agent.budget_overview") == [
        (3 * REPLIES * COST,)
    ]


@pytest.mark.slow
async def test_a_run_that_ends_without_its_worker_leaks_nothing(place: Place) -> None:
    """Nobody takes it up again, so nobody reserves for it: the clockwork gives it back."""
    await make_ready(place)
    await place.conn.execute(PRICES)
    await place.conn.execute(BUDGET, [1])
    with running(Daemon(place, failpoint="model.asking:1:kill")) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(CHANGE, [1, 1])
        assert await daemon.ended() == -signal.SIGKILL
    assert await fetch(place.conn, OPEN) == [(True,)]
    await place.conn.execute("select agent.cancel(id) from agent.run")
    with running(Daemon(place)) as daemon:
        ended = "select state = 'cancelled' from agent.run"
        await until(place.conn, ended, alive=daemon.is_alive)
        await until(place.conn, f"select not exists ({OPEN.removeprefix('select exists (')}")
    assert await fetch(
        place.conn, "select spent_cost, reserved_cost from agent.budget_overview"
    ) == [(0, 0)]


@pytest.mark.slow
async def test_the_last_reply_of_a_dead_worker_is_paid_once(place: Place) -> None:
    """A process that was frozen for longer than its lease settles nothing when it thaws."""
    await make_ready(place, latency=0.5)
    await place.conn.execute(PRICES)
    await place.conn.execute(BUDGET, [1])
    with running(Daemon(place)) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(CHANGE, [1, 1])
        await until(place.conn, OPEN)
        daemon.signal(signal.SIGSTOP)
        with running(Daemon(place, name="other")) as other:
            await until(place.conn, ALL_ENDED, alive=other.is_alive)
            daemon.signal(signal.SIGCONT)
            daemon.signal(signal.SIGTERM)
            assert await daemon.ended() == 0
    await all_is_well(place.conn)
    await adds_up(place.conn)
    assert await fetch(place.conn, "select spent_cost from agent.budget_overview") == [
        (REPLIES * COST,)
    ]


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("statement", ["reserve", "record_step", "finish_with_step"])
async def test_a_lost_answer_counts_once(place: Place, statement: str) -> None:
    """Whether it was carried out is read, and never guessed: to reserve, to settle, to end."""
    await make_ready(place)
    await place.conn.execute(PRICES)
    await place.conn.execute(BUDGET, [1])
    proxy = Proxy(place.dsn)
    async with proxy.listen(), serving(place, proxy.dsn) as daemon:
        proxy.drop_reply("walagent worker", f"agent_internal.{statement}(")
        await place.conn.execute(CHANGE, [1, 1])
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
    assert proxy.dropped == 1
    await all_is_well(place.conn)
    await adds_up(place.conn)


# What it costs.


class Counting(Proxy):
    """Counts what the workers' connections send."""

    def __init__(self, dsn: str) -> None:
        """Begin at zero."""
        super().__init__(dsn)
        self.sent = Counter[str]()

    def _check(self, link: Link, statement: bytes) -> None:
        if link.part == "walagent worker" and statement:
            self.sent[statement.split(b"(")[0].decode()] += 1


ELSEWHERE = """
insert into agent.agent (name, model) values ('other', 'script');
insert into agent.budget (name, max_cost, agent) values ('other', 1, 'other')
"""
STEADY = {"workers": {"lease": 300, "poll": 300}, "replication": {"sender_timeout": 30}}


async def statements_of(place: Place, first: int, runs: int = 5) -> Counter[str]:
    """What the workers send for some runs, each alone; no clockwork in between."""
    proxy = Counting(place.dsn)
    async with proxy.listen(), serving(place, proxy.dsn, STEADY) as daemon:
        await place.conn.execute(CHANGE, [first, first])  # the first run loads what is kept
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        proxy.sent.clear()
        for number in range(first + 1, first + 1 + runs):
            await place.conn.execute(CHANGE, [number, number])
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        # What a role may see is asked anew after a second: how often depends on the machine.
        counted = (
            each
            for each in proxy.sent
            if "agent" in each and "agent_internal.check_reader" not in each
        )
        return Counter({each: proxy.sent[each] for each in counted})


@pytest.mark.slow
async def test_a_run_that_no_budget_counts_costs_no_statement_more(
    place: Place, figure: Figure
) -> None:
    """And one that is counted, one statement for each call."""
    await make_ready(place)
    await place.conn.execute(PRICES)
    without = await statements_of(place, 1)
    await place.conn.execute(ELSEWHERE.encode())
    assert await statements_of(place, 101) == without
    await place.conn.execute(BUDGET, [1])
    within = await statements_of(place, 201)
    assert within["select agent_internal.reserve"] == 5 * REPLIES
    assert within.total() - without.total() == 5 * REPLIES
    figure("statements of a run of 3 replies and 3 calls", without.total() / 5)
    figure("the same within a budget", within.total() / 5)


# Fifty sessions at once, without a model between.

RUNS = """
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, state, lease,
                       worker, lease_expires_at)
select 'manual', 1, 1, 1, '{}', 'running', 1, 'w', agent_internal.now() + interval '1 hour'
  from generate_series(1, %s)
"""
MANY = """
insert into agent.budget (name, period, max_cost, max_tokens, agent, attachment, model) values
    ('everything', 'total', 1, null, null, null, null),
    ('agent', 'day', 0.9, 1000000, 'item', null, null),
    ('model', 'month', 0.8, null, null, null, 'script')
"""
SESSIONS = 50


async def spend_at_random(dsn: str, run: int, chance: random.Random, turns: int) -> Counter[str]:
    """Reserve, then settle or give back, as one worker after the other does for a run."""
    did = Counter[str]()
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute("select pg_advisory_lock_shared(1); select pg_advisory_unlock_shared(1)")
        for _ in range(turns):
            agent, model = chance.choice(["item", "other"]), chance.choice(["script", "other"])
            worst = Decimal(chance.randrange(1, 30)) / 1000
            place = [run, did["settled"], model, worst, agent]
            refused = (
                "select agent_internal.reserve(%s, 1, %s, %s, 100, %s, %s, 'item') is not null"
            )
            if (await fetch(conn, refused, *place))[0][0]:
                did["refused"] += 1
            elif chance.random() < 0.3:
                await conn.execute("select agent_internal.release(%s)", [run])
                did["released"] += 1
            else:
                await conn.execute(
                    "select agent_internal.record_step(%s, 1, %s, 'reply', '{}', '{50,0,0,5}',"
                    " %s, 1, %s)",
                    [run, done := did["settled"], worst * chance.randrange(1, 100) / 100, done],
                )
                did["settled"] += 1
    return did


@pytest.mark.slow
async def test_fifty_sessions_share_budgets_without_getting_in_each_others_way(
    place: Place, chance: random.Random, figure: Figure
) -> None:
    """Three budgets that overlap, locked in one order: no deadlock, nothing lost."""
    await make_ready(place)
    await place.conn.execute(RUNS, [SESSIONS])
    await place.conn.execute(MANY.encode())
    numbers = [number for (number,) in await fetch(place.conn, "select id from agent.run")]
    turns = 20
    async with watching(place.dsn) as seen:
        await place.conn.execute("select pg_advisory_lock(1)")
        racing = [
            asyncio.create_task(
                spend_at_random(place.dsn, run, random.Random(chance.random()), turns)
            )
            for run in numbers
        ]
        waiting = "select count(*) >= %s from pg_locks where locktype = 'advisory' and not granted"
        await until(place.conn, waiting, SESSIONS)
        started = time.monotonic()
        await place.conn.execute("select pg_advisory_unlock(1)")
        did = sum(await asyncio.gather(*racing), Counter[str]())
        elapsed = time.monotonic() - started
        await place.conn.execute("select agent_internal.tick()")
    assert did.total() == SESSIONS * turns
    assert did["refused"], "the limit was never felt"
    reserved = "select * from agent.budget_overview where reserved_cost > 0"
    assert await fetch(place.conn, reserved) == []
    broken = await fetch(place.conn, "select rule from agent.broken_invariant")
    assert [rule for (rule,) in broken if "reserv" in rule] == []
    ((settled,),) = await fetch(place.conn, "select sum(cost) from agent.step")
    ((counted,),) = await fetch(
        place.conn, "select spent_cost from agent.budget_overview where name = 'everything'"
    )
    assert settled == counted
    figure("sessions on three shared budgets", SESSIONS)
    figure(
        "reservations and settlements a second on one hot budget",
        (did.total() + did["settled"]) / elapsed,
    )
    figure("highest (spent + reserved) / limit", float(seen.with_reserved))
