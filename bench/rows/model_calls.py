"""CPU and memory of many model calls in flight in one process."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.peer import environment, run_peer
from bench.server import Place
from walagent.testing.provider import KEY

_IN_FLIGHT = 2000
_COUNT = 4000
_SCRIPT = {"latency": 2.0, "replies": ["The ticket is urgent."]}  # seconds before each answer


def bare_sdk(_place: Place) -> Mapping[str, Any]:
    """The provider's SDK called by hand, without a database."""
    with running_provider() as base_url:
        result = run_peer(
            "bare_sdk",
            *("--base-url", base_url, "--api-key", KEY),
            *("--in-flight", _IN_FLIGHT, "--count", _COUNT),
        )
    return {
        "cpu_ms": result["cpu_seconds"] * 1000 / result["count"],
        "rss_kb": result["rss_kb_in_flight"],
        "seconds": result["seconds"],
        "versions": result["versions"],
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
