"""Show on a terminal how far a replay is; cases that agree are not printed otherwise."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self


class ReplayProgress:
    """A status line on stderr, if that is a terminal; inside its `with` block."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._status: Any = None
        self._planned = 0
        self._done = 0
        self._agreeing = 0

    def __enter__(self) -> Self:
        """Remove the line at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the line."""
        if self._status is not None:
            self._status.stop()

    def begin(self, planned: int) -> None:
        """Show that so many cases are replayed."""
        self._planned = planned
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(f"0 of {planned} cases")
            self._status.start()

    def count(self, *, agrees: bool | None) -> None:
        """Count a case."""
        self._done += 1
        self._agreeing += agrees is True
        if self._status is not None:
            agree = f", {self._agreeing} agree" if self._agreeing else ""
            self._status.update(f"{self._done} of {self._planned} cases{agree}")

    @contextmanager
    def paused(self) -> Generator[None]:
        """Remove the line while something is printed: as long as it stands, rich has stdout."""
        if self._status is None:
            yield
            return
        self._status.stop()
        try:
            yield
        finally:
            self._status.start()
