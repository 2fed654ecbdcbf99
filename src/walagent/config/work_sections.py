"""Sections of agents.yaml about how runs are executed."""

from pydantic import Field

from walagent.config.base import Part, Seconds


class Workers(Part):
    """How runs are executed."""

    slots: int = Field(default=100, ge=1, le=100_000)
    """Concurrent runs of this process."""
    lease: Seconds = 30.0
    """Time without a heartbeat after which another worker takes over a run."""
    poll: Seconds = 5.0
    """Interval at which the queue and the clock are checked without a notification."""
    drain: Seconds = 20.0
    """Time that runs can continue after a stop signal."""
    connections: int = Field(default=10, ge=1, le=1000)
    """Database connections of the workers; a run holds none during a model call."""


class Batches(Part):
    """How calls of the tier `batch` are submitted."""

    items: int = Field(default=5000, ge=1, le=50_000)
    """Calls of one batch, at most; it has no more than 64 MiB of them."""
    wait: Seconds = 60.0
    """How long the first call waits for others of its tenant and model."""
    poll: Seconds = 10.0
    """When a submitted batch is looked at; then twice as long each time, up to 30 times as long."""
