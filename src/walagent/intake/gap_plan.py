"""What a person can choose about the rows that were changed in a gap, for each attachment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from walagent.errors import ConfigError
from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.store.gaps import GapChoice
from walagent.store.resyncing import ResyncCandidate

SKIP = GapChoice("skip")
# A transaction that had begun when the gap did may have committed in it, and its now() lies before.
# So rows of some time before are looked at, too; those that were ingested are left alone.
OVERLAP = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided.  Attachments that it does not name are skipped."""

    choices: Mapping[str, GapChoice] = field(default_factory=dict[str, GapChoice])
    overlap: timedelta = OVERLAP
    limits: SizeLimits = SIZE_LIMITS


def check_choice(candidate: ResyncCandidate, choice: GapChoice) -> None:
    """See that a choice can be carried out.

    Raises:
        ConfigError: the table is gone, or has no key or no such column.
    """
    if choice.kind == "skip":
        return
    name, relation = candidate.name, candidate.relation
    if not candidate.has_table:
        raise ConfigError(f"the table of {name} is gone", hint=f"--attachment {name}=skip")
    if not candidate.has_key:
        raise ConfigError(
            f"{name}: {relation} has no primary key, so its rows cannot be told apart",
            hint=f"--attachment {name}=skip, or add a primary key and attach again",
        )
    if choice.kind == "since" and choice.column not in candidate.columns:
        known = ", ".join(candidate.columns) or "none"
        raise ConfigError(
            f"{name}: {relation} has no column {choice.column} that holds a time",
            hint=f"columns of type timestamptz, timestamp or date: {known}",
        )
