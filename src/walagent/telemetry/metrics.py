"""Metrics of this process.

    metrics.changes.labels("matched").inc(3)

`metric_families` defines them.  It is imported with the first metric that is used, because a
question sends its first request before.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walagent.telemetry.metric_families import *  # noqa: F403 - all of them


def __getattr__(name: str) -> object:
    """Import the metrics, and store the requested one."""
    found = getattr(import_module("walagent.telemetry.metric_families"), name)
    globals()[name] = found
    return found
