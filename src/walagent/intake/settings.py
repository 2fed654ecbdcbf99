"""How intake works, and what it calls."""

from collections.abc import Callable
from dataclasses import dataclass, field

from walagent.attachment import Attachment
from walagent.intake.writer import Starter
from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.replication.sinks import Table


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    """The daemon gives the first three; the others belong to one stream."""

    limits: SizeLimits = SIZE_LIMITS  # how much of a change a run keeps
    starter: Starter | None = None  # saves quiet times a claim and its commit
    on_runs: Callable[[], None] = lambda: None  # runs were committed
    on_attached: Callable[[Attachment], None] = lambda _: None  # a version is durably in effect
    on_described: Callable[[], None] = lambda: None  # the WAL described an attached table
    carried: frozenset[Table] | None = None  # tables of the stream, if others cannot be added
    replicated: bool = False  # whether standbys have copies of the slot
    # Attachments whose backfill is going on; shared with `Backfill`.
    backfilling: set[int] = field(default_factory=set[int])
