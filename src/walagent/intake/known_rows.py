"""Which rows of a gap were ingested all the same, so that they get no second run.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from walagent.store.checkpoint import to_plain
from walagent.store.resyncing import LastRun


@dataclass(frozen=True, slots=True)
class Told:
    """What a row tells of when it changed, as PostgreSQL prints it."""

    time: str | None
    early: str | None  # "t": before the gap, perhaps; it may have been ingested

    @property
    def is_exact(self) -> bool:
        """Whether no other change has the same time: it is none of whole seconds, or days."""
        return "." in (self.time or "")


def is_known(
    change: Mapping[str, Any],
    former: LastRun | None,
    told: Told,
    column: str,
    writes: Sequence[str],
) -> bool:
    """Say whether the row's last run was about the row as it is, so that nothing of it was missed.

    It was, if *column* has not moved since, and is no round figure.  If it has moved, that may have
    been before the gap, or by the row's own run in it, for workers go on while nobody reads: then
    what else the run was shown has to be the same.

    Args:
        column: says when the row has changed.
        writes: columns that the row's own runs write.
    """
    before = former.change.get("new") if former is not None else None
    if former is None or before is None:
        return False
    now = to_plain(change)["new"]
    moved = column in before and before[column] != now.get(column)
    if column in before and not moved and told.is_exact:
        return True
    if not (told.early == "t" or former.wrote):
        return False
    apart = {column, *former.change.get("unchanged", ())}
    if former.wrote or not moved:
        apart.update(writes)
    return _without(before, apart) == _without(now, apart)


def _without(row: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
