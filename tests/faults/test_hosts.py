"""Reader, workers, provider and server on hosts of their own; hosts die, and cables are pulled.

What is special here is silence: a cable that is pulled resets no connection, so whoever waits finds
out by a time-out, on the server's side as on ours.
"""

import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.faults.rig.checks import ALL_ENDED, all_is_well, caught_up
from tests.faults.rig.network import Host, Network, Side, network
from tests.faults.rig.processes import Daemon, pause, running, start_writer
from tests.faults.rig.provider import Provider
from tests.faults.rig.servers import own_server
from tests.faults.rig.stage import ATTACH_ALL, Figure, Place, make_ready
from tests.faults.rig.waiting import fetch, until
from walagent.embedded.postmaster import PORT

pytestmark = pytest.mark.scenario(22)

LATENCY = 0.3  # seconds before each answer: runs are long enough to be met in the middle
LOST = 12.0  # seconds after which a reader has given a silent connection up
CALL = 2.0  # seconds that a model may take to answer
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
HOLDS = "select count(*) >= %s from agent.run where state = 'running' and worker ~ %s"
HELD = "select id from agent.run where state = 'running' and worker ~ %s"
MOVED = """
select bool_and(agent_internal.is_final(state)) and bool_and(worker !~ %s)
      from agent.run where id = any (%s)
"""
ENDED = "select count(*) from agent.run where agent_internal.is_final(state)"
WAITS = "select exists (select from agent.run where state = 'waiting_retry')"


@dataclass(frozen=True, slots=True)
class Machine:
    """A host, and the daemons on it."""

    host: Host
    daemons: tuple[Daemon, ...]

    @property
    def workers(self) -> str:
        """What the names of its workers look like."""
        return "|".join(f"-{daemon.pid}-" for daemon in self.daemons)

    def is_alive(self) -> None:
        """Raise if one of its daemons has ended."""
        for daemon in self.daemons:
            daemon.is_alive()


@dataclass(frozen=True, slots=True)
class Site:
    """All machines of a test."""

    network: Network
    place: Place
    far: Place  # the same, as hosts reach it
    reader: Machine
    first: Machine
    second: Machine

    def daemon(self, name: str, command: str) -> Daemon:
        """Start another one, on a host of its own."""
        inside = self.network.host("db", "llm").inside
        return Daemon(self.far, name=name, command=command, inside=inside)

    def cut(self, machine: Machine, *sides: Side) -> None:
        """Pull cables."""
        self.network.pull(machine.host, *sides)

    def mend(self, machine: Machine, *sides: Side) -> None:
        """Put them back."""
        self.network.mend(machine.host, *sides)

    def kill(self, machine: Machine) -> None:
        """End all processes of a host."""
        for daemon in machine.daemons:
            daemon.kill()


@pytest.fixture
def cables() -> Iterator[Network]:
    """A network of this test's own."""
    with network() as made:
        yield made


