"""The health of a daemon: that of its worker, and of its reader if it has one."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walagent.app.problems import Problems
from walagent.runs.worker import Worker

if TYPE_CHECKING:
    from walagent.replication.health import ReaderHealth


@dataclass(frozen=True, slots=True)
class DaemonHealth:
    """The health of the worker, and of the reader if this process has one."""

    worker: Worker
    reader: "ReaderHealth | None" = None
    problems: Problems = field(default_factory=Problems)

    @property
    def streaming(self) -> bool:
        """Whether the stream is open; True in a process without a reader."""
        return self.reader is None or self.reader.streaming

    @property
    def progress_age(self) -> float:
        """Seconds since the last message of the stream, or since the last heartbeat."""
        if self.reader is not None:
            return self.reader.progress_age
        return asyncio.get_running_loop().time() - self.worker.beat_at

    @property
    def lag_bytes(self) -> int:
        """Bytes of WAL between the checkpoint and the server's end of WAL."""
        return 0 if self.reader is None else self.reader.lag_bytes

    @property
    def retained_bytes(self) -> int:
        """Bytes of WAL that the server retains for the slot."""
        return 0 if self.reader is None else self.reader.retained_bytes

    @property
    def warnings(self) -> Sequence[str]:
        """Conditions that need attention but do not stop work."""
        reader = () if self.reader is None else self.reader.warnings
        return [*reader, *self.problems.warnings]

    @property
    def reasons(self) -> Sequence[str]:
        """Why the parts cannot work."""
        reader = () if self.reader is None else self.reader.reasons
        return [*reader, *self.worker.reasons]
