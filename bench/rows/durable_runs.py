"""Durable runs a second: two model replies at 0 ms, one SQL tool, every step recorded."""

from collections.abc import Mapping
from typing import Any

from bench import workload
from bench.harness import OURS, Figure, Row, rates
from bench.ours.prepare import attach, queue_runs, scripted
from bench.scripts import run_script
from bench.server import Place

_COUNT = 1000
_SLOTS = 20  # runs at once in one process


def walagent(place: Place) -> Mapping[str, Any]:
    """Runs that were ingested before the clock starts."""
    call = {"call": workload.TOOL, "arguments": workload.ARGUMENTS}
    with scripted([[workload.THOUGHT, call], workload.ANSWER]) as answers:
        attach(place.url, answers, tools=[workload.TOOL])
        queue_runs(place.url, _COUNT)
        return _drain("ours/drain", place)


def dbos(place: Place) -> Mapping[str, Any]:
    """DBOS with the same three steps, queued before the clock starts."""
    return _drain("peers/dbos_runs", place)


def _drain(script: str, place: Place) -> Mapping[str, Any]:
    result = run_script(
        script,
        *("--url", place.url, "--postmaster", place.postmaster),
        *("--count", _COUNT, "--slots", _SLOTS),
    )
    return rates(result)


ROW = Row(
    what="durable runs a second (two model replies at 0 ms, one SQL tool)",
    beside="DBOS with the same steps",
    sides={OURS: walagent, "DBOS": dbos},
    figures=(
        Figure("per_second", over="DBOS", goal=6),
        Figure("cpu_ms", over="DBOS", more_is_better=False),
        Figure("server_cpu_ms", over="DBOS", more_is_better=False),
    ),
)
