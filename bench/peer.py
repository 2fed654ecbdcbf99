"""The programs we compare with: each a script of its own in a virtual environment of its own.

A peer's script names its pinned packages in inline script metadata (PEP 723).  One that names
none runs in our own environment, because it uses exactly what walagent uses (the same driver,
the same SDK) and must not differ from it by a version.

A script prints `ready` once it can be given work, if it waits for any, and at the end one line
of JSON: figures, and `versions` of what it used.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import tomllib
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
ENVIRONMENTS = Path(os.environ.get("BENCH_ENVIRONMENTS", ROOT / ".venv-bench"))

_LONGEST = 900.0  # seconds; a peer that takes longer hangs

_METADATA = re.compile(r"^# /// script$\n(?P<body>(?:^#(?: .*)?$\n)+)^# ///$", re.MULTILINE)


def run_peer(
    name: str, *options: str | int, when_ready: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Run `peers/<name>.py` to its end and return what it measured.

    Args:
        options: its command line.
        when_ready: gives it work; called once, after it has said that it is ready.

    Raises:
        RuntimeError: it failed, or said nothing.
    """
    script = BENCH / "peers" / f"{name}.py"
    command = [str(interpreter(name)), str(script), *map(str, options)]
    with (
        tempfile.TemporaryDirectory() as folder,  # Debezium leaves its logs where it runs
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=folder
        ) as process,
    ):
        assert process.stdout is not None
        watchdog = threading.Timer(_LONGEST, process.kill)
        watchdog.start()
        try:
            if when_ready is not None:
                _wait_for_ready(name, process.stdout.readline)
                when_ready()
            *_, last = process.stdout.read().splitlines() or [""]
        except BaseException:
            process.kill()
            raise
        finally:
            watchdog.cancel()
    if process.returncode != 0 or not last.startswith("{"):
        raise RuntimeError(f"peer {name} ended with {process.returncode} and said {last!r}")
    return json.loads(last)


def interpreter(name: str) -> Path:
    """The Python that runs *name*, its environment made or renewed where the pins changed."""
    pins = dependencies(BENCH / "peers" / f"{name}.py")
    if not pins:
        return Path(sys.executable)
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    stamp = folder / "pins"
    wanted = hashlib.sha256("\n".join([sys.version, *pins]).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *pins], check=True)
        stamp.write_text(wanted)
    return python


def dependencies(script: Path) -> list[str]:
    """The packages that *script* pins in its metadata."""
    if not (found := _METADATA.search(script.read_text())):
        return []
    lines = (line.removeprefix("#").removeprefix(" ") for line in found["body"].splitlines())
    return tomllib.loads("\n".join(lines)).get("dependencies", [])


def _wait_for_ready(name: str, read_line: Callable[[], str]) -> None:
    while line := read_line():
        if line == "ready\n":
            return
    raise RuntimeError(f"peer {name} ended before it was ready")


def environment() -> Mapping[str, str]:
    """Ours, and where a child process finds `bench` and `walagent`."""
    return os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PYTHONUNBUFFERED": "1"}
