"""Whether the server writes WAL: while it does not, nothing that a database stores has changed.

So what watches catalogs and tables can rest on an idle server.  Settings of the server and time are
no part of it.
"""

import asyncio
from collections.abc import AsyncGenerator

from walagent.base.concurrency import event_within

_RARELY = 60.0  # seconds after which a turn is taken nevertheless


class WalActivity:
    """The end of the WAL as it was seen last; None: it is not known."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._end: str | None = None
        self._moved = asyncio.Event()  # replaced each time that it is set

    def see(self, end: str | None) -> bool:
        """Take the end of the WAL, an LSN; return whether it may have moved."""
        if end is not None and end == self._end:
            return False
        self._end = end
        self._moved.set()
        self._moved = asyncio.Event()
        return True

    @property
    def mark(self) -> str | None:
        """Return what `has_moved` compares with."""
        return self._end

    def has_moved(self, mark: str | None) -> bool:
        """Return whether WAL may have been written since *mark*."""
        return mark is None or mark != self._end

    async def turns(self, every: float) -> AsyncGenerator[None]:
        """Yield at once, then after *every* seconds if the WAL has moved, or as soon as it does."""
        now = asyncio.get_running_loop().time
        while True:
            mark, due = self.mark, now() + every
            yield
            await asyncio.sleep(due - now())
            rest = now() + _RARELY
            while not self.has_moved(mark) and (left := rest - now()) > 0:
                await event_within(self._moved, left)
