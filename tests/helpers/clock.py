"""An event loop whose clock jumps to the next timer, so that a test of times takes no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Advances a clock by as much as it is asked to wait, unless a file is ready."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits, and no timer is set")
        if not (ready := super().select(0)):
            self.now += max(0.0, timeout)
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_jumping(main: Coroutine[Any, Any, T]) -> T:
    """Run *main*; `asyncio.sleep` and `asyncio.timeout` pass at once, in their order."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)
