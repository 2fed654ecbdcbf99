"""`docs/log-events.md` and the code name the same events."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from walagent.telemetry.log import CONTENTS

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
BOUND = {"run_id", "attachment", "lsn", "exc_info"}  # may be on any line
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
NAME = re.compile(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*")
ROW = re.compile(r"\| `([^`]+)` \| (\w+) \|([^|]*)\| [^|]+ \|")


@dataclass(frozen=True)
class Event:
    """One place that logs."""

    name: str
    level: str
    fields: frozenset[str]
    place: str


@cache
def _events() -> tuple[Event, ...]:
    return tuple(_all_events())


def _all_events() -> Iterator[Event]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _logs(node.func):
                yield _event(node, f"{path.relative_to(ROOT)}:{node.lineno}")


def _logs(function: ast.expr) -> bool:
    if not (isinstance(function, ast.Attribute) and function.attr in LEVELS):
        return False
    owner = function.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name.strip("_") in {"log", "logger"}


def _event(call: ast.Call, place: str) -> Event:
    assert isinstance(call.func, ast.Attribute)
    assert len(call.args) == 1, f"{place}: an event has a name, then fields"
    (name,) = call.args
    assert isinstance(name, ast.Constant), f"{place}: an event's name is a constant"
    fields = [keyword.arg for keyword in call.keywords]
    assert None not in fields, f"{place}: write the fields out"
    level = "error" if call.func.attr == "exception" else call.func.attr
    return Event(str(name.value), level, frozenset(filter(None, fields)) - BOUND, place)


def _documented() -> dict[str, tuple[str, frozenset[str]]]:
    rows = ROW.findall((ROOT / "docs" / "log-events.md").read_text())
    return {
        name: (level, frozenset(re.findall(r"`(\w+)`", fields))) for name, level, fields in rows
    }


def test_every_event_is_documented_as_it_is_logged() -> None:
    """Name, level and fields in the code are those of the table."""
    documented = _documented()
    for event in _events():
        assert documented.get(event.name) == (event.level, event.fields), event.place


def test_every_documented_event_is_logged() -> None:
    """The table promises nothing that the code does not do."""
    assert set(_documented()) <= {event.name for event in _events()}


def test_event_names_follow_one_pattern() -> None:
    """A name is a noun, a dot, and what happened to it."""
    for event in _events():
        assert NAME.fullmatch(event.name), event.place


def test_no_event_has_a_field_for_contents() -> None:
    """Nobody even tries to log what people wrote."""
    for event in _events():
        assert not event.fields & CONTENTS, event.place


def test_everybody_logs_through_the_one_logger() -> None:
    """Only `walagent.telemetry.log` touches structlog and the standard library's logging."""
    other = re.compile(r"^\s*(import|from) (logging|structlog)\b", re.MULTILINE)
    users = {path.name for path in SOURCES if other.search(path.read_text())}
    assert users == {"log.py"}
