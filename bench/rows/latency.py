"""From a writer's commit to the claimed run, on an idle server."""

from collections.abc import Mapping
from typing import Any

import psycopg

from bench import workload
from bench.harness import OURS, Figure, Row
from bench.measure import percentile
from bench.ours.prepare import attach, scripted
from bench.scripts import run_script
from bench.server import Place

_COUNT = 500
_GAP = 0.02  # seconds between two inserts: each finds everybody waiting


def walagent(place: Place) -> Mapping[str, Any]:
    """The WAL, then intake's commit and the claim's."""
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers)
    return _write_and_wait("ours/claims", place)


def trigger_and_notify(place: Place) -> Mapping[str, Any]:
    """A trigger with NOTIFY, whose listener inserts a job and claims it."""
    with psycopg.connect(place.url, autocommit=True) as conn:
        conn.execute(workload.TICKET_TABLE)
    return _write_and_wait("peers/trigger_notify", place)


def _write_and_wait(script: str, place: Place) -> Mapping[str, Any]:
    written: dict[int, tuple[float, float]] = {}
    with psycopg.connect(place.url, autocommit=True) as conn:
        result = run_script(
            script,
            *("--url", place.url, "--count", _COUNT),
            when_ready=lambda: written.update(workload.write_slowly(conn, _COUNT, _GAP)),
        )
    claimed = {int(ticket): when for ticket, when in result["claimed"].items()}
    return latencies(written, claimed) | {"versions": result.get("versions", {})}


def latencies(
    written: Mapping[int, tuple[float, float]], claimed: Mapping[int, float]
) -> dict[str, Any]:
    """What the writer waited for its own commit, and from there to the claim, in milliseconds.

    Args:
        written: by ticket, when the insert was sent and when its commit was acknowledged.
        claimed: by ticket, when the claim was committed.
    """
    assert written.keys() == claimed.keys()
    waits = [(claimed[ticket] - times[1]) * 1000 for ticket, times in written.items()]
    writes = [(acknowledged - sent) * 1000 for sent, acknowledged in written.values()]
    return {
        "p50_ms": percentile(waits, 0.5),
        "p99_ms": percentile(waits, 0.99),
        "write_p50_ms": percentile(writes, 0.5),
    }


ROW = Row(
    what="commit to claimed run, idle",
    beside="trigger + NOTIFY, whose listener inserts a job and claims it",
    sides={OURS: walagent, "trigger + NOTIFY": trigger_and_notify},
    figures=(
        Figure("p50_ms", over="trigger + NOTIFY", goal=1, more_is_better=False),
        Figure("p99_ms", over="trigger + NOTIFY", goal=1, more_is_better=False),
        Figure("write_p50_ms", over="trigger + NOTIFY", more_is_better=False),
    ),
)
