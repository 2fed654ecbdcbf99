"""Which runs a command lists or changes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from walagent.domain.run import RunState


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Criteria that a run must meet, all of them; None and () accept every run.

    Args:
        relation: as ``schema.table``, not quoted.
        since: when the run ended or, if it has not, was created; a timedelta counts from now.
    """

    states: tuple[RunState, ...] = ()
    attachment: str | None = None
    relation: str | None = None
    key: str | None = None
    since: datetime | timedelta | None = None
    run: int | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether every run is accepted."""
        return self == RunFilter()

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of `store/sql/list_runs.sql`."""
        age = self.since if isinstance(self.since, timedelta) else None
        return {
            "states": [state.value for state in self.states] or None,
            "attachment": self.attachment,
            "relation": self.relation,
            "key": self.key,
            "since": None if age is not None else self.since,
            "age": age,
            "run": self.run,
        }
