"""Jobs a second: nothing to do, each finished in a transaction of its own."""

from collections.abc import Mapping
from typing import Any

from bench.harness import rates
from bench.peer import run_peer
from bench.server import Place

_SLOTS = 20  # jobs at once in one process


def procrastinate(place: Place) -> Mapping[str, Any]:
    """procrastinate, which also finishes each job by itself."""
    return _drain(place, "procrastinate_jobs", 2000)


def pgqueuer(place: Place) -> Mapping[str, Any]:
    """pgqueuer, which acknowledges in bulk: after a crash such jobs run again."""
    return _drain(place, "pgqueuer_jobs", 20_000)


def _drain(place: Place, peer: str, count: int) -> Mapping[str, Any]:
    result = run_peer(
        peer,
        *("--url", place.url, "--postmaster", place.postmaster),
        *("--count", count, "--slots", _SLOTS),
    )
    return rates(result)
