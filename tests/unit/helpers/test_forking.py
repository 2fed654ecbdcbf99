"""A process that was forked is what `python -m` would have started."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.helpers.forking import Forked, can_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tests fork on Linux only")

ROOT = Path(__file__).parents[3]
VARIABLES = {"PYTHONPATH": str(ROOT / "src"), "COLOUR": "green"}
MODULE = """
import atexit, os, sys, threading, time

atexit.register(print, "at the end")
print(sys.argv[1:], os.getcwd(), sorted(os.environ), sys.stdin.read(), __name__)
threading.Thread(target=lambda: (time.sleep(0.05), print("a thread"))).start()
{end}
"""


def run(folder: Path, end: str) -> tuple[int, str, str]:
    """Run the module that ends like that, to its end; what it wrote is in the folder."""
    (folder / "some_module.py").write_text(MODULE.format(end=end))
    (folder / "in").write_text("typed")
    with (
        (folder / "in").open() as given,
        (folder / "out").open("w") as out,
        (folder / "err").open("w") as errors,
    ):
        process = Forked(
            "some_module",
            ["a", "b c"],
            streams=(given.fileno(), out.fileno(), errors.fileno()),
            folder=folder,
            environment=VARIABLES,
        )
    return process.wait(30), (folder / "out").read_text(), (folder / "err").read_text()


@pytest.mark.parametrize(
    ("end", "code", "says"),
    [
        ("", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no')", 1, "no\n"),
        ("raise ValueError('no')", 1, "ValueError: no\n"),
        ("print(end='', flush=True); os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
    ],
)
def test_a_forked_module_runs_and_ends_like_any(
    tmp_path: Path, end: str, code: int, says: str
) -> None:
    """Its arguments, folder, variables and files; its threads and what it does at the end."""
    ended, out, err = run(tmp_path, end)
    assert (ended, err.endswith(says), bool(err)) == (code, True, bool(says))
    lines = out.splitlines()
    assert lines[0] == f"['a', 'b c'] {tmp_path} {sorted(VARIABLES)} typed __main__"
    assert lines[1:] == ([] if code < 0 else ["a thread", "at the end"])


def test_a_forked_process_has_no_descriptors_of_others(tmp_path: Path) -> None:
    """Those of its parent would keep pipes and sockets of other tests open."""
    end = "print(os.listdir('/proc/self/fd'))"
    _, out, _ = run(tmp_path, end)
    assert eval(out.splitlines()[1]) == ["0", "1", "2", "3"]  # noqa: S307 - the last one reads


@pytest.mark.parametrize(
    "variables",
    [{"PYTHONPATH": "elsewhere"}, {"LC_ALL": "tlh"}, {"LD_PRELOAD": "x.so"}, {"PYTHONUTF8": "0"}],
)
def test_what_an_interpreter_reads_at_its_start_needs_a_new_one(variables: dict[str, str]) -> None:
    """A fork would not notice it."""
    assert can_fork({**os.environ, **VARIABLES})
    assert can_fork(VARIABLES)
    assert not can_fork({**os.environ, **VARIABLES, **variables})
