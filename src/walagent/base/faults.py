"""Named points at which tests make the daemon crash, fail or hang.

Inactive unless armed: by a test in the same process (`armed`), or in a daemon through
``WALAGENT_FAILPOINT=name[:nth][:kill|error|stall|freeze]``, which is read once at the start.
"""

import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

POINTS = (
    "frame.received",  # a WAL frame was received
    "intake.runs_inserted",  # runs are inserted, the checkpoint has not advanced
    "intake.checkpoint_advanced",  # both, uncommitted
    "intake.committed",  # the checkpoint transaction is durable
    "intake.confirmed",  # a status update was sent
    "run.claimed",
    "model.asking",  # just before the model is called
    "model.answered",  # the reply is only in memory
    "step.recorded",  # the reply is stored
    "tool.started",  # the tool's transaction is open, without effects yet
    "tool.done",  # the tool has acted, the step is not recorded
    "tool.recorded",  # recorded, uncommitted
    "tool.committed",
    "run.finished",  # the end is recorded, uncommitted or about to be reported
    "run.committed",
)
BATCH_POINTS = (  # which only runs of the tier batch pass
    "batch.formed",  # a batch is durable, nothing of it is submitted
    "batch.submitting",
    "batch.taken",  # the provider has it, its ID is only in memory
    "batch.submitted",  # the ID is stored
    "batch.fetched",  # some of the results are stored
    "batch.ended",  # all of them
)
SHADOW_POINTS = (  # which only changes of a shadow pass
    "shadow.claimed",
    "shadow.answered",  # a reply is only in memory
    "shadow.tried",  # so is what it came to
    "shadow.stored",
)
KNOWN = (*POINTS, *BATCH_POINTS, *SHADOW_POINTS)


class Crash(BaseException):
    """Simulates kill -9; a BaseException, so that no ``except Exception`` cleans up."""


class InjectedError(Exception):
    """An ordinary error from a point armed with ``error``."""


_armed: dict[str, int] = {}  # point -> passes left before it fires
_mode: str | Callable[[], None] = "crash"


def hit(point: str) -> None:
    """Fire if *point* is armed and its count has reached zero."""
    if not _armed or point not in _armed:
        return
    _armed[point] -= 1
    if _armed[point] >= 0:
        return
    if _mode == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if _mode == "stall":
        time.sleep(3600)  # blocks the event loop on purpose: a hung process
    if _mode == "freeze":
        del _armed[point]
        os.kill(os.getpid(), signal.SIGSTOP)  # until SIGCONT
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
    """Arm *point* for the block; it fires after *skip* passes without effect.

    Args:
        mode: the fault, or a function that is called there once, while the process waits.
    """
    _set(point, skip, mode)
    try:
        yield
    finally:
        _armed.clear()


def arm_from_environment() -> None:
    """Arm the point that ``WALAGENT_FAILPOINT`` names; called once by the daemon at its start.

    Raises:
        ValueError: the variable names an unknown point or mode.
    """
    text = os.environ.get("WALAGENT_FAILPOINT", "")
    if not text:
        return
    name, *rest = text.split(":")
    nth = int(rest.pop(0)) if rest and rest[0].isdigit() else 1
    _set(name, nth - 1, rest[0] if rest else "kill")


def _set(point: str, skip: int, mode: str | Callable[[], None]) -> None:
    global _mode  # noqa: PLW0603 - one process has one armed fault
    if point not in KNOWN:
        raise ValueError(f'unknown fault point "{point}"; known: {", ".join(KNOWN)}')
    if not callable(mode) and mode not in {"crash", "kill", "error", "stall", "freeze"}:
        raise ValueError(f'unknown fault mode "{mode}"')
    _mode = mode
    _armed[point] = skip
