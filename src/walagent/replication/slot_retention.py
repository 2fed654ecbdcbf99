"""Decide from the WAL that a slot retains when to raise an alarm and when to give it up.  Pure."""

from enum import Enum, auto

_CALM = 0.8  # of the alarm's size: below it, the alarm clears


class Sign(Enum):
    """The result of a check."""

    RAISED = auto()  # the slot retains more than the alarm allows
    CLEARED = auto()  # it no longer does
    HOPELESS = auto()  # it retains more than the limit, and its reader does not catch up


class Backlog:
    """The WAL that a slot retains, over time.  Sizes are in bytes, times in seconds."""

    def __init__(self, *, alarm: int | None, limit: int | None, patience: float) -> None:
        """Start without an alarm.

        Args:
            alarm: retained WAL above which the alarm is raised; None: no alarm.
            limit: retained WAL above which the slot is given up; None: no limit.
            patience: how long the reader may make no progress above the limit.
        """
        self._alarm = alarm
        self._limit = limit
        self._patience = patience
        self._least: int | None = None  # the smallest lag of the reader above the limit
        self._since = 0.0  # when that was
        self.alarming = False

    def look(self, retained: int, behind: int, now: float) -> set[Sign]:
        """Add a check.

        Args:
            retained: from the slot's `restart_lsn`.
            behind: from the position that its reader confirmed.
        """
        signs = set[Sign]()
        if self._alarm is not None and self.alarming != self._is_alarming(retained, self._alarm):
            self.alarming = not self.alarming
            signs.add(Sign.RAISED if self.alarming else Sign.CLEARED)
        if self._limit is not None and self._is_hopeless(retained, behind, self._limit, now):
            signs.add(Sign.HOPELESS)
        return signs

    def _is_alarming(self, retained: int, alarm: int) -> bool:
        return retained > (alarm * _CALM if self.alarming else alarm)

    def _is_hopeless(self, retained: int, behind: int, limit: int, now: float) -> bool:
        """Return whether the reader has made no progress for too long.

        A reader that is close is not the cause: the server also retains WAL for open transactions,
        and giving up the slot for them would lose changes and free little.
        """
        if retained <= limit or behind < limit / 2:
            self._least = None
            return False
        if self._least is None or behind < self._least:
            self._least, self._since = behind, now
        return now - self._since >= self._patience
