"""The daemon's clock is wrong, or is stepped while it works: nothing goes by it but its log.

Leases, retries, expiry and budgets go by the database's clock, patience by a monotonic one.
"""

import json
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta

import pytest

from tests.faults.rig.clocks import WrongClock
from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.stage import Figure, Place, add_model, script_of
from tests.faults.rig.waiting import fetch, until
from walagent.config import Replication
from walagent.message import Json
from walagent.replication.bootstrap import ensure_slot

pytestmark = pytest.mark.scenario(19)

HOUR = timedelta(hours=1)
LEASE, LONGER = 5.0, 7.0  # seconds; a busy machine may stop for some, too
SETTINGS = {
    "workers": {"lease": LEASE, "slots": 20},
    "replication": {"sender_timeout": 10},
}
# One kind of waiting each; `history` notes by the database's clock when a run goes where.
SCENE = """
create table thing (id bigint primary key generated always as identity, kind text not null);
create function pay() returns void language sql as '';
create table history (kind text, old text, new text, why text, at timestamptz);
create function note_history() returns trigger language plpgsql as $$
begin
    insert into public.history
    values (new.change -> 'new' ->> 'kind', case when tg_op = 'UPDATE' then old.state end,
            new.state, coalesce(new.error ->> 'reason', ''), clock_timestamp());
    return null;
end $$;
create trigger note_history after insert or update of state on agent.run
    for each row execute function note_history();
"""
KINDS: Mapping[str, tuple[str, dict[str, Json]]] = {
    "lease": ("", {"latency": LONGER, "replies": ["Done."]}),
    "retry": ("", {"replies": [{"fault": {"status": 429, "retry_after": "3"}}]}),
    "approval": ("tools=[pay], approve=[pay]", {"replies": [{"call": "pay"}, "Done."]}),
    "debounce": ("debounce=3s, ordering_key=[]", {"replies": ["Done."]}),
    "limit": ("max_seconds=3", {"latency": 60, "replies": ["Done."]}),
    "budget": ("", {"replies": ["Done."]}),
}
IN_EFFECT = "select count(*) = %s from agent.attachment_version where active_from is not null"
# From which state to which a kind of run waits, why, and for how many seconds.
WAITS: Mapping[str, tuple[str, str, str, float]] = {
    "retry": ("waiting_retry", "pending", "%429%", 3.0),
    "approval": ("waiting_approval", "pending", "%", 3.0),
    "limit": ("running", "failed", "%", 3.0),
    "debounce": ("pending", "running", "%", 3.0),
    "lease": ("running", "succeeded", "%", LONGER),
}
LATE = 6.0  # seconds that a busy machine may add; a clock that counted would add thousands
WAITED = """
select extract(epoch from min(e.at) - min(b.at))::float8
  from history b join history e on e.kind = b.kind and e.old = b.new and e.at > b.at
 where b.kind = %s and b.new = %s and e.new = %s and b.why like %s
"""
BUDGET = """
insert into agent.budget (name, model, period, max_tokens) values ('day', 'budget', 'day', 100000);
update agent_internal.budget_use set spent_tokens = 99999;
"""
RESETS = """
select next_attempt_at between end_of_day and end_of_day + interval '5 minutes'
  from agent.run, agent_internal.period_end('day', created_at) as end_of_day
 where change -> 'new' ->> 'kind' = 'budget'
"""
# Nothing is dated by another clock than the database's.
DATES = """
select at from (
    select unnest(array[created_at, started_at, finished_at, committed_at]) from agent.run
    union all select recorded_at from agent.step
    union all select unnest(array[asked_at, decided_at]) from agent.approval
    union all select updated_at from agent.checkpoint
    union all select unnest(array[started_at, seen_at]) from agent.worker) as all_of_them (at)
 where at not between %s and clock_timestamp()
"""


async def set_scene(place: Place) -> None:
    """Attach an agent for each kind of waiting."""
    await place.conn.execute(SCENE)
    for kind, (spec, script) in KINDS.items():
        await add_model(place, kind, script)
        await place.conn.execute(
            "select agent.attach('thing', %s)",
            [f"name={kind}, model={kind}, when=\"new.kind = '{kind}'\"" + (spec and f", {spec}")],
        )
    await place.conn.execute(
        "update agent.attachment set approval_ttl = '3 s' where name = 'approval'"
    )
    await place.conn.execute(BUDGET)
    await ensure_slot(place.conn, place.dsn, Replication(slot=place.slot))


