"""The programs that are measured: scripts, the peers' in virtual environments of their own.

A peer's script names its pinned packages in inline script metadata (PEP 723).  One that names
none runs in our own environment, because it uses exactly what walagent uses (the same driver,
the same SDK) and must not differ from it by a version.

A script prints `ready` once it can be given work, if it waits for any, and at the end a JSON
object: figures, and `versions` of what it used.
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
from types import MappingProxyType
from typing import Any

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
ENVIRONMENTS = Path(os.environ.get("BENCH_ENVIRONMENTS", ROOT / ".venv-bench"))

_LONGEST = 900.0  # seconds; a peer that takes longer hangs

_METADATA = re.compile(r"^# /// script$\n(?P<body>(?:^#(?: .*)?$\n)+)^# ///$", re.MULTILINE)


def run_script(
    name: str,
    *options: str | int,
    when_ready: Callable[[], None] | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Run `<name>.py`, in `peers/` or `ours/`, to its end and return what it measured.

    Args:
        options: its command line.
        when_ready: gives it work; called once, after it has said that it is ready.
        environ: further variables of its environment.

    Raises:
        RuntimeError: it failed, or said nothing.
    """
    script = BENCH / f"{name}.py"
    command = [str(interpreter(script)), str(script), *map(str, options)]
    with (
        tempfile.TemporaryDirectory() as folder,  # Debezium leaves its logs where it runs
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment(), **environ},
            cwd=folder,
        ) as process,
    ):
        assert process.stdout is not None
        watchdog = threading.Timer(_LONGEST, process.kill)
        watchdog.start()
        try:
            if when_ready is not None:
                _wait_for_ready(name, process.stdout.readline)
                when_ready()
            said = process.stdout.read()
        except BaseException:
            process.kill()
            raise
        finally:
            watchdog.cancel()
    start = f"\n{said}".rfind("\n{")  # Debezium's log comes before it, with braces in its lines
    if process.returncode != 0 or start < 0:
        raise RuntimeError(f"{name} ended with {process.returncode} and said {said[-2000:]!r}")
    return json.loads(said[start:])


def interpreter(script: Path) -> Path:
    """The Python that runs *script*, its environment made or renewed where the pins changed."""
    pins = dependencies(script)
    if not pins:
        return Path(sys.executable)
    folder = ENVIRONMENTS / script.stem
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
    raise RuntimeError(f"{name} ended before it was ready")


def environment() -> Mapping[str, str]:
    """Ours, and where a child process finds `bench` and `walagent`."""
    return os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PYTHONUNBUFFERED": "1"}
