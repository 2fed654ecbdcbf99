"""A mapping of limited size, which drops the entry that was not used for the longest time."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The entries used most recently.  For what can be computed again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries = OrderedDict[K, V]()

    def get(self, key: K) -> V | None:
        """Return an entry, which is now the most recent one; None if there is none."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def __setitem__(self, key: K, value: V) -> None:
        """Store an entry as the most recent one."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)
