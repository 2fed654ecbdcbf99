"""What the doctor says about one thing."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"  # works, but look at it
    PROBLEM = "problem"  # does not work until a person has acted


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence, and the statement or command that mends it."""

    level: Level
    text: str
    fix: str = ""


def ok(text: str) -> Finding:
    """Say that something is in order."""
    return Finding(Level.OK, text)


def warning(text: str, fix: str = "") -> Finding:
    """Say that something deserves a look."""
    return Finding(Level.WARNING, text, fix)


def problem(text: str, fix: str = "") -> Finding:
    """Say that something stands in the way."""
    return Finding(Level.PROBLEM, text, fix)
