"""`examples/own_worker.py`, killed before or after one of its statements.

python -m tests.faults.rig.own_worker DSN THREAD before|after NUMBER
"""

import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import psycopg
from openai import OpenAI

PROGRAM = Path(__file__).parents[3] / "examples" / "own_worker.py"


class Dying(psycopg.Connection[Any]):
    """Counts its statements, and ends the process at one of them."""

    at: tuple[str, int] = ("", 0)
    done = 0

    def execute(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as it is called
        """Execute a statement."""
        self.done += 1
        self._die("before")
        cursor = super().execute(*args, **options)
        self._die("after")
        return cursor

    def _die(self, when: str) -> None:
        if (when, self.done) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    dsn, thread, when, number = sys.argv[1:]
    Dying.at = when, int(number)
    psycopg.connect = Dying.connect
    runpy.run_path(str(PROGRAM))["work"](dsn, thread, OpenAI())
