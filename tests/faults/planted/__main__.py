"""Plant each bug in a copy of the source and see the tests fail for it.

    python -m tests.faults.planted RESULTS [BUG...]

The copy is outside of this tree, with its own tests, migrations and daemons.  First all chosen
tests must pass on a copy without a bug.  Then each bug must let the control test pass, which meets
no fault, and make at least one of its tests fail with the words expected of it.  Ends with 1 if one
of that is not so; RESULTS gets what was seen, for `python -m tests.faults.rig.report`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.faults.planted.bugs import BUGS, CONTROL, Bug, Catch
from tests.faults.planted.marks import apply_edits, read_source

ROOT = Path(__file__).parents[3]
COPIED = ("src", "tests", "migrations", "config", "pyproject.toml")
PATIENCE = 900.0  # seconds for the tests of one bug; some wait for their deadline
WHERE = "import walagent; print(walagent.__file__)"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one test."""

    failure: str  # empty when it has passed
    scenarios: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A bug that was planted, and a test that was to catch it; a row of the table."""

    bug: str
    what: str
    test: str
    scenarios: tuple[int, ...]
    shows: str
    caught: bool


class Copy:
    """The source in a folder of its own."""

    def __init__(self, folder: Path, of: Path) -> None:
        """Copy the source below *of*."""
        self.root = folder
        for name in COPIED:
            source = of / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, folder / name)

    def plant(self, bug: Bug) -> None:
        """Put a bug into it; raises LookupError if the source lacks one of its marks."""
        for path, text in apply_edits(bug.edits, read_source(self.root)).items():
            (self.root / path).write_text(text)

    def run(self, tests: Iterable[str]) -> dict[str, Outcome]:
        """Run tests against it, and nothing else of ours."""
        assert self._python("-c", WHERE).stdout.startswith(str(self.root)), "another source is used"
        report = self.root / "report.xml"
        result = self._python("-m", "pytest", "-q", *tests, f"--junitxml={report}", *_QUIETLY)
        outcomes = dict(_outcomes(report)) if report.exists() else {}
        missing = [test for test in tests if test not in outcomes]
        assert not missing, (
            f"{missing} did not run:\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
        )
        return outcomes

    def _python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join((str(self.root / "src"), str(self.root)))
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**_environment(), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )


_QUIETLY = ("-p", "no:cacheprovider", "-o", "junit_family=xunit1")


def _environment() -> dict[str, str]:
    """Ours, without what would have the tests write elsewhere."""
    return {k: v for k, v in os.environ.items() if k != "WALAGENT_FAULT_REPORT"}


def _outcomes(report: Path) -> Iterable[tuple[str, Outcome]]:
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest has written it
        test = f"{case.get('file')}::{case.get('name')}"
        wrong = [found for tag in ("failure", "error", "skipped") for found in case.iter(tag)]
        texts = (f"{found.get('message')}\n{found.text}" for found in wrong)
        properties = {p.get("name"): p.get("value") or "" for p in case.iter("property")}
        numbers = re.findall(r"\d+", properties.get("scenarios", ""))
        yield test, Outcome("\n".join(texts), tuple(map(int, numbers)))


def is_sound(sound: Copy, bugs: Sequence[Bug]) -> bool:
    """Whether all chosen tests pass where nothing is planted."""
    tests = dict.fromkeys([CONTROL, *(each.test for bug in bugs for each in bug.caught_by)])
    outcomes = sound.run(tests)
    for test, outcome in outcomes.items():
        if outcome.failure:
            _say(f"fails without any bug: {test}\n{outcome.failure[-3000:]}")
    return not any(outcome.failure for outcome in outcomes.values())


def look_for(bug: Bug, sound: Copy) -> list[Seen]:
    """Plant a bug, run the tests that must see it, and say which did.

    Args:
        sound: the source without it, of which another copy is made.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"walagent-{bug.name}-") as folder:
        copy = Copy(Path(folder), sound.root)
        copy.plant(bug)
        outcomes = copy.run([CONTROL, *(each.test for each in bug.caught_by)])
    if broken := outcomes.pop(CONTROL).failure:
        _say(f"{bug.name} breaks more than was meant: {CONTROL} fails\n{broken[-3000:]}")
    seen = [_seen(bug, each, outcomes[each.test], meant=not broken) for each in bug.caught_by]
    for row in seen:
        _say(f"{bug.name:32} {'caught' if row.caught else 'NOT SEEN':9} {row.test}: {row.shows}")
    _say(f"{'':32} {time.monotonic() - started:.0f} s")
    return seen


def _seen(bug: Bug, catch: Catch, outcome: Outcome, *, meant: bool) -> Seen:
    caught = meant and re.search(catch.pattern, outcome.failure) is not None
    if outcome.failure and not caught:
        _say(f"fails for another reason: {catch.test}\n{outcome.failure[-3000:]}")
    return Seen(bug.name, bug.what, catch.test, outcome.scenarios, catch.shows, caught)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(results: str, *names: str) -> int:
    """Plant all bugs, or those with these *names*."""
    unknown = set(names) - {bug.name for bug in BUGS}
    if unknown:
        _say(f"there is no bug {', '.join(unknown)}; there are {', '.join(b.name for b in BUGS)}")
        return 2
    bugs = [bug for bug in BUGS if not names or bug.name in names]
    with tempfile.TemporaryDirectory(prefix="walagent-sound-") as folder:
        sound = Copy(Path(folder), ROOT)  # once: the source may be worked on meanwhile
        if not is_sound(sound, bugs):
            return 1
        seen = [row for bug in bugs for row in look_for(bug, sound)]
    path = Path(results)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in seen], indent=1))
    missed = {bug.name for bug in bugs} - {row.bug for row in seen if row.caught}
    if missed:
        _say(f"not caught: {', '.join(sorted(missed))}")
    return int(bool(missed))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main(*sys.argv[1:]))
