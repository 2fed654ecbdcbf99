"""The network fails us, and everything still happens once."""

import asyncio
import random
import signal
import time
from dataclasses import dataclass

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import pause, running, start_writer
from tests.faults.rig.proxy import REPLICATION, Proxy
from tests.faults.rig.serving import Serving, serving
from tests.faults.rig.stage import ATTACH, ATTACH_ALL, REPLIES, Figure, Place, set_up
from tests.faults.rig.waiting import fetch, until, until_true
from walagent.base import faults
from walagent.telemetry import metrics

WORKER, INTAKE, JUDGE = "walagent worker", "walagent intake", "walagent evaluate"
TOOLS = "walagent tools"
PARTS = (REPLICATION, INTAKE, WORKER, TOOLS, JUDGE, "walagent status", "walagent backfill")
IN_EFFECT = "select exists (select from agent.attachment_version where active_from is not null)"
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
ENDED = "select count(*) from agent.run where agent_internal.is_final(state)"
ANSWERS = "select count(*) from agent.step where kind = 'reply'"


@dataclass(frozen=True, slots=True)
class Lost:
    """A statement that is lost on the way, or whose answer is."""

    part: str
    statement: str
    request: bool

    def lose(self, proxy: Proxy) -> None:
        """Have the proxy lose the next one."""
        if self.request:
            proxy.drop_request(self.part, self.statement)
        else:
            rows = self.statement == "agent_internal.claim_runs"
            proxy.drop_reply(self.part, self.statement, rows=rows)


COMMITS = [
    (INTAKE, "agent_internal.ingest"),
    (INTAKE, "commit"),
    (WORKER, "agent_internal.claim_runs"),
    (WORKER, "agent_internal.record_many"),  # of a reply; tests/integration/runs has it of an end
    (TOOLS, "agent_signed.call_tool"),
    (TOOLS, "commit"),  # of the tool in Python
]
FAST = {
    (INTAKE, "agent_internal.ingest", False),
    (TOOLS, "commit", False),
    (TOOLS, "agent_signed.call_tool", False),
    (WORKER, "agent_internal.record_many", True),
}
LOST = [
    pytest.param(
        Lost(part, statement, request),
        id=f"{statement} of {part}, {'not carried out' if request else 'answer lost'}",
        marks=() if (part, statement, request) in FAST else pytest.mark.slow,
    )
    for part, statement in COMMITS
    for request in (False, True)
]


@pytest.mark.few(1)
@pytest.mark.scenario(2)
@pytest.mark.parametrize("lost", LOST)
async def test_a_commit_whose_outcome_is_unknown_is_done_once(place: Place, lost: Lost) -> None:
    """Whether it happened or not: what is there is looked at, and no model is asked again."""
    await set_up(place)
    answered = answers_of_models()
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        if (lost.part, lost.statement) == (INTAKE, "commit"):
            lost.lose(proxy)  # only attaching takes intake more than one statement here
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        if proxy.dropped == 0:
            lost.lose(proxy)
        for number in range(1, 6):
            await place.conn.execute(WRITE, [number])
            # A second change of the row must wait for its ordering_key, so it is claimed, not
            # started.
            await place.conn.execute("update item set version = 2 where id = %s", [number])
            await place.conn.execute("insert into written (item, version) values (%s, 2)", [number])
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
        assert proxy.dropped == 1
    assert answers_of_models() - answered == 10 * REPLIES


APPROVED = ATTACH.replace("max_attempts", "approve=[note_change], max_attempts")
WAITING = "select count(*) = 1 from agent.run where state = 'waiting_approval'"
ASKED = "select state, count(*) from agent.approval group by 1"


