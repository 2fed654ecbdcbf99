"""From an empty home to an agent of one's own: the README's commands, as a shell runs them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs_pages import ROOT, blocks

WAITED = 30  # seconds until the run has ended


@pytest.mark.slow
def test_the_readmes_first_agent_is_there_within_a_minute(tmp_path: Path) -> None:
    """Without a server, a key or a network; the same commands in the same order."""
    (block,) = (b for b in blocks(ROOT / "README.md", "console") if "first" in b.words)
    lines = [line.removeprefix("$ ") for line in block.text.splitlines()]
    assert lines[-2:] == ["walagent run &", "sleep 5 && walagent show 1"]
    # A busy machine can take longer than a reader of the page would wait.
    lines[-2] = "walagent run 2> log & daemon=$!; " + _until("grep -q run.processed log")
    lines[-1] = "walagent show 1"
    script = "\n".join(["set -e", *lines, "kill $daemon; wait $daemon"])
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=_environment(tmp_path),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began < 60
    assert "kind: NULL → bug" in done.stdout
    assert "kind: NULL → billing" in done.stdout
    assert "run 1 (agent): succeeded" in done.stdout
    assert "→ update_row(kind=bug)" in done.stdout.split("run 1 (agent)")[1]


def _until(command: str) -> str:
    return f"for n in $(seq {WAITED * 5}); do {command} && break; sleep 0.2; done"


def _environment(home: Path) -> dict[str, str]:
    """No key, no database, and every way out leads nowhere."""
    (home / "bin").mkdir()
    started = home / "bin" / "walagent"
    started.write_text(f'#!/bin/sh\nexec {sys.executable} -m walagent "$@"\n')
    started.chmod(0o755)
    kept = {key: os.environ[key] for key in ("LANG", "TMPDIR") if key in os.environ}
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    return {
        **kept, **nowhere, "HOME": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"), "OLLAMA_HOST": "127.0.0.1:9",
    }  # fmt: skip
