"""The network fails us, and everything still happens once."""

import asyncio
import random

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import pause, running, start_writer
from tests.faults.rig.proxy import REPLICATION, Proxy
from tests.faults.rig.serving import serving
from tests.faults.rig.stage import ATTACH, REPLIES, Place, set_up
from tests.faults.rig.waiting import until, until_true
from walagent import metrics

WORKER, INTAKE = "walagent worker", "walagent intake"
PARTS = (REPLICATION, INTAKE, WORKER, "walagent judge", "walagent status", "walagent backfill")
IN_EFFECT = "select exists (select from agent.attachment_version where active_from is not null)"
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
ANSWERS = "select count(*) from agent.step where kind = 'reply'"


@pytest.mark.parametrize(
    ("part", "statement"),
    [
        (INTAKE, "agent.take_in"),
        (INTAKE, "commit"),
        (WORKER, "agent.claim_runs"),
        (WORKER, "agent.record_step"),
        (WORKER, "agent.call_tool"),
        (WORKER, "commit"),  # of the tool in Python
        (WORKER, "agent.finish"),
    ],
)
async def test_a_commit_whose_answer_is_lost_is_done_once(
    place: Place, part: str, statement: str
) -> None:
    """Nobody knows whether it happened, so what is there is looked at again."""
    await set_up(place)
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        if part == INTAKE and statement == "commit":
            proxy.drop_reply(part, statement)
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        if proxy.dropped == 0:
            proxy.drop_reply(part, statement, rows=statement == "agent.claim_runs")
        for number in range(1, 6):
            await place.conn.execute(WRITE, [number])
            # A second change of the row must wait for its lane, so it is claimed, not started.
            await place.conn.execute("update item set version = 2 where id = %s", [number])
            await place.conn.execute("insert into written (item, version) values (%s, 2)", [number])
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
        assert proxy.dropped == 1


@pytest.mark.parametrize(
    ("changes", "cuts"), [(300, 18), pytest.param(4000, 200, marks=pytest.mark.slow)]
)
async def test_connections_that_are_cut_at_random_cost_nothing(
    place: Place, chance: random.Random, changes: int, cuts: int
) -> None:
    """Each part of the daemon comes back by itself, and goes on where it was."""
    await set_up(place)
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        with running(start_writer(place, seed=chance.randrange(2**32), changes=changes)) as writer:
            for number in range(cuts):
                await cut_one(proxy, chance, PARTS[number % len(PARTS)])
            assert await writer.ended(seconds=300) == 0
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive, seconds=300)
        await all_is_well(place.conn)


async def cut_one(proxy: Proxy, chance: random.Random, part: str) -> None:
    """Cut a connection of *part* as soon as there is one, at a moment of its own."""

    async def is_there() -> bool:
        return bool(proxy.of(part))

    await until_true(is_there, f"{part} is connected")
    await pause(chance.uniform(0, 0.1))
    for link in proxy.of(part)[:1]:
        link.cut()


async def test_a_cut_connection_costs_no_answer_of_a_model(place: Place) -> None:
    """What a model has answered stands: only the death of the process makes it asked again."""
    await set_up(place, latency=0.4)
    answered = answers_of_models()
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        for number in range(1, 6):
            await place.conn.execute(WRITE, [number])
        for answers in (0, 5, 10):
            await until(place.conn, f"select ({ANSWERS}) >= %s", answers, alive=daemon.is_alive)
            for link in list(proxy.links):
                link.cut()
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
    assert answers_of_models() - answered == 5 * REPLIES


def answers_of_models() -> float:
    """How many answers of models this process has had, as /metrics tells it."""
    name, labels = "walagent_model_requests_total", {"model": "script", "outcome": "ok"}
    return metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.mark.slow
async def test_a_slow_and_choppy_network_changes_nothing(place: Place) -> None:
    """Messages arrive in pieces of a few bytes, each a little late."""
    await set_up(place)
    proxy = Proxy(place.dsn)
    proxy.delay, proxy.piece = 0.001, 7
    async with proxy.listen(), serving(place, proxy.dsn) as daemon:
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        for number in range(1, 4):
            await place.conn.execute(WRITE, [number])
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)


@pytest.mark.slow
async def test_a_reader_whose_server_has_vanished_finds_out(place: Place) -> None:
    """The server is gone without a word, as after a power cut: asked, waited for, given up."""
    await set_up(place)
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        for link in proxy.of(REPLICATION):
            link.leave_half_open()
        for number in range(1, 6):
            await place.conn.execute(WRITE, [number])
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive, seconds=30)
        await all_is_well(place.conn)
        assert daemon.streams == 2


@pytest.mark.slow
async def test_a_network_that_stands_still_for_a_while_costs_nothing(place: Place) -> None:
    """Longer than the server's patience and every lease, and then it moves again."""
    await set_up(place)
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        for number in range(1, 11):
            await place.conn.execute(WRITE, [number])
            if number == 5:
                still = list(proxy.links)
                for link in still:
                    link.flowing.clear()
        await asyncio.sleep(6)  # the stand-still itself
        for link in still:
            link.flowing.set()
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
