"""Compose the console: its pages and files, and what its status page shows."""

from collections.abc import Mapping

from walagent import __version__
from walagent.console.files import read_built
from walagent.console.site import ConsoleSite
from walagent.http.health import Health, unready_reasons


def make_console(health: Health, max_progress_age: float) -> ConsoleSite:
    """Create the application of the console's pages.

    Args:
        max_progress_age: as of `/readyz`.
    """

    def status() -> Mapping[str, str]:
        reasons = unready_reasons(health, max_progress_age)
        return {
            "Version": __version__,
            "State": "; ".join(["not ready", *reasons]) if reasons else "ready",
            "Last progress": f"{health.progress_age:.1f} s ago",
            "WAL behind": f"{health.lag_bytes} bytes",
            "WAL retained": f"{health.retained_bytes} bytes",
            **({"Warnings": "; ".join(health.warnings)} if health.warnings else {}),
        }

    return ConsoleSite(read_built(), status)
