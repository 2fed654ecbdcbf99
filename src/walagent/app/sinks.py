"""What the daemon's reader feeds: intake, and beside it everyone who watches."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from walagent.config import Retention
from walagent.intake.opening import open_intake
from walagent.intake.settings import IntakeSettings
from walagent.replication.fan_out import FanOut
from walagent.replication.sinks import Beside, Opening, SinkSet
from walagent.runs.retention import keep_pruning
from walagent.store.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class DaemonSinks:
    """Opens the sinks of each stream."""

    dsn: Callable[[], str]
    intake: IntakeSettings = field(default_factory=IntakeSettings)
    retention: Retention = field(default_factory=Retention)  # how long ended runs are kept
    fan_out: FanOut = field(default_factory=FanOut)  # first: what it is given costs it no time

    @asynccontextmanager
    async def open(self, opening: Opening) -> AsyncGenerator[SinkSet]:
        """Open them for one stream; an `OpenSinks`."""
        async with open_intake(opening, self.intake) as intake:

            async def start(checkpoint: Checkpoint) -> Beside:
                beside = dict(await intake.start(checkpoint))
                if self.retention.runs is not None:
                    beside["retention"] = keep_pruning(self.dsn, self.retention)
                return beside

            yield SinkSet([self.fan_out, *intake.sinks], start)
