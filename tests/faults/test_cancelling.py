"""A run is cancelled: by whoever may and by nobody else, while it thinks, acts, and ends."""

import asyncio
import random
import signal
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest
from psycopg import AsyncConnection, Error

from tests.faults.rig.processes import Daemon, Process, pause, running
from tests.faults.rig.serving import serving
from tests.faults.rig.stage import Figure, Place, make_ready
from tests.faults.rig.waiting import fetch, until, until_true

pytestmark = pytest.mark.scenario(14)

SETTINGS = {"workers": {"lease": 30, "poll": 30}}  # so that neither a lease nor a poll helps
SOON = 5.0  # seconds; the heartbeat comes every ten, the model's answer after 60
WRITE = """
with new as (insert into item values (1, 1) returning id, version)
insert into written (item, version) select * from new
"""
MANY = """
with new as (
    insert into item select n, 1 from generate_series(%s::bigint, %s) n returning id, version
)
insert into written (item, version) select * from new
"""
IN_WORK = "select exists (select from agent.run where state = 'running')"
CANCELLED = "select exists (select from agent.run where state = 'cancelled')"
ENDED = "select count(*) >= %s from agent.run where agent_internal.is_final(state)"


async def test_a_cancelled_run_ends_while_its_model_thinks(place: Place) -> None:
    """Its worker hears of it at once."""
    await make_ready(place, latency=60)
    async with serving(place, place.dsn, SETTINGS) as daemon:
        await place.conn.execute(WRITE)
        await until(place.conn, IN_WORK, alive=daemon.is_alive)
        await place.conn.execute("select agent.cancel(id) from agent.run")
        await until(place.conn, CANCELLED, seconds=SOON, alive=daemon.is_alive)
        assert await fetch(place.conn, "select lease_expires_at from agent.run") == [(None,)]


@pytest.mark.slow
async def test_fifty_people_who_cancel_at_once_are_each_obeyed(place: Place) -> None:
    """The worker that hears of one cancellation after the other deals with each, and once."""
    await make_ready(place, latency=60)
    async with (
        serving(place, place.dsn, {"workers": {"lease": 60, "poll": 60, "slots": 50}}) as daemon,
        AsyncExitStack() as stack,
    ):
        await place.conn.execute(MANY, [1, 50])
        in_work = "select count(*) = 50 from agent.run where state = 'running'"
        await until(place.conn, in_work, alive=daemon.is_alive)
        runs = await fetch(place.conn, "select id from agent.run")
        people = [
            await stack.enter_async_context(
                await AsyncConnection.connect(place.dsn, autocommit=True)
            )
            for _ in runs
        ]
        await asyncio.gather(
            *(
                fetch(person, "select agent.cancel(%s)", run)
                for person, (run,) in zip(people, runs, strict=True)
            )
        )
        cancelled = "select count(*) = 50 from agent.run where state = 'cancelled'"
        await until(place.conn, cancelled, seconds=SOON, alive=daemon.is_alive)


@pytest.mark.slow
async def test_a_forged_notification_cancels_nothing(place: Place) -> None:
    """Anybody who can connect may notify; only what agent.cancel has written counts."""
    await make_ready(place, latency=0.3)
    async with serving(place, place.dsn, SETTINGS) as daemon:
        await place.conn.execute(WRITE)
        await until(place.conn, IN_WORK, alive=daemon.is_alive)
        await place.conn.execute("select pg_notify('walagent_cancel', id::text) from agent.run")
        ended = "select agent_internal.is_final(state) from agent.run"
        await until(place.conn, ended, alive=daemon.is_alive)
        assert await fetch(place.conn, "select state from agent.run") == [("succeeded",)]


# At each step.  The daemon stands still at a named point, which is either before a write of its
# own or after it, so the person comes first or second; then it goes on, or dies.

