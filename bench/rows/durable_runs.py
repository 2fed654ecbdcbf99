"""Durable runs a second: two model replies at 0 ms, one SQL tool, every step recorded."""

from collections.abc import Mapping
from typing import Any

from bench.harness import rates
from bench.peer import run_peer
from bench.server import Place

_COUNT = 1000
_SLOTS = 20  # runs at once in one process


def dbos(place: Place) -> Mapping[str, Any]:
    """DBOS with the same three steps."""
    result = run_peer(
        "dbos_runs",
        *("--url", place.url, "--postmaster", place.postmaster),
        *("--count", _COUNT, "--slots", _SLOTS),
    )
    return rates(result)