@pytest.fixture
async def site(cables: Network, tmp_path: Path, pytestconfig: pytest.Config) -> AsyncIterator[Site]:
    """A server, a provider, a reader, and two hosts of workers: two processes, and one."""
    which, at = str(pytestconfig.getoption("--server")), cables.server
    if which not in {"embedded", "debian"}:
        pytest.skip("the server must be one that the test starts")
    async with own_server(tmp_path, which, settings={"listen_addresses": at}) as (server, place):
        with (server.folder / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all,replication all {cables.prefix} trust\n")
        await place.conn.execute("select pg_reload_conf()")
        llm = cables.host("llm")
        with running(
            Provider(place, llm.addresses["llm"], latency=LATENCY, inside=llm.inside)
        ) as p:
            await p.is_up()
            await make_ready(place, attach=ATTACH_ALL, provider=p.url)
            await place.conn.execute("update agent.model set timeout_seconds = %s", [CALL])
            dsn = make_conninfo(place.dsn, host=at, port=PORT)
            far = Place(place.conn, dsn, place.slot, place.folder)
            async with machines(cables, far) as made:
                yield Site(cables, place, far, *made)


@asynccontextmanager
async def machines(cables: Network, far: Place) -> AsyncIterator[tuple[Machine, Machine, Machine]]:
    """The hosts with daemons on them, as soon as they work."""
    with ExitStack() as stack:

        def machine(*names: str, command: str = "serve worker", slots: int = 4) -> Machine:
            host = cables.host("db", "llm")
            settings = {"workers": {"slots": slots}}
            daemons = (
                Daemon(far, name=n, command=command, inside=host.inside, settings=settings)
                for n in names
            )
            return Machine(host, tuple(stack.enter_context(running(each)) for each in daemons))

        reader = machine("reader", command="run", slots=1)
        first, second = machine("1a", "1b"), machine("2a")
        await reader.daemons[0].has_said("reader.streaming")
        for each in (first, second):
            for daemon in each.daemons:
                name = f"-{daemon.pid}-"
                query = "select exists (select from agent.worker where name ~ %s)"
                await until(far.conn, query, name, alive=each.is_alive)
        yield reader, first, second


async def write(site: Site, number: int) -> None:
    """Insert rows enough for everybody."""
    for each in range(1, number + 1):
        await site.place.conn.execute(WRITE, [each])


async def held_by(site: Site, machine: Machine, least: int) -> list[int]:
    """Wait until a host holds some runs; say which."""
    await until(site.place.conn, HOLDS, least, machine.workers, alive=machine.is_alive)
    return [run for (run,) in await fetch(site.place.conn, HELD, machine.workers)]


async def test_work_moves_on_from_a_host_that_dies(site: Site, figure: Figure) -> None:
    """All its processes are gone at once, with runs in their hands: the other host has them all."""
    conn = site.place.conn
    await write(site, 20)
    held = await held_by(site, site.first, 4)
    site.kill(site.first)
    alive = site.second.is_alive
    seconds = await until(conn, MOVED, site.first.workers, held, alive=alive)
    figure("work of a host that died done by another", seconds, "s")
    await until(conn, ALL_ENDED, alive=alive)
    await all_is_well(conn)


@pytest.mark.slow
async def test_work_moves_on_from_a_host_that_falls_silent(
    site: Site, chance: random.Random, figure: Figure
) -> None:
    """Its cables are pulled, and its processes live on: what they held is done elsewhere.

    When it is back its old answers count for nothing, and it takes new work.
    """
    conn, alive = site.place.conn, site.second.is_alive
    with running(start_writer(site.place, seed=chance.randrange(2**32))) as writer:
        held = await held_by(site, site.first, 4)
        site.cut(site.first, "db", "llm")
        seconds = await until(conn, MOVED, site.first.workers, held, alive=alive)
        figure("work of a host that fell silent done by another", seconds, "s")
        await goes_on(site)
        site.mend(site.first, "db", "llm")
        figure("until a silent host worked again", await works_again(site, site.first), "s")
        writer.signal(signal.SIGTERM)
        assert await writer.ended() == 0
    await until(conn, ALL_ENDED, alive=site.first.is_alive)
    await all_is_well(conn)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 25.0])
async def test_a_reader_without_its_server_holds_nobody_up(
    site: Site, chance: random.Random, figure: Figure, seconds: float
) -> None:
    """Workers go on with what is ingested; with the cable back the reader goes on where it was."""
    conn, reader = site.place.conn, site.reader.daemons[0]
    with running(start_writer(site.place, seed=chance.randrange(2**32))) as writer:
        await until(conn, f"select ({ENDED}) > 10", alive=site.reader.is_alive)
        site.cut(site.reader, "db")
        await pause(seconds)
        site.mend(site.reader, "db")
        figure("until a reader read again after its cable", await reads_again(site), "s")
        writer.signal(signal.SIGTERM)
        assert await writer.ended() == 0
    await until(conn, ALL_ENDED, alive=reader.is_alive)
    await all_is_well(conn)
    await caught_up(conn, site.place.slot, lag=20 << 20)
    assert reader.count("reader.streaming") > (seconds > LOST)


