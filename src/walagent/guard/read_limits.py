"""What one statement may read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of one statement.

    Args:
        rows: that are returned.
        cell: characters of one value; a longer value is truncated.
        total: bytes of all values together; reading stops beyond.
        seconds: that the statement may run.
        lock_seconds: that it may wait for a lock.
        cost: of the plan, in the planner's units; a more expensive statement is rejected.
    """

    rows: int = 1000
    cell: int = 10_000
    total: int = 4 << 20
    seconds: float = 30.0
    lock_seconds: float = 2.0
    cost: float = 5e6
    cost_setting: str = ""  # which setting has the limit of cost, for messages
