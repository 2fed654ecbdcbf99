"""The sinks of the daemon's reader: intake and the fan-out."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from walagent.config import Config, Retention
from walagent.intake.opening import open_intake
from walagent.intake.settings import IntakeSettings
from walagent.replication.fan_out import FanOut
from walagent.replication.publication_watch import watch_shapes
from walagent.replication.sinks import Beside, Opening, SinkSet
from walagent.runs.canary_rules import keep_checking
from walagent.runs.retention import keep_pruning
from walagent.store.checkpoint import Checkpoint
from walagent.trial.shadowing import keep_shadowing


@dataclass(frozen=True, slots=True)
class DaemonSinks:
    """Opens the sinks of each stream."""

    dsn: Callable[[], str]
    intake: IntakeSettings = field(default_factory=IntakeSettings)
    retention: Retention = field(default_factory=Retention)  # of ended runs
    fan_out: FanOut = field(default_factory=FanOut)  # the first sink, because it takes no time
    config: Config | None = None  # for trials of shadows; None: none is executed

    @asynccontextmanager
    async def open(self, opening: Opening) -> AsyncGenerator[SinkSet]:
        """Open the sinks of one stream; an `OpenSinks`."""
        async with open_intake(opening, self.intake) as intake:

            async def start(checkpoint: Checkpoint) -> Beside:
                beside = dict(await intake.start(checkpoint))
                if opening.settings.plugin == "pgoutput":
                    beside["shapes"] = watch_shapes(opening.conn, checkpoint.slot, self.fan_out)
                beside["canaries"] = keep_checking(opening.conn, self.dsn)
                if self.config is not None:
                    beside["shadows"] = keep_shadowing(opening.conn, self.dsn, self.config)
                beside["retention"] = keep_pruning(self.dsn, self.retention)
                return beside

            yield SinkSet([self.fan_out, *intake.sinks], start, self.fan_out.answers)
