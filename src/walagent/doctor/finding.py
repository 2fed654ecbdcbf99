"""The result of one check."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # works, but needs attention
    PROBLEM = "problem"  # does not work until an operator acts


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence, and the statement or command that fixes the problem."""

    level: Severity
    text: str
    fix: str = ""
    kind: str = ""  # what was checked: server, slot, models …


def of_kind(kind: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Name what the findings are about."""
    return (replace(each, kind=kind) for each in findings)


def ok(text: str) -> Finding:
    """Report that a check passed."""
    return Finding(Severity.OK, text)


def warning(text: str, fix: str = "") -> Finding:
    """Report what needs attention."""
    return Finding(Severity.WARNING, text, fix)


def problem(text: str, fix: str = "") -> Finding:
    """Report what does not work."""
    return Finding(Severity.PROBLEM, text, fix)
