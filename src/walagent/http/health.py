"""The state of the daemon, and whether it is ready."""

import re
from collections.abc import Sequence
from typing import Final, Protocol


class Health(Protocol):
    """The state of the daemon, read again for every request."""

    @property
    def streaming(self) -> bool:
        """Whether this process reads from the slot."""
        ...

    @property
    def progress_age(self) -> float:
        """Seconds since the position last advanced or was known to be current."""
        ...

    @property
    def lag_bytes(self) -> int:
        """Bytes of WAL between the server's position and the durable one."""
        ...

    @property
    def retained_bytes(self) -> int:
        """Bytes of WAL that the server retains for the slot."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """Conditions that need attention although the daemon works, one sentence each."""
        ...

    @property
    def reasons(self) -> Sequence[str]:
        """Other conditions that stop the daemon from working, one sentence each."""
        ...


# What a driver says of a connection: it quotes all names, of hosts, logins, databases, files.
_CONNECTS: Final = re.compile(
    r"connection (?:failed|is bad|to server)|resolve host|translate host name"
)
_SERVER: Final = re.compile(
    r'connection to server (?:at|on socket) "[^"]*"(?: \([^)]*\))?(?:, port \d+)? failed: '
)
_QUOTED: Final = re.compile(r"""\s*(?:"[^"]*"|'[^']*')""")


def _without_place(reason: str) -> str:
    """Take out where and as whom a driver connects: who asks has not signed in."""
    if _CONNECTS.search(reason):
        return _QUOTED.sub("", _SERVER.sub("", reason))
    return reason


def unready_reasons(health: Health, max_progress_age: float) -> list[str]:
    """Return the reasons why the daemon is not ready; empty if it is.

    Args:
        max_progress_age: seconds without progress after which the reader counts as stuck.
    """
    reasons = [_without_place(reason) for reason in health.reasons]
    if not health.streaming:
        reasons.append("the replication stream is not open")
    elif health.progress_age > max_progress_age:
        reasons.append(f"no replication progress for {health.progress_age:.0f} s")
    return reasons
