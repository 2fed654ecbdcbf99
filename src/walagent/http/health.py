"""How the daemon is doing, and whether that is good enough to be called ready."""

from collections.abc import Sequence
from typing import Protocol


class Health(Protocol):
    """The daemon, as a health check sees it; read anew for every request."""

    @property
    def streaming(self) -> bool:
        """Whether this process holds the slot and reads from it."""
        ...

    @property
    def progress_age(self) -> float:
        """Seconds since the position last moved or was known to be the newest."""
        ...

    @property
    def lag_bytes(self) -> int:
        """WAL between the server's last position and the one that is durable on our side."""
        ...

    @property
    def retained_bytes(self) -> int:
        """WAL that the server keeps because our slot still needs it."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although the daemon does its work, a sentence each."""
        ...

    @property
    def reasons(self) -> Sequence[str]:
        """What else keeps the daemon from its work, a sentence each; empty when nothing does."""
        ...


def unready_reasons(health: Health, max_progress_age: float) -> list[str]:
    """Say why the daemon is not ready; empty when it is.

    Args:
        max_progress_age: seconds without progress from which on the reader counts as stuck.
    """
    reasons = list(health.reasons)
    if not health.streaming:
        reasons.append("the replication stream is not open")
    elif health.progress_age > max_progress_age:
        reasons.append(f"no replication progress for {health.progress_age:.0f} s")
    return reasons
