"""Named points at which a test can make the daemon die, fail or hang.

Inert unless armed: by a test in the same process (`armed`), or in a real daemon through
``WALAGENT_FAILPOINT=name[:nth][:kill|error|stall|freeze]``, read once at start.
"""

import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

POINTS = (
    "frame.received",  # a WAL frame is in hand
    "intake.runs_inserted",  # runs are inserted, progress is not moved yet
    "intake.checkpoint_advanced",  # both, uncommitted
    "intake.committed",  # the checkpoint transaction is durable
    "intake.confirmed",  # the server was told
    "run.claimed",
    "model.asking",  # just before the model is called
    "model.answered",  # the answer is in memory only
    "step.recorded",  # the answer is stored
    "tool.started",  # the tool's transaction is open, nothing done yet
    "tool.done",  # the tool has acted, the step is not recorded
    "tool.recorded",  # recorded, uncommitted
    "tool.committed",
    "run.finished",  # the end is recorded, uncommitted or about to be reported
    "run.committed",
)


class Crash(BaseException):
    """Stands for kill -9; a BaseException, so that no ``except Exception`` tidies up after it."""


class InjectedError(Exception):
    """An ordinary error from a point that was armed with ``error``."""


_armed: dict[str, int] = {}  # point -> passes left before it fires
_mode: str | Callable[[], None] = "crash"


def hit(point: str) -> None:
    """Fire if *point* is armed and its count has run down."""
    if not _armed or point not in _armed:
        return
    _armed[point] -= 1
    if _armed[point] >= 0:
        return
    if _mode == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if _mode == "stall":
        time.sleep(3600)  # blocks the whole loop on purpose: a hung process
    if _mode == "freeze":
        del _armed[point]
        os.kill(os.getpid(), signal.SIGSTOP)  # until somebody sends SIGCONT
        return
    if _mode == "error":
        del _armed[point]
        raise InjectedError(point)
    if callable(_mode):
        del _armed[point]
        _mode()
        return
    raise Crash(point)


@contextmanager
def armed(
    point: str, *, skip: int = 0, mode: str | Callable[[], None] = "crash"
) -> Generator[None]:
    """Arm *point* for the block; it fires after *skip* harmless passes.

    Args:
        mode: what it does; a function is called there, once, while everything here stands still.
    """
    _set(point, skip, mode)
    try:
        yield
    finally:
        _armed.clear()


def arm_from_environment() -> None:
    """Arm what ``WALAGENT_FAILPOINT`` names; called once by the daemon at start.

    Raises:
        ValueError: the variable names no known point or mode.
    """
    text = os.environ.get("WALAGENT_FAILPOINT", "")
    if not text:
        return
    name, *rest = text.split(":")
    nth = int(rest.pop(0)) if rest and rest[0].isdigit() else 1
    _set(name, nth - 1, rest[0] if rest else "kill")


def _set(point: str, skip: int, mode: str | Callable[[], None]) -> None:
    global _mode  # noqa: PLW0603 - one process has one armed fault
    if point not in POINTS:
        raise ValueError(f"no fault point {point!r}; known: {', '.join(POINTS)}")
    if not callable(mode) and mode not in {"crash", "kill", "error", "stall", "freeze"}:
        raise ValueError(f"no fault mode {mode!r}")
    _mode = mode
    _armed[point] = skip
