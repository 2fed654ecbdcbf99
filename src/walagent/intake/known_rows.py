"""Find rows of a gap that were ingested, so that they get no second run.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from walagent.store.ingestion import to_plain
from walagent.store.resyncing import LastRun


@dataclass(frozen=True, slots=True)
class RowTime:
    """When a row changed, according to its time column, as PostgreSQL prints it."""

    time: str | None
    early: str | None  # "t": possibly before the gap; it can have been ingested

    @property
    def is_exact(self) -> bool:
        """Return whether the time identifies the change: it has fractions of a second."""
        return "." in (self.time or "")


def is_known(
    change: Mapping[str, Any],
    former: LastRun | None,
    row_time: RowTime,
    column: str,
    writes: Sequence[str],
) -> bool:
    """Return whether the row's last run was about the row as it is now.

    It was if *column* has not changed since and is exact.  If it has changed, this can have been
    before the gap, or by the row's own run during it, for workers continue without a reader: then
    the other columns that the run was shown must be equal.

    Args:
        column: the time column.
        writes: the columns that the row's runs write.
    """
    before = former.change.get("new") if former is not None else None
    if former is None or before is None:
        return False
    now = to_plain(change)["new"]
    moved = column in before and before[column] != now.get(column)
    if column in before and not moved and row_time.is_exact:
        return True
    if not (row_time.early == "t" or former.wrote):
        return False
    apart = {column, *former.change.get("unchanged", ())}
    if former.wrote or not moved:
        apart.update(writes)
    return _without(before, apart) == _without(now, apart)


def _without(row: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
