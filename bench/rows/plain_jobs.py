"""Jobs a second: next to nothing to do, each finished in a transaction of its own."""

from collections.abc import Mapping
from typing import Any

from bench import workload
from bench.harness import OURS, Figure, Row, rates
from bench.ours.prepare import attach, queue_runs, scripted
from bench.scripts import run_script
from bench.server import Place

_COUNT = 5000  # for everybody: a longer queue makes some of them slower
_SLOTS = 20  # jobs at once in one process


def walagent(place: Place) -> Mapping[str, Any]:
    """Runs whose model says one word: the least a run can be, with one step to record."""
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers)
        queue_runs(place.url, _COUNT)
        return _drain("ours/drain", place)


def procrastinate(place: Place) -> Mapping[str, Any]:
    """procrastinate, which also finishes each job by itself."""
    return _drain("peers/procrastinate_jobs", place)


def pgqueuer(place: Place) -> Mapping[str, Any]:
    """pgqueuer, which acknowledges in bulk: after a crash such jobs run again."""
    return _drain("peers/pgqueuer_jobs", place)


def _drain(script: str, place: Place) -> Mapping[str, Any]:
    result = run_script(
        script,
        *("--url", place.url, "--postmaster", place.postmaster),
        *("--count", _COUNT, "--slots", _SLOTS),
    )
    return rates(result)


ROW = Row(
    what="jobs a second, each finished in its own transaction (ours with one reply to record)",
    beside="procrastinate; pgqueuer, which acknowledges in bulk",
    sides={OURS: walagent, "procrastinate": procrastinate, "pgqueuer": pgqueuer},
    figures=(
        Figure("per_second", over="procrastinate", goal=4),
        Figure("per_second", over="pgqueuer", goal=0.5),
    ),
)
