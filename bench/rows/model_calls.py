"""Model calls over HTTP: CPU and memory of many in flight, and how many a second."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import OURS, Figure, Row
from bench.ours.prepare import Answers, attach, queue_runs
from bench.scripts import environment, run_script
from bench.server import Place
from walagent.testing.provider import CREDENTIAL, KEY

_MANY = 2000  # calls in flight
_FEW = 50  # enough to keep one process busy
_COUNT = 4000
_SLOW = 2.0  # seconds before each answer


def walagent(in_flight: int, latency: float, place: Place) -> Mapping[str, Any]:
    """Runs of one call each, claimed, recorded and finished in the database."""
    with running_provider(latency) as base_url:
        attach(place.url, Answers("anthropic", base_url, CREDENTIAL))
        queue_runs(place.url, _COUNT)
        result = run_script(
            "ours/drain",
            *("--url", place.url, "--postmaster", place.postmaster),
            *("--slots", in_flight, "--count", _COUNT),
            environ={CREDENTIAL: KEY},
        )
    return _figures(result)


def bare_sdk(in_flight: int, latency: float, _place: Place) -> Mapping[str, Any]:
    """The provider's SDK called by hand, without a database."""
    with running_provider(latency) as base_url:
        result = run_script(
            "peers/bare_sdk",
            *("--base-url", base_url, "--api-key", KEY),
            *("--in-flight", in_flight, "--count", _COUNT),
        )
    return _figures(result)


def _figures(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cpu_ms": result["cpu_seconds"] * 1000 / result["count"],
        "rss_kb": result["rss_kb_in_flight"],
        "seconds": result["seconds"],
        "per_second": result["count"] / result["seconds"],
        "versions": result.get("versions", {}),
    }


@contextmanager
def running_provider(latency: float) -> Iterator[str]:
    """Start a fake provider in a process of its own, so its CPU time is nobody's; its URL.

    Args:
        latency: seconds before each answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps({"latency": latency, "replies": ["The ticket is urgent."]}))
        command = [sys.executable, "-m", "walagent.testing", "--script", str(script)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment()
        ) as process:
            assert process.stdout is not None
            try:
                _name, base_url, *_ = process.stdout.readline().split()
                yield base_url
            finally:
                process.terminate()


ROW = Row(
    what="CPU and memory of a run with one 2 s model call, 2,000 in flight in one process",
    beside="the bare SDK call",
    sides={OURS: partial(walagent, _MANY, _SLOW), "bare SDK": partial(bare_sdk, _MANY, _SLOW)},
    figures=(
        Figure("cpu_ms", over="bare SDK", goal=1.3, more_is_better=False),
        Figure("rss_kb", over=None, goal=60, more_is_better=False, unit="kB"),
    ),
    rounds=3,
)

RATE_ROW = Row(
    what="runs of one call a second in one process, a provider over HTTP at 0 ms",
    beside="the bare SDK's calls",
    sides={OURS: partial(walagent, _FEW, 0.0), "bare SDK": partial(bare_sdk, _FEW, 0.0)},
    figures=(
        Figure("per_second", over="bare SDK", goal=0.7),
        Figure("cpu_ms", over="bare SDK", more_is_better=False),
    ),
    rounds=3,
)