async def all_wait(place: Place, daemon: Daemon) -> None:
    """Start a run of each kind, and see that each is where it waits."""
    await place.conn.execute("insert into thing (kind) select unnest(%s::text[])", [list(KINDS)])
    await until(
        place.conn,
        "select count(distinct kind) filter (where new = 'waiting_retry') = 2"
        "   and bool_or(new = 'waiting_approval')"
        "   and count(distinct kind) filter (where new = 'running') >= 5 from history",
        alive=daemon.is_alive,
    )


@pytest.mark.parametrize(
    ("first", "steps"),
    [
        (0, (1, 25, -1)),
        pytest.param(1, (1,), marks=pytest.mark.slow),
        pytest.param(-1, (-1,), marks=pytest.mark.slow),
    ],
    ids=["stepped", "an hour ahead", "an hour behind"],
)
async def test_nothing_goes_by_the_daemons_clock(
    place: Place, figure: Figure, first: int, steps: Sequence[int]
) -> None:
    """No lease is lost, nothing is due early or late, and all dates are the database's."""
    await set_scene(place)
    ((began,),) = await fetch(place.conn, "select clock_timestamp()")
    clock = WrongClock(place.folder, first * HOUR)
    with running(Daemon(place, settings=SETTINGS, environment=clock.steps)) as daemon:
        await until(place.conn, IN_EFFECT, len(KINDS), alive=daemon.is_alive)
        await clock.is_told_by(daemon, "reader.streaming")
        await all_wait(place, daemon)
        for count, hours in enumerate(steps, 1):
            clock.set(hours * HOUR)
            daemon.signal(signal.SIGHUP)
            await daemon.has_said("config.reloaded", times=count)
            await clock.is_told_by(daemon, "config.reloaded")
        for kind, (*which, seconds) in WAITS.items():
            names = (kind, *which)
            await until(place.conn, f"select ({WAITED}) is not null", *names, alive=daemon.is_alive)
            ((waited,),) = await fetch(place.conn, WAITED, *names)
            figure(f"waited for {kind}, of {seconds:g} s", waited, "s")
            assert seconds - 0.1 <= waited < seconds + LATE, kind
        assert daemon.count("reader.streaming") == 1
        assert daemon.count("worker.heartbeat_failed") == 0
        assert await fetch(place.conn, DATES, began) == []
    lost = "select * from history where old = 'running' and new = 'pending'"
    assert await fetch(place.conn, lost) == []
    assert await fetch(place.conn, RESETS) == [(True,)]


FORTY = "insert into thing (kind) select 'lease' from generate_series(1, 40)"
BOTH = "select count(distinct worker) = 2 and count(*) = 40 from agent.run where state = 'running'"
DONE = "select count(*) = %s from agent.run where state = 'succeeded'"
# How long after the last sign of life of a worker its runs were taken away from it.
TAKEN = """
select min(extract(epoch from h.at - %(seen)s))::float8,
       max(extract(epoch from h.at - %(seen)s))::float8
  from history h where old = 'running' and new = 'pending'
"""


@pytest.mark.slow
async def test_daemons_that_disagree_about_the_time_share_the_work(
    place: Place, figure: Figure
) -> None:
    """Two hours apart: neither takes what the other holds, and when one dies the other does."""
    await set_scene(place)
    script = {"latency": LONGER, "replies": ["Done."]}
    script_of(place, "lease").write_text(json.dumps(script))
    with ExitStack() as stack:
        both = [
            stack.enter_context(running(off_by(place, hours * HOUR, name)))
            for hours, name in ((1, "ahead"), (-1, "behind"))
        ]
        await until(place.conn, "select count(*) = 2 from agent.worker")
        await place.conn.execute(FORTY)
        await until(place.conn, BOTH)
        await until(place.conn, DONE, 40)
        assert await fetch(place.conn, "select max(attempt) from agent.run") == [(1,)]

        await place.conn.execute(FORTY)
        await until(place.conn, BOTH)
        reader, other = sorted(both, key=lambda daemon: daemon.count("reader.streaming"))[::-1]
        other.kill()
        ((seen,),) = await fetch(
            place.conn, "select seen_at from agent.worker where name like %s", f"%-{other.pid}-%"
        )
        await until(place.conn, DONE, 80, alive=reader.is_alive)
        ((least, most),) = await (await place.conn.execute(TAKEN, {"seen": seen})).fetchall()
        figure("a lease of 5 s, of a worker whose clock was two hours behind", most, "s")
        assert LEASE - 0.1 <= least <= most < LEASE + LATE
        attempts = "select attempt, count(*) from agent.run group by 1 order by 1"
        assert await fetch(place.conn, attempts) == [(1, 60), (2, 20)]


def off_by(place: Place, ahead: timedelta, name: str) -> Daemon:
    """A daemon whose clock is wrong."""
    clock = WrongClock(place.folder, ahead)
    return Daemon(place, name=name, settings=SETTINGS, environment=clock.environment)
