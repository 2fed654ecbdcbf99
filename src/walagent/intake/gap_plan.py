"""The choices for rows that were changed in a gap, by attachment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from walagent.errors import ConfigError
from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.store.gaps import GapChoice
from walagent.store.resyncing import ResyncCandidate

SKIP = GapChoice("skip")
# A transaction that was open when the gap started can have committed in it, with an earlier now().
# So rows from some time before are also read; those that were ingested are skipped.
OVERLAP = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class GapPlan:
    """The choices.  Attachments without one are skipped."""

    choices: Mapping[str, GapChoice] = field(default_factory=dict[str, GapChoice])
    overlap: timedelta = OVERLAP
    limits: SizeLimits = SIZE_LIMITS


def check_choice(candidate: ResyncCandidate, choice: GapChoice) -> None:
    """Check that a choice can be applied.

    Raises:
        ConfigError: the table does not exist, or has no primary key or no such column, or the
            attachment is that of an agent in threads, which needs no choice.
    """
    if choice.kind == "skip":
        return
    name, relation = candidate.name, candidate.relation
    if candidate.in_threads:
        raise ConfigError(
            f'"{choice}" cannot be chosen for {name}: an agent in threads takes a turn where it has'
            " not answered",
            hint="Leave it out; --default is for the other attachments.",
        )
    if not candidate.has_table:
        raise ConfigError(
            f"table of attachment {name} does not exist", hint=f"Use --attachment {name}=skip."
        )
    if not candidate.has_key:
        raise ConfigError(
            f"{name}: {relation} has no primary key",
            hint=f"Use --attachment {name}=skip, or add a primary key and attach again.",
        )
    if choice.kind == "since" and choice.column not in candidate.columns:
        known = ", ".join(candidate.columns) or "none"
        raise ConfigError(
            f'{name}: {relation} has no time column "{choice.column}"',
            hint=f"Use a column of type timestamptz, timestamp or date: {known}.",
        )
