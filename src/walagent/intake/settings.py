"""Settings and callbacks of intake."""

from collections.abc import Callable
from dataclasses import dataclass, field

from walagent.domain.attachment import Attachment
from walagent.intake.writer import Starter
from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.replication.sinks import Table


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    """The daemon sets the first four; the others belong to one stream."""

    limits: SizeLimits = SIZE_LIMITS  # how much of a change a run keeps
    starter: Starter | None = None  # starts runs as they are inserted, without a claim
    on_runs: Callable[[], None] = lambda: None  # runs were committed
    tools_dsn: Callable[[], str] = lambda: ""  # of the login for code of others; "": derived
    on_attached: Callable[[Attachment], None] = lambda _: None  # a version is durably in effect
    on_described: Callable[[], None] = lambda: None  # the WAL described an attached table
    carried: frozenset[Table] | None = None  # tables of the stream, if none can be added
    replicated: bool = False  # whether standbys have copies of the slot
    # Attachments with a running backfill; shared with `Backfill`.
    backfilling: set[int] = field(default_factory=set[int])