@pytest.mark.scenario(2)
@pytest.mark.parametrize("request_too", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_an_approval_whose_outcome_is_unknown_is_asked_for_once(
    place: Place, *, request_too: bool
) -> None:
    """One question is there for the person, whether the first try committed or not."""
    await set_up(place)
    answered = answers_of_models()
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        await place.conn.execute(APPROVED.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        Lost(WORKER, "commit", request_too).lose(proxy)
        await place.conn.execute(WRITE, [1])
        await until(place.conn, WAITING, alive=daemon.is_alive)
        assert proxy.dropped == 1
        assert await fetch(place.conn, ASKED) == [("pending", 1)]
        await place.conn.execute("select agent.approve(id) from agent.approval")
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn, shapes=False)
        assert await fetch(place.conn, ASKED) == [("approved", 1)]
    assert answers_of_models() - answered == REPLIES


# All that a part sends, one after the other, whatever it is called.
SENT = {INTAKE: 16, WORKER: 32}


@pytest.mark.slow
@pytest.mark.scenario(2, 4)
@pytest.mark.parametrize("request_too", [False, True])
@pytest.mark.parametrize("part", [INTAKE, WORKER])
async def test_whatever_is_lost_is_made_up_for(
    place: Place, figure: Figure, *, part: str, request_too: bool
) -> None:
    """The first statement, the second and so on is lost, or its answer is: all is done once."""
    await set_up(place)
    answered, changes = answers_of_models(), 0
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        await place.conn.execute(ATTACH_ALL.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        for skip in range(SENT[part]):
            proxy.drop_nth(part, skip, request=request_too)
            while proxy.dropped <= skip:
                changes += 1
                await place.conn.execute(WRITE, [changes])
                await place.conn.execute("insert into topic default values")
                await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
    assert answers_of_models() - answered == await replies_stored(place)
    figure("statements or answers lost", SENT[part])


async def replies_stored(place: Place) -> int:
    """How many answers of models are kept."""
    return (await fetch(place.conn, ANSWERS))[0][0]


@pytest.mark.slow
@pytest.mark.scenario(4)
@pytest.mark.parametrize("cuts", [6, pytest.param(100, marks=pytest.mark.slow)])
async def test_connections_that_are_cut_at_random_cost_nothing(
    place: Place, chance: random.Random, figure: Figure, cuts: int
) -> None:
    """Each part of the daemon comes back by itself, and goes on where it was."""
    await set_up(place)
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        await place.conn.execute(ATTACH_ALL.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        with running(start_writer(place, seed=chance.randrange(2**32))) as writer:
            for number in range(cuts):
                ((ended,),) = await fetch(place.conn, ENDED)
                await cut_one(proxy, daemon, chance, PARTS[number % len(PARTS)])
                await until(place.conn, f"select ({ENDED}) > %s", ended, alive=daemon.is_alive)
            writer.signal(signal.SIGTERM)
            assert await writer.ended() == 0
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
    figure("connections cut at random under load", cuts)


@pytest.mark.scenario(4)
@pytest.mark.parametrize("request_too", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "part",
    [
        INTAKE,
        *(
            pytest.param(part, marks=pytest.mark.slow)
            for part in (WORKER, JUDGE, "walagent status", "walagent backfill", "walagent registry")
        ),
    ],
)
async def test_a_connection_that_breaks_as_soon_as_it_stands_is_made_again(
    place: Place, *, part: str, request_too: bool
) -> None:
    """Its very first statement is lost: between login and work there is no gap to fall into."""
    await set_up(place)
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)

        async def is_lost() -> bool:
            daemon.is_alive()
            return proxy.dropped == 1

        async def is_back() -> bool:
            daemon.is_alive()
            return bool(proxy.of(part))

        proxy.drop_nth(part, 0, request=request_too)
        for link in (
            *proxy.of(part),
            *proxy.of(REPLICATION),
        ):  # the reader makes all of its own anew
            link.cut()
        await place.conn.execute(WRITE, [1])
        await until_true(is_lost, "the first statement is lost")
        await until_true(is_back, f"{part} is connected again")
        await place.conn.execute(WRITE, [2])
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)


async def cut_one(proxy: Proxy, daemon: Serving, chance: random.Random, part: str) -> None:
    """Cut a connection of *part* as soon as there is one, at a moment of its own."""

    async def is_there() -> bool:
        daemon.is_alive()
        return bool(proxy.of(part))

    await until_true(is_there, f"{part} is connected")
    await pause(chance.uniform(0, 0.1))
    for link in proxy.of(part)[:1]:
        link.cut()


@pytest.mark.slow
@pytest.mark.scenario(4)
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
@pytest.mark.scenario(4)
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
@pytest.mark.scenario(4)
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
@pytest.mark.scenario(4)
@pytest.mark.parametrize("part", [REPLICATION, INTAKE, JUDGE, WORKER, ""])
async def test_a_connection_that_swallows_everything_is_found_out(
    place: Place, figure: Figure, part: str
) -> None:
    """Nobody ends it, and whoever stands between acknowledges what is lost."""
    await set_up(place, latency=0.05)
    answered = answers_of_models()
    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        # A condition, so that the evaluate is asked.
        attach = ATTACH.replace("'item', '", "'item', 'when=\"new.id > 0\", ")
        await place.conn.execute(attach.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        for number in range(1, 4):
            await place.conn.execute(WRITE, [number])
        await until(place.conn, f"select ({ANSWERS}) >= 1", alive=daemon.is_alive)
        for link in proxy.of(part) if part else list(proxy.links):
            link.swallow()
        swallowed = time.monotonic()
        for number in range(4, 7):
            await place.conn.execute(WRITE, [number])
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        figure("until a silent connection was given up", time.monotonic() - swallowed, "s")
        await all_is_well(place.conn)
    assert answers_of_models() - answered == 6 * REPLIES


@pytest.mark.slow
@pytest.mark.scenario(4)
async def test_a_transaction_that_is_left_open_in_silence_is_ended(
    place: Place, figure: Figure
) -> None:
    """The server does not hear that its client is gone, and the run's row stays locked for it."""
    await set_up(place)
    answered = answers_of_models()
    swallowed = 0.0

    def swallow() -> None:
        nonlocal swallowed
        swallowed = time.monotonic()
        for link in proxy.of(WORKER):
            link.swallow()

    async with Proxy(place.dsn).listen() as proxy, serving(place, proxy.dsn) as daemon:
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        with faults.armed("tool.done", mode=swallow):
            await place.conn.execute(WRITE, [1])
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        figure("until a forgotten transaction was ended", time.monotonic() - swallowed, "s")
        await all_is_well(place.conn)
    assert answers_of_models() - answered == REPLIES


@pytest.mark.slow
@pytest.mark.scenario(4)
async def test_half_a_second_each_way_changes_nothing_but_the_time(
    place: Place, chance: random.Random, figure: Figure
) -> None:
    """A second for each round trip, with the leases and time-outs that operators have."""
    await set_up(place)
    answered = answers_of_models()
    proxy = Proxy(place.dsn)
    proxy.latency = 0.5
    settings = {
        "workers": {"lease": 30, "poll": 5, "connections": 20},
        "replication": {"sender_timeout": 4},
    }
    async with proxy.listen(), serving(place, proxy.dsn, settings) as daemon:
        await place.conn.execute(ATTACH_ALL.encode())
        await until(place.conn, IN_EFFECT, alive=daemon.is_alive)
        began = time.monotonic()
        with running(start_writer(place, seed=chance.randrange(2**32), changes=12)) as writer:
            assert await writer.ended() == 0
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive, seconds=150)
        figure("12 changes with a second for each round trip", time.monotonic() - began, "s")
        await all_is_well(place.conn)
        assert daemon.streams == 1
    assert answers_of_models() - answered == await replies_stored(place)


@pytest.mark.slow
@pytest.mark.scenario(4)
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