TRANSITIONS = """
create table transition (
    run bigint, old agent.run_state, new agent.run_state, at timestamptz default clock_timestamp()
);
create function note_transition() returns trigger language plpgsql as $$
begin
    insert into public.transition (run, old, new) values (new.id, old.state, new.state);
    return null;
end $$;
create trigger note_transition after update of state on agent.run
    for each row when (old.state <> new.state) execute function note_transition();
"""
# Runs that ended more than once, or did anything after their end.
RESUBMITTED = """
select run, array_agg(new::text order by at)
  from transition group by run
having count(*) filter (where agent_internal.is_final(new)) <> 1
    or not agent_internal.is_final((array_agg(new order by at desc))[1])
"""
# A tool acted, and no step says so; or a step says so, and it did not; or it acted twice.
ASTRAY = """
select r.id, t.tool, count(distinct e.seq), count(distinct s.seq)
  from agent.run r
       cross join (values ('sql', 'note_change'), ('python', 'note_in_python')) as t (tool, name)
       left join effect e on e.tool = t.tool and e.item::text = r.key
       left join agent.step s
         on s.run_id = r.id and s.kind = 'result'
            and s.content ->> 'name' = t.name and s.content ->> 'is_error' = 'false'
 group by 1, 2
having count(distinct e.seq) <> count(distinct s.seq) or count(distinct e.seq) > 1
"""
POINTS = (
    "run.claimed",
    "model.asking",
    "model.answered",
    "step.recorded",
    "tool.started",
    "tool.done",
    "tool.recorded",
    "tool.committed",
    "run.finished",
    "run.committed",
)
SECOND = {("model.asking", 2), ("model.answered", 3), ("tool.started", 2), ("tool.committed", 2)}
ALL = [*((point, 1) for point in POINTS), *sorted(SECOND)]


def cases(*fast: tuple[str, int]) -> list[Any]:
    """Every point; those that are not *fast* are slow."""
    return [
        pytest.param(point, nth, marks=() if (point, nth) in fast else pytest.mark.slow)
        for point, nth in ALL
    ]


async def stands_still(process: Process) -> None:
    """Wait until a process has stopped itself."""

    async def is_stopped() -> bool:
        return process.is_stopped

    await until_true(is_stopped, "the point is reached")


async def cancel(dsn: str, run: int) -> str:
    """Cancel a run; give the state that it was told, or the SQLSTATE."""
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        try:
            ((state,),) = await fetch(conn, "select agent.cancel(%s)::text", run)
        except Error as error:
            return error.sqlstate or ""
        return state


async def cancelled(place: Place, daemon: Daemon) -> tuple[str, Any]:
    """Cancel the one run as the daemon stands still; give the answer, and the steps so far.

    Nobody waits, although the transaction of a tool may hold the run.
    """
    await daemon.has_said("reader.streaming")
    await place.conn.execute(WRITE)
    await stands_still(daemon)
    before = await fetch(place.conn, "select seq, kind, content from agent.step order by seq")
    ((run,),) = await fetch(place.conn, "select id from agent.run")
    return await asyncio.wait_for(cancel(place.dsn, run), 10), before


async def check_end(place: Place, answer: str, before: list[Any], *, more: int) -> str:
    """See that the run ended as the person was told, with at most *more* steps; give its state."""
    after = await fetch(place.conn, "select seq, kind, content from agent.step order by seq")
    assert after[: len(before)] == before
    assert len(after) <= len(before) + more
    ((state, leased),) = await fetch(
        place.conn, "select state::text, lease_expires_at is not null from agent.run"
    )
    assert not leased
    assert answer == ("WA003" if state == "succeeded" and answer != "running" else "running")
    assert await fetch(place.conn, RESUBMITTED) == []
    assert await fetch(place.conn, ASTRAY) == []
    assert await fetch(place.conn, "select * from agent.broken_invariant") == []
    return state


