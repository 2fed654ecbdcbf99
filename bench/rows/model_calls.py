"""CPU and memory of many model calls in flight in one process."""

from collections.abc import Mapping
from typing import Any

from bench.peer import run_peer
from bench.provider import running_provider
from bench.server import Place

_IN_FLIGHT = 2000
_COUNT = 4000
_ANSWER_AFTER = 2.0  # seconds


def bare_sdk(_place: Place) -> Mapping[str, Any]:
    """The provider's SDK called by hand, without a database."""
    with running_provider(_ANSWER_AFTER) as base_url:
        result = run_peer(
            "bare_sdk",
            *("--base-url", base_url, "--in-flight", _IN_FLIGHT, "--count", _COUNT),
        )
    return {
        "cpu_ms": result["cpu_seconds"] * 1000 / result["count"],
        "rss_kb": result["rss_kb_in_flight"],
        "seconds": result["seconds"],
        "versions": result["versions"],
    }
