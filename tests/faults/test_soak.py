"""Small faults all the time, under load: nothing grows, nothing is lost, nothing happens twice.

WALAGENT_SOAK says for how many seconds; `make soak` has it go on for an hour.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from statistics import quantiles
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.faults.rig.processes import Daemon, FreshDaemon, pause
from tests.faults.rig.proxy import Proxy
from tests.faults.rig.servers import OwnServer, own_server
from tests.faults.rig.slopes import Sample, growth, slope, take_sample
from tests.faults.rig.stage import CREDENTIAL, Figure, Place, add_model
from tests.faults.rig.waiting import connect_again, fetch, until
from walagent.domain.run import RunState
from walagent.message import Request
from walagent.runs.pruning import prune
from walagent.store import claiming, runs
from walagent.store.sessions.connections import connect
from walagent.testing import Answer, FakeProvider, Fault, call

LONG = float(os.environ.get("WALAGENT_SOAK") or 120)  # seconds
LEAPS = 600.0  # seconds in which the server certainly moves catalog_xmin
WARM = 0.3  # of the time: caches fill, tables reach their size
BACKLOG = 200  # changes that the agents may be behind

SCENE = """
create table deed (id bigint primary key, version integer not null, kind text not null);
create table written (deed bigint not null, version integer not null);
create table done (
    seq     bigint generated always as identity,
    deed    bigint not null,
    version integer not null
);
create table pruned (
    run     bigint not null,
    deed    bigint not null,
    version integer not null,
    state   text not null
);
create function note_deed(deed bigint, version integer)
    returns text
    language sql
as $$ insert into public.done (deed, version) values (deed, version) returning 'noted' $$;

-- Runs that are removed leave a trace, so that in the end all can be counted.
create function note_pruned()
    returns trigger
    language plpgsql
as $$
begin
    insert into public.pruned
    values (old.id, (old.change -> 'new' ->> 'id')::bigint,
            (old.change -> 'new' ->> 'version')::integer, old.state);
    return null;
