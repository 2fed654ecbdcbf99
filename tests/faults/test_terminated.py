"""The server ends our connections while we stand between two steps: work goes on, and is done once.

What an operator does with `pg_terminate_backend`, and a failover, a pooler's restart or an idle
time-out without being asked.
"""

import time
from collections.abc import Iterable

import psycopg
import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.serving import Serving, serving
from tests.faults.rig.stage import ATTACH, ATTACH_ALL, Figure, Place, set_up
from tests.faults.rig.waiting import fetch, until
from walagent.base import faults
from walagent.telemetry import metrics

EVERY = "walagent%"
KINDS = (
    "walagent",  # the one that streams
    "walagent intake",
    "walagent evaluate",
    "walagent status",
    "walagent backfill",
    "walagent registry",
    "walagent worker",
    "walagent tools",
)
FEW = ("frame.received", "intake.runs_inserted", "model.answered", "tool.done", "run.finished")
# The last waits until it is gone.
TERMINATE = """
select count(*), bool_and(pg_terminate_backend(pid, 5000))
  from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid() and application_name like %s
"""
IN_EFFECT = "select count(*) = %s from agent.attachment_version where active_from is not null"
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
REPLIES_STORED = "select count(*) from agent.step where kind = 'reply'"
STATE = "select state, attempt from agent.run"


class Ending:
    """Ends connections of a kind when it is called, which is at a point."""

    def __init__(self, place: Place, kind: str) -> None:
        self._place = place
        self._kind = kind
        self.ended = 0
        self.at = 0.0

    def __call__(self) -> None:
        """From a connection that is none of ours."""
        with psycopg.connect(self._place.dsn, autocommit=True) as other:
            row = other.execute(TERMINATE, [self._kind]).fetchone()
        assert row is not None
        assert row[1] is not False, f"{self._kind} does not end"
        self.ended += row[0]
        self.at = time.monotonic()


async def go_on_after_each(
    place: Place, daemon: Serving, points: Iterable[str], ending: Ending
) -> float:
    """Have connections ended at one point after the other; return the longest that work rested."""
    changes, longest = 0, 0.0
    for point in points:
        before = ending.at
        with faults.armed(point, mode=ending):
            while ending.at == before:
                changes += 1
                await place.conn.execute(WRITE, [changes])
                await place.conn.execute("insert into topic default values")
                await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        longest = max(longest, time.monotonic() - ending.at)
    return longest


def answers_of_models() -> float:
    """How many answers of models this process has had, as /metrics tells it."""
    name, labels = "walagent_model_requests_total", {"model": "script", "outcome": "ok"}
    return metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.mark.scenario(4)
@pytest.mark.parametrize(
    ("kind", "points"),
    [
        pytest.param(EVERY, FEW, id="all of them"),
        *(
            pytest.param(kind, faults.POINTS, id=kind, marks=pytest.mark.slow)
            for kind in (EVERY, *KINDS)
        ),
    ],
)
async def test_connections_that_are_ended_at_any_point_cost_nothing(
    place: Place, figure: Figure, kind: str, points: tuple[str, ...]
) -> None:
    """No step is done twice, and no answer of a model is asked for again: nobody has died."""
    await set_up(place)
    answered, ending = answers_of_models(), Ending(place, kind)
    # Nobody shall miss the lease: that would be a death to the others.
    async with serving(place, place.dsn, {"workers": {"lease": 8}}) as daemon:
        await place.conn.execute(ATTACH_ALL.encode())
        await until(place.conn, IN_EFFECT, 3, alive=daemon.is_alive)
        longest = await go_on_after_each(place, daemon, points, ending)
        await all_is_well(place.conn)
    assert ending.ended > 0
    assert answers_of_models() - answered == (await fetch(place.conn, REPLIES_STORED))[0][0]
    figure("connections ended between two steps", ending.ended)
    figure("longest rest after that", longest, "s")


@pytest.mark.slow
@pytest.mark.scenario(4)
async def test_a_worker_that_froze_in_its_transaction_works_the_run_again(place: Place) -> None:
    """A suspended machine: the server has ended the transaction, and the attempt does not count."""
    await set_up(place)
    async with serving(place, place.dsn, {"workers": {"lease": 3}}) as daemon:
        await place.conn.execute(ATTACH.encode())
        await until(place.conn, IN_EFFECT, 1, alive=daemon.is_alive)
        with faults.armed("tool.done", mode=lambda: time.sleep(5)):  # what the server allows, and 2
            await place.conn.execute(WRITE, [1])
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        assert await fetch(place.conn, STATE) == [("succeeded", 1)]
        await all_is_well(place.conn)
