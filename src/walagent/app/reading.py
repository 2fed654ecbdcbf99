"""Compose the reader and its sinks; a process that only executes runs does not import this."""

from collections.abc import Callable

from walagent.app.sinks import DaemonSinks
from walagent.config import Config
from walagent.config.dsn import Logins
from walagent.intake.settings import IntakeSettings
from walagent.matching.document import SizeLimits
from walagent.replication.attempt import Following
from walagent.replication.fan_out import FanOut
from walagent.replication.reader import Reader
from walagent.runs.worker import Worker


def make_reader(  # noqa: PLR0913, PLR0917 - a part of the composition root
    config: Config,
    logins: Logins,
    worker: Worker,
    limits: SizeLimits,
    name: str,
    on_streaming: Callable[[], None],
    fan_out: FanOut,
) -> Reader:
    """Create a reader that hands new runs to the *worker* of this process first."""
    intake = IntakeSettings(limits, worker, worker.wake, logins.tools_dsn)
    sinks = DaemonSinks(logins.dsn, intake, config.retention, fan_out, config)
    return Reader(Following(logins, config.replication, sinks.open, name, on_streaming))