@pytest.mark.slow
async def test_another_host_takes_over_from_a_reader_that_falls_silent(
    site: Site, chance: random.Random, figure: Figure
) -> None:
    """The server frees the slot of a reader it does not hear; the old one stands by afterwards."""
    conn, reader = site.place.conn, site.reader.daemons[0]
    with (
        running(site.daemon("standby", "run")) as standby,
        running(start_writer(site.place, seed=chance.randrange(2**32))) as writer,
    ):
        await standby.has_said("reader.waiting")
        await until(conn, f"select ({ENDED}) > 10", alive=site.reader.is_alive)
        site.cut(site.reader, "db")
        figure("take-over from a silent reader", await standby.has_said("reader.streaming"), "s")
        await goes_on(site)
        site.mend(site.reader, "db")
        await reader.has_said("reader.waiting")
        writer.signal(signal.SIGTERM)
        assert await writer.ended() == 0
        await until(conn, ALL_ENDED, alive=standby.is_alive)
        await all_is_well(conn)
        assert reader.count("reader.streaming") == 1


@pytest.mark.slow
async def test_workers_without_their_server_lose_their_runs_and_come_back(
    site: Site, chance: random.Random, figure: Figure
) -> None:
    """What they held is done by others; answers that they still get are written nowhere."""
    conn = site.place.conn
    with running(start_writer(site.place, seed=chance.randrange(2**32))) as writer:
        held = await held_by(site, site.first, 4)
        site.cut(site.first, "db")
        moved = await until(conn, MOVED, site.first.workers, held, alive=site.second.is_alive)
        figure("work of a host without the server done by another", moved, "s")
        site.mend(site.first, "db")
        figure("until workers came back to the server", await works_again(site, site.first), "s")
        writer.signal(signal.SIGTERM)
        assert await writer.ended() == 0
    await until(conn, ALL_ENDED, alive=site.first.is_alive)
    await all_is_well(conn)


@pytest.mark.slow
async def test_workers_without_their_provider_let_others_do_it(
    site: Site, chance: random.Random, figure: Figure
) -> None:
    """A call ends with its time-out and its run is tried again, here or where it succeeds."""
    conn = site.place.conn
    with running(start_writer(site.place, seed=chance.randrange(2**32))) as writer:
        held = await held_by(site, site.first, 4)
        site.cut(site.first, "llm")
        await until(conn, WAITS, alive=site.first.is_alive)
        query = "select bool_and(agent_internal.is_final(state)) from agent.run where id = any (%s)"
        seconds = await until(conn, query, held, alive=site.second.is_alive)
        figure("work of a host without the provider done", seconds, "s")
        await goes_on(site)
        site.mend(site.first, "llm")
        figure("until workers came back to the provider", await works_again(site, site.first), "s")
        writer.signal(signal.SIGTERM)
        assert await writer.ended() == 0
    await until(conn, ALL_ENDED, alive=site.first.is_alive)
    await all_is_well(conn)


async def goes_on(site: Site) -> None:
    """See other runs end, which began later."""
    ((last,),) = await fetch(site.place.conn, "select coalesce(max(id), 0) from agent.run")
    query = "select count(*) > 5 from agent.run where id > %s and agent_internal.is_final(state)"
    await until(site.place.conn, query, last, alive=site.second.is_alive)


async def reads_again(site: Site) -> float:
    """Wait until a change from now on is ingested; return how long that took."""
    conn = site.place.conn
    ((now,),) = await fetch(conn, "select pg_current_wal_lsn()::text")
    query = "select exists (select from agent.run where commit_lsn > %s::pg_lsn)"
    return await until(conn, query, now, alive=site.reader.is_alive)


async def works_again(site: Site, machine: Machine) -> float:
    """Wait until a host has ended a run that began from now on; return how long that took."""
    conn = site.place.conn
    ((last,),) = await fetch(conn, "select coalesce(max(id), 0) from agent.run")
    query = """
select exists (select from agent.run where id > %s and worker ~ %s and state = 'succeeded')
"""
    return await until(conn, query, last, machine.workers, alive=machine.is_alive)
