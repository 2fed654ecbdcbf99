"""Golden files: what a command prints, under `tests/golden`, one file for each command.

`make golden` writes them again; read the difference before you commit it.
"""

import re
from difflib import unified_diff
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"

# What differs between two runs of the same command.  A time keeps its width: columns stay aligned.
_VARIABLE = (
    (re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d+)?"), r"2026-01-01\g<1>00:00:00"),
    (re.compile(r"\b[0-9A-F]{1,8}/[0-9A-F]{5,8}\b"), "LSN"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), r"N \2"),
    (re.compile(r"\b\d+(\.\d+)? (kB|MB|GB)\b"), "SIZE"),
    (re.compile(r"\bPID \d+"), "PID N"),
    (re.compile(r"\bworker: \S+"), "worker: NAME"),
    (re.compile(r"\b(PostgreSQL) \d+(\.\d+)*\b"), r"\1 N"),
    (
        re.compile(r" \bpg_logical_emit_message\([a-z,]+\)(, pg_logical_emit_message\([a-z,]+\))*"),
        " MESSAGES",
    ),
)


def normalized(text: str, names: dict[str, str]) -> str:
    """Replace *names*, times, LSNs, durations, sizes and versions."""
    for name, word in names.items():
        text = text.replace(name, word)
    for pattern, word in _VARIABLE:
        text = pattern.sub(word, text)
    return text


def check_golden(name: str, text: str, *, update: bool) -> None:
    """Compare *text* with the golden file *name*, or write the file."""
    path = GOLDEN / name
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    expected = path.read_text("utf-8") if path.exists() else ""
    changes = unified_diff(expected.splitlines(), text.splitlines(), name, "now", lineterm="")
    assert text == expected, "\n".join([*changes, "If this is intended, run: make golden"])
