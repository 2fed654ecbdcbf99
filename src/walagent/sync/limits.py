"""Limits of the shapes of a process."""

from dataclasses import dataclass

from walagent.sync.shape_log import CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What the shapes of a process may use.

    Args:
        shapes: how many of open tables there are at once, and how many named ones.
        of_principal: how many named ones a principal has at once.
        total_bytes: of the snapshots and logs of all, about.
        chunk_bytes: of one answer, about.
        log_bytes: of one shape's log; beyond, it ends and clients fetch again.
        transaction_bytes: of one transaction that is held until its commit.
        compared_bytes: of the rows of a shape that is read again as a whole.
        idle: seconds after which a shape without requests ends.
    """

    shapes: int = 10_000
    of_principal: int = 500
    chunk_bytes: int = CHUNK_BYTES
    log_bytes: int = 64 << 20
    transaction_bytes: int = 64 << 20
    ring_bytes: int = 16 << 20
    snapshot_bytes: int = 512 << 20
    compared_bytes: int = 64 << 20
    total_bytes: int = 2 << 30
    idle: float = 3600.0
    publish: float = 30.0  # seconds until the table is published