end;
$$;
create trigger note_pruned after delete on agent.run for each row execute function note_pruned();
"""
# What is removed is to be gone soon, so that tables reach their size within seconds.
VACUUM = {
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_vacuum_cost_delay": "0",
}
ATTACH = """
select agent.attach('deed', 'name=near, model=near, tools=[note_deed], on=[insert, update],
    when="new.kind = ''near''", bind=[deed=id, version=version], max_attempts=100');
select agent.attach('deed', 'name=far, model=far, tools=[note_deed], on=[insert, update],
    when="new.kind = ''far''", bind=[deed=id, version=version], max_attempts=100');
"""
INSERT = """
with new as (insert into deed values (%s, 1, %s) returning id, version)
insert into written select * from new
"""
UPDATE = """
with new as (update deed set version = version + 1 where id = %s returning id, version)
insert into written select * from new
"""

_DEEDS = """
select id, (change -> 'new' ->> 'id')::bigint as deed,
       (change -> 'new' ->> 'version')::integer as version, state::text
  from agent.run
union all select run, deed, version, state from pruned
"""
WRONG = {
    "runs": f"""
        select deed, version, count(w.deed), count(r.deed)
          from (select deed, version from written) w full join ({_DEEDS}) r using (deed, version)
         group by 1, 2 having count(w.deed) <> 1 or count(r.deed) <> 1 limit 20""",
    "effects": """
        select deed, version, count(w.deed), count(d.deed)
          from (select deed, version from written) w full join done d using (deed, version)
         group by 1, 2 having count(w.deed) <> 1 or count(d.deed) <> 1 limit 20""",
    "order": """
        select deed, version, before
          from (select deed, version,
                       lag(version) over (partition by deed order by seq) as before
                  from done) d
         where before >= version limit 20""",
    "states": f"select state, count(*) from ({_DEEDS}) r where state <> 'succeeded' group by 1",
    "promises": "select * from agent.broken_invariant limit 20",
    "gaps": "select * from agent.gap",
}
SETTINGS = {
    "replication": {"sender_timeout": 4},
    "workers": {"connections": 4, "slots": 50},
    "retention": {"runs": 5, "every": 2},
    "log": {"level": "info"},
}


FAULTS = (Fault(429, "1"), Fault(500), Fault(503), Fault(cut=True), Fault(drop=True))


@dataclass
class Soak:
    """Everything that runs, and what may be done to it."""

    dsn: str  # of the server itself
    place: Place  # reached through the proxy
    server: OwnServer
    proxy: Proxy
    chance: random.Random
    reader: Daemon
    worker: Daemon
    samples: list[Sample] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    over: bool = False

    async def trouble(self) -> None:
        """Do something small, again and again."""
        kinds: Mapping[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "backend terminated": (5, self._terminate),
            "connection cut": (5, self._cut),
            "worker killed": (2, self._kill),
            "process frozen": (3, self._freeze),
            "server restarted": (1, self._restart),
        }
        weights = [weight for weight, _ in kinds.values()]
        while not self.over:
            await pause(self.chance.uniform(0.3, 1.5))
            (kind,) = self.chance.choices([*kinds], weights)
            self.seen[kind] += 1
            with suppress(psycopg.OperationalError):  # the server is on its way down or up
                await kinds[kind][1]()

    async def _terminate(self) -> None:
        async with await AsyncConnection.connect(self.dsn, autocommit=True) as conn:
            ours = (
                "select pid from pg_stat_activity where application_name ~ '^walagent' order by 1"
            )
            pids = [pid for (pid,) in await fetch(conn, ours)]
            await conn.execute("select pg_terminate_backend(%s)", [self.chance.choice(pids or [0])])

    async def _cut(self) -> None:
        if self.proxy.links:
            self.chance.choice(self.proxy.links).cut()

    async def _kill(self) -> None:
        self.worker.kill()
        self.worker = start(self.place, "serve worker")

    async def _freeze(self) -> None:
        process = self.chance.choice((self.reader, self.worker))
        process.signal(signal.SIGSTOP)
        await pause(self.chance.uniform(0.1, 0.8))
        process.signal(signal.SIGCONT)

    async def _restart(self) -> None:
        await self.server.stop()
        await self.server.start()

    async def write(self) -> None:
        """Change rows, never far ahead of the agents."""
        while not self.over:
            with suppress(psycopg.OperationalError):
                async with await connect_again(self.dsn) as conn:
                    await self._write_on(conn)

    async def _write_on(self, conn: AsyncConnection[Any]) -> None:
        ((made, new),) = await fetch(conn, MADE)
        while not self.over:
            behind = made - (await fetch(conn, DONE))[0][0]
            for _ in range(0 if behind > BACKLOG else 20):
                await self._change(conn, new)
                made, new = made + 1, new + 1
            await pause(0.1)

    async def _change(self, conn: AsyncConnection[Any], new: int) -> None:
        if new > 10 and self.chance.random() < 0.3:
            await conn.execute(UPDATE, [self.chance.randrange(new - 10, new)])
        else:
            await conn.execute(INSERT, [new, self.chance.choice(("near", "near", "near", "far"))])

    async def sample(self) -> None:
        """Look every second."""
        while not self.over:
            with suppress(psycopg.OperationalError):
                async with await connect_again(self.dsn) as conn:
                    while not self.over:
                        self.samples.append(await take_sample(conn, self.reader))
                        self.reader.is_alive()
                        await pause(1)


DONE = "select coalesce(pg_sequence_last_value('done_seq_seq'), 0)"
MADE = "select (select count(*) from written), (select coalesce(max(id), 0) + 1 from deed)"


def start(place: Place, command: str) -> Daemon:
    """One of the two processes."""
    return FreshDaemon(place, name=command, command=command, settings=SETTINGS)


@asynccontextmanager
async def soaking(place: Place, server: OwnServer, chance: random.Random) -> AsyncIterator[Soak]:
    """Run reader, worker, proxy and provider until the block ends."""

    def often(answer: Answer) -> Callable[[Request], Answer]:
        return lambda _: chance.choice(FAULTS) if chance.random() < 0.02 else answer

    replies = [often(call("note_deed")), often("Noted.")]
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(FakeProvider(replies, keep=False))
        await place.conn.execute(SCENE)
        for name, value in VACUUM.items():
            await place.conn.execute(f"alter system set {name} = '{value}'".encode())
        await place.conn.execute("select pg_reload_conf()")
        await add_model(place, "near", {"replies": [{"call": "note_deed"}, "Noted."]})
        await add_model(place, "far")
        await place.conn.execute(
            "update agent.model set provider = 'openai', base_url = %s, credential = %s"
            " where name = 'far'",
            [f"http://127.0.0.1:{provider.port}/v1", CREDENTIAL],
        )
        proxy = await stack.enter_async_context(Proxy(server.dsn).listen())
        through = replace(place, dsn=proxy.dsn)
        soak = Soak(
            server.dsn,
            through,
            server,
            proxy,
            chance,
            start(through, "run"),
            start(through, "serve worker"),
        )
        try:
            yield soak
        finally:
            for process in (soak.reader, soak.worker):
                process.signal(signal.SIGCONT)
                process.kill()


@asynccontextmanager
async def soaked(
    folder: Path, which: str, chance: random.Random, seconds: float
) -> AsyncIterator[Soak]:
    """Let it all run for a time, let the agents catch up, and see that everything happened once."""
    async with own_server(folder, which) as (server, place), soaking(place, server, chance) as soak:
        await soak.reader.has_said("reader.streaming")
        await place.conn.execute(ATTACH.encode())
        await soak.reader.has_said("attachment.activated", times=2)
        async with asyncio.TaskGroup() as group:
            for part in (soak.trouble(), soak.write(), soak.sample()):
                group.create_task(part)
            await pause(seconds)
            soak.over = True
        alive = soak.reader.is_alive
        async with await connect_again(soak.dsn) as conn:
            await until(conn, ALL_DONE, alive=alive, seconds=120)
            await until(conn, ALL_ENDED, alive=alive)
            wrong = {what: await fetch(conn, query) for what, query in WRONG.items()}
            assert not any(wrong.values()), wrong
            await until(conn, "select exists (select from pruned)", alive=alive)
        yield soak


ALL_DONE = "select (select count(*) from done) >= (select count(*) from written)"
ALL_ENDED = "select coalesce(bool_and(agent_internal.is_final(state)), true) from agent.run"


@pytest.mark.slow
@pytest.mark.scenario(20)
async def test_small_faults_all_the_time_cost_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, chance: random.Random
) -> None:
    """Old runs are removed meanwhile, and each change has had its one run and its one effect."""
    which = str(request.config.getoption("--server"))
    async with soaked(tmp_path, which, chance, 10) as soak:
        assert sum(soak.seen.values()) >= 3, soak.seen


@pytest.mark.slow
@pytest.mark.scenario(20)
async def test_nothing_grows(
    tmp_path: Path, request: pytest.FixtureRequest, chance: random.Random, figure: Figure
) -> None:
    """Memory, files, connections, tables, and what the slot keeps: flat once they are warm."""
    which = str(request.config.getoption("--server"))
    async with soaked(tmp_path, which, chance, LONG) as soak:
        began = soak.samples[0].seconds
        warm = [each for each in soak.samples if each.seconds > began + WARM * LONG]
    memory, tables = (slope(warm, what, over="runs") for what in ("memory", "tables"))
    runs_seen = warm[-1].runs - warm[0].runs
    files, connections = (growth(warm, what) for what in ("files", "connections"))
    # Of all WAL, and of all transactions: 1 where the slot does not move at all.  The server moves
    # catalog_xmin in leaps, minutes apart, so how young it has become says more than a line.
    lag = growth(warm, "lag") / growth(warm, "wal")
    late = warm[-len(warm) // 3 :]
    xmin = min(each.xmin_age for each in late) / (late[0].transactions - warm[0].transactions)
    figure(f"runs in {LONG:g} s", soak.samples[-1].runs)
    figure("faults", sum(soak.seen.values()))
    figure("memory", soak.samples[-1].memory / (1 << 20), "MB")
    figure("memory's growth", memory, "bytes a run")
    figure("tables' growth", tables, "bytes a run")
    figure("growth of open files", files)
    figure("growth of connections", connections)
    figure("catalog_xmin's age, of all transactions", xmin)
    figure("growth of lag for each byte of WAL", lag)
    # What grows at first and not for long counts much where few runs were worked.
    assert memory * runs_seen < 500 * runs_seen + 2_500_000
    assert tables * runs_seen < 200 * runs_seen + 700_000
    assert files < 10
    assert connections < 8
    assert LONG < LEAPS or xmin < 0.3
    assert lag < 0.05


OLD = """
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, key, state,
                       finished_at, created_at)
select 'manual', 0, 0, 1, jsonb_build_object('new', jsonb_build_object('id', n)), n::text,
       'succeeded', now() - interval '30 days', now() - interval '31 days'
  from generate_series(1, %s::int) n
"""
OLD_STEPS = """
insert into agent.step (run_id, seq, kind, content)
select r.id, n, 'reply', '{"parts": []}' from agent.run r cross join generate_series(0, 2) n
"""
NEW = """
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change)
select 'manual', id, id, 1, '{}' from agent.attachment cross join generate_series(1, 2000)
"""
LEFT = "select count(*) from agent.run where attachment_id = 0"


@pytest.mark.slow
@pytest.mark.scenario(20)
@pytest.mark.parametrize("old", [5000, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_pruning_holds_no_claim_up(place: Place, figure: Figure, old: int) -> None:
    """Runs are claimed and ended beside it, and none of that waits for a lock."""
    conn = place.conn
    await add_model(place, "near", {})
    await conn.execute("create table deed (id bigint primary key)")
    await conn.execute("select agent.attach('deed', 'model=near')")
    await conn.execute(OLD, [old])
    await conn.execute(OLD_STEPS)
    await conn.execute(NEW)
    async with await connect(place.dsn) as pruner, await connect(place.dsn) as worker:
        await worker.execute("set lock_timeout = '250ms'")
        alone = [await claim_and_finish(worker) for _ in range(200)]
        started = time.monotonic()
        pruning = asyncio.create_task(prune(pruner, timedelta(days=7), None))
        beside = [await claim_and_finish(worker) for _ in range(200)]
        while not pruning.done() and len(beside) < 1800:
            beside.append(await claim_and_finish(worker))
        assert await pruning == old
        took = time.monotonic() - started
    assert await fetch(conn, LEFT) == [(0,)]
    figure("runs pruned with their steps", old / took, "a second")
    figure("claim and end, median", quantiles(alone, n=100)[49] * 1000, "ms")
    figure("claim and end beside pruning, median", quantiles(beside, n=100)[49] * 1000, "ms")


async def claim_and_finish(conn: AsyncConnection[Any]) -> float:
    """Do what a worker does with one run; return the seconds that it took."""
    started = time.monotonic()
    (claim,) = await claiming.claim_runs(conn, "w", 1, timedelta(seconds=30))
    await runs.finish_run(
        conn, claim, RunState.SUCCEEDED, result="", error=None, spent=runs.Spent(0, None)
    )
    return time.monotonic() - started
