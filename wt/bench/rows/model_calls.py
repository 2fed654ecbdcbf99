"""CPU and memory of many model calls in flight in one process."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness import OURS, Figure, Row
from bench.ours.prepare import Answers, attach, queue_runs
from bench.scripts import environment, run_script
from bench.server import Place
from walagent.testing.provider import CREDENTIAL, KEY

_IN_FLIGHT = 2000
_COUNT = 4000
_SCRIPT = {"latency": 2.0, "replies": ["The ticket is urgent."]}  # seconds before each answer


def walagent(place: Place) -> Mapping[str, Any]:
    """Runs of one call each, claimed, recorded and finished in the database."""
    with running_provider() as base_url:
        attach(place.url, Answers("anthropic", base_url, CREDENTIAL))
        queue_runs(place.url, _COUNT)
        result = run_script(
            "ours/drain",
            *("--url", place.url, "--postmaster", place.postmaster),
            *("--slots", _IN_FLIGHT, "--count", _COUNT),
            environ={CREDENTIAL: KEY},
        )
    return _figures(result)


def bare_sdk(_place: Place) -> Mapping[str, Any]:
    """The provider's SDK called by hand, without a database."""
    with running_provider() as base_url:
        result = run_script(
            "peers/bare_sdk",
            *("--base-url", base_url, "--api-key", KEY),
            *("--in-flight", _IN_FLIGHT, "--count", _COUNT),
        )
    return _figures(result)


def _figures(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cpu_ms": result["cpu_seconds"] * 1000 / result["count"],
        "rss_kb": result["rss_kb_in_flight"],
        "seconds": result["seconds"],
        "versions": result.get("versions", {}),
    }


@contextmanager
def running_provider() -> Iterator[str]:
    """Start a fake provider in a process of its own, so its CPU time is nobody's; its URL."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(_SCRIPT))
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
    sides={OURS: walagent, "bare SDK": bare_sdk},
    figures=(
        Figure("cpu_ms", over="bare SDK", goal=2, more_is_better=False),
        Figure("rss_kb", over=None, goal=100, more_is_better=False, unit="kB"),
    ),
    rounds=3,
)
