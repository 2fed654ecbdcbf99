"""What a run of the fault suite showed, scenario by scenario; the tables of docs/results.md.

A test names its scenarios (`@pytest.mark.scenario(5)`) and gives figures (the fixture `figure`).
With WALAGENT_FAULT_REPORT=FILE the session leaves a JSON document there, and

    python -m tests.faults.rig.report FILE...

writes the table of one or several such sessions into the page.  A file that `make planted` has left
becomes the page's table of bugs that were planted.
"""

import json
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

SCENARIOS = {
    1: "SIGKILL at every step boundary, and at random under load",
    2: "COMMIT whose answer is lost",
    3: "Server restarted, crashed, killed, away for long",
    4: "Connections ended, half open, slow",
    5: "Slot dropped, invalidated or moved; publication recreated; another server; resync",
    6: "Two readers: slot busy, split brain, hot standby",
    7: "Retained WAL: alarm, and giving the slot up at a limit",
    8: "Disk full, at the server and at the daemon's log",
    9: "Stalled intake, shutdown, very large transactions and values",
    10: "DDL in mid-stream",
    11: "Encodings, types and identities; plug-ins compared on the same WAL",
    12: "Roles, passwords, connection limits, row level security",
    13: "The provider misbehaves",
    14: "Cancel and approve, raced",
    15: "Budgets under concurrency and kills",
    16: "Conflicts with the application on its tables",
    17: "Agents that trigger agents",
    18: "Signals, watchdog, reload, two versions, a broken migration",
    19: "The daemon's clock is wrong",
    20: "Soak: nothing grows; old runs are pruned",
    21: "Failover to a standby",
    22: "Hosts and links lost",
}
PAGE = Path(__file__).parents[3] / "docs" / "results.md"
RESULTS = "<!-- results -->", "<!-- end of results -->"
PLANTED = "<!-- planted -->", "<!-- end of planted -->"


@dataclass(slots=True)
class Session:
    """One run of the suite."""

    seed: int
    server: str = ""
    seconds: float = 0.0
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)  # scenario → outcome → tests
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # … → "what, unit"
    failed: list[str] = field(default_factory=list)


class Reporter:
    """A pytest plug-in that fills a `Session`."""

    def __init__(self, path: Path, seed: int) -> None:
        """Write to *path* at the end."""
        self._path = path
        self._started = time.monotonic()
        self.session = Session(seed)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that is over, once."""
        properties: dict[str, Any] = dict(report.user_properties)
        if "scenarios" not in properties:
            return
        self.session.server = properties.get("server") or self.session.server
        over = report.when == "call" or report.outcome != "passed"
        if report.failed:
            self.session.failed.append(report.nodeid)
        for number in properties["scenarios"] if over else ():
            counts = self.session.outcomes.setdefault(str(number), {})
            counts[report.outcome] = counts.get(report.outcome, 0) + 1
            if report.when == "call":
                self._note(str(number), properties.get("figures", ()))

    def _note(self, number: str, figures: Iterable[tuple[str, float, str]]) -> None:
        named = self.session.figures.setdefault(number, {})
        for what, value, unit in figures:
            named.setdefault(f"{what}, {unit}" if unit else what, []).append(value)

    def pytest_sessionfinish(self) -> None:
        """Leave what was seen."""
        self.session.seconds = time.monotonic() - self._started
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(asdict(self.session), indent=1))


def table(sessions: Sequence[Session]) -> str:
    """The results as Markdown."""
    lines = [
        f"Python {platform.python_version()}. One column for each run of the suite:",
        "",
        *(f"- {_heading(n, session)}" for n, session in enumerate(sessions, 1)),
        "",
        "| scenario | "
        + " | ".join(f"run {n}" for n in range(1, len(sessions) + 1))
        + " | figures |",
        "| --- |" + " --- |" * (len(sessions) + 1),
    ]
    for number, title in SCENARIOS.items():
        cells = [_result(session.outcomes.get(str(number), {})) for session in sessions]
        figures = _figures([session.figures.get(str(number), {}) for session in sessions])
        lines.append(f"| {number}. {title} | {' | '.join(cells)} | {figures} |")
    return "\n".join(lines)


def _heading(number: int, session: Session) -> str:
    failed = "".join(f"\n  - failed: `{test.rpartition('/')[2]}`" for test in session.failed)
    server = f", PostgreSQL {session.server}" if session.server else ""
    return f"run {number}: seed {session.seed}{server}, {session.seconds / 60:.0f} minutes{failed}"


def _result(outcomes: Mapping[str, int]) -> str:
    count = Counter(outcomes)
    ran = count["passed"] + count["failed"]
    skipped = f", {count['skipped']} left out" if count["skipped"] else ""
    return f"{count['passed']} of {ran}{skipped}" if ran or skipped else "not run"


def _figures(found: Sequence[Mapping[str, Sequence[float]]]) -> str:
    values: dict[str, list[float]] = {}
    for each in found:
        for what, numbers in each.items():
            values.setdefault(what, []).extend(numbers)
    return "; ".join(_span(what, numbers) for what, numbers in values.items())


def _span(named: str, numbers: Sequence[float]) -> str:
    what, comma, unit = named.rpartition(", ")
    if not comma:
        what, unit = named, ""
    low, high = f"{min(numbers):.3g}", f"{max(numbers):.3g}"
    if max(numbers) >= 1000:
        low, high = f"{min(numbers):,.0f}", f"{max(numbers):,.0f}"
    dash = " to " if min(numbers) < 0 else "\N{EN DASH}"
    return f"{what} {low if low == high else f'{low}{dash}{high}'} {unit}".rstrip()


def planted_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The bugs that were planted, and what saw them, as Markdown."""
    lines = ["| planted | caught by | scenarios | how it showed |", "| --- | --- | --- | --- |"]
    before = ""
    for row in rows:
        what = row["what"] if row["what"] != before else ""
        test, scenarios = row["test"].partition("::")[2], ", ".join(map(str, row["scenarios"]))
        shows = row["shows"] if row["caught"] else "**not seen**"
        lines.append(f"| {what} | `{test}` | {scenarios} | {shows} |")
        before = row["what"]
    return "\n".join(lines)


def into_page(text: str, page: str, markers: tuple[str, str]) -> str:
    """Put a table between two of the page's markers."""
    begin, end = markers
    pattern = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    assert pattern.search(page), f"{PAGE.name} has no {begin}"
    return pattern.sub(lambda _: f"{begin}\n{text}\n{end}", page)


def write(documents: Sequence[Any]) -> None:
    """Write what is known now into the page; what nothing is known of stays."""
    page = PAGE.read_text()
    if sessions := [Session(**each) for each in documents if isinstance(each, dict)]:
        page = into_page(table(sessions), page, RESULTS)
    if rows := [row for each in documents if isinstance(each, list) for row in each]:
        page = into_page(planted_table(rows), page, PLANTED)
    PAGE.write_text(page)


if __name__ == "__main__":
    write([json.loads(Path(path).read_text()) for path in sys.argv[1:]])