@pytest.mark.parametrize(("point", "nth"), cases(("run.finished", 1), ("tool.recorded", 1)))
async def test_a_run_that_is_cancelled_at_any_step_ends_there(
    place: Place, point: str, nth: int
) -> None:
    """What was begun before is kept whole, nothing is begun after; one that has ended has ended."""
    await make_ready(place)
    await place.conn.execute(TRANSITIONS)
    with running(Daemon(place, failpoint=f"{point}:{nth}:freeze")) as daemon:
        answer, before = await cancelled(place, daemon)
        daemon.signal(signal.SIGCONT)
        await until(place.conn, ENDED, 1, alive=daemon.is_alive)
        daemon.signal(signal.SIGTERM)
        assert await daemon.ended() == 0
    state = await check_end(place, answer, before, more=1)  # what was under way
    if (point, nth) in {("run.finished", 1), ("model.answered", 3)}:
        assert state in {"succeeded", "cancelled"}  # the end and the request are both on their way
    else:
        assert state == ("succeeded" if point == "run.committed" else "cancelled")


@pytest.mark.slow
@pytest.mark.parametrize(("point", "nth"), cases(("tool.recorded", 1)))
async def test_a_run_that_is_cancelled_and_then_loses_its_worker_is_not_taken_up(
    place: Place, point: str, nth: int
) -> None:
    """Whoever comes after the dead worker only writes the end down."""
    await make_ready(place)
    await place.conn.execute(TRANSITIONS)
    with running(Daemon(place, failpoint=f"{point}:{nth}:freeze")) as daemon:
        answer, before = await cancelled(place, daemon)
        daemon.kill()
    with running(Daemon(place)) as daemon:
        await daemon.has_said("reader.streaming")
        await until(place.conn, ENDED, 1, alive=daemon.is_alive)
        daemon.signal(signal.SIGTERM)
        assert await daemon.ended() == 0
    state = await check_end(place, answer, before, more=0)
    assert state == ("succeeded" if point == "run.committed" else "cancelled")


# Against the end, under load: who comes first, chance decides.

LOADS = [pytest.param(20, id="short"), pytest.param(600, id="long", marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("count", LOADS)
async def test_of_a_cancellation_and_an_end_one_comes_first(
    place: Place, chance: random.Random, figure: Figure, count: int
) -> None:
    """Each run is cancelled or has succeeded, its person was told which, and none begins again."""
    await make_ready(place, latency=0.05)
    await place.conn.execute(TRANSITIONS)
    told: dict[int, str] = {}

    async def cancel_later(conn: AsyncConnection[Any], run: int) -> None:
        await pause(chance.uniform(0, 0.4))
        try:
            ((told[run],),) = await fetch(conn, "select agent.cancel(%s)::text", run)
        except Error as error:
            told[run] = error.sqlstate or ""

    async def cancel_some(first: int, last: int) -> None:
        async with await AsyncConnection.connect(place.dsn, autocommit=True) as conn:
            for item in range(first, last):
                await place_change(conn, item)
                await until(conn, "select exists (select from agent.run where key = %s)", str(item))
                ((run,),) = await fetch(conn, "select id from agent.run where key = %s", str(item))
                await cancel_later(conn, run)

    async def place_change(conn: AsyncConnection[Any], item: int) -> None:
        await conn.execute(MANY, [item, item])

    async with serving(place, place.dsn, {"workers": {"slots": 20, "lease": 60}}) as daemon:
        people = 20
        each = count // people
        await asyncio.gather(
            *(cancel_some(1 + n * each, 1 + (n + 1) * each) for n in range(people))
        )
        # Sooner than a lease: a worker that hears of many cancellations deals with each.
        await until(place.conn, ENDED, count, seconds=10, alive=daemon.is_alive)
    states = dict(await fetch(place.conn, "select id, state::text from agent.run"))
    seen = Counter((told[run], states[run]) for run in states)
    assert set(seen) <= {
        ("running", "cancelled"),
        ("running", "succeeded"),  # its last reply was in hand
        ("cancelled", "cancelled"),  # between two of its attempts, or before the first
        ("WA003", "succeeded"),
    }
    assert await fetch(place.conn, RESUBMITTED) == []
    assert await fetch(place.conn, ASTRAY) == []
    assert await fetch(place.conn, "select * from agent.broken_invariant") == []
    figure("runs cancelled against their end", count)
    for (answer, state), times in seen.items():
        figure(f"told {answer}: {state}", times)
