"""From a writer's commit to the claimed run, on an idle server."""

from collections.abc import Mapping
from typing import Any

import psycopg

from bench import workload
from bench.measure import percentile
from bench.peer import run_peer
from bench.server import Place

_COUNT = 500
_GAP = 0.02  # seconds between two inserts: each finds everybody waiting


def trigger_and_notify(place: Place) -> Mapping[str, Any]:
    """A trigger with NOTIFY, whose listener inserts a job and claims it."""
    written: dict[int, tuple[float, float]] = {}
    with psycopg.connect(place.url, autocommit=True) as conn:
        conn.execute(workload.TICKET_TABLE)
        result = run_peer(
            "trigger_notify",
            *("--url", place.url, "--count", _COUNT),
            when_ready=lambda: written.update(workload.write_slowly(conn, _COUNT, _GAP)),
        )
    claimed = {int(ticket): when for ticket, when in result["claimed"].items()}
    return latencies(written, claimed) | {"versions": result["versions"]}


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
