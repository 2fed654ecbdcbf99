"""From looks at what a slot keeps to what is done about it: an alarm, and giving it up.  No I/O."""

from enum import Enum, auto

_CALM = 0.8  # of the alarm's size: below it, the alarm is over; so it does not flicker


class Sign(Enum):
    """What a look has shown."""

    RAISED = auto()  # the slot keeps more than it should
    CLEARED = auto()  # it does not any more
    HOPELESS = auto()  # it keeps more than it may, and its reader does not catch up


class Backlog:
    """The WAL that a slot keeps, look after look.  Sizes are bytes, times seconds."""

    def __init__(self, *, alarm: int | None, limit: int | None, patience: float) -> None:
        """Begin with no alarm.

        Args:
            alarm: what the slot should not keep more of; None: no alarm.
            limit: what it may not keep more of; None: however much.
            patience: for how long the reader may fail to come closer, beyond the limit.
        """
        self._alarm = alarm
        self._limit = limit
        self._patience = patience
        self._least: int | None = None  # how far behind the reader was at best, beyond the limit
        self._since = 0.0  # when that was
        self.alarming = False

    def look(self, retained: int, behind: int, now: float) -> set[Sign]:
        """Take the next look in.

        Args:
            retained: what the slot keeps: from what the server may need again to decode.
            behind: what its reader has not confirmed.
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
        """Whether the reader has come no closer for long.

        One that is close already is not to blame: the server keeps WAL for somebody's open
        transaction, too, and giving the slot up for that would lose changes and help little.
        """
        if retained <= limit or behind < limit / 2:
            self._least = None
            return False
        if self._least is None or behind < self._least:
            self._least, self._since = behind, now
        return now - self._since >= self._patience
