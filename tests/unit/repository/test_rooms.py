"""The rooms of the source: none too full, no name that says nothing, no module too long."""

from collections import Counter
from pathlib import Path

from tests.docs_pages import ROOT

SOURCE = ROOT / "src" / "walagent"
MODULES = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))]
MOST_SIDE_BY_SIDE = 32
MOST_WITH_ONE_NAME = 4
MOST_LINES = 420


def test_no_room_is_too_full() -> None:
    """A reader can see what is in a folder."""
    count = Counter(str(path.parent) for path in MODULES if path.name != "__init__.py")
    assert {room for room, n in count.items() if n > MOST_SIDE_BY_SIDE} == set()


def test_no_name_stands_for_five_things() -> None:
    """`model.py` in five folders says nothing in a traceback or a list of files."""
    count = Counter(path.name for path in MODULES if path.name != "__init__.py")
    assert {name: n for name, n in count.items() if n > MOST_WITH_ONE_NAME} == {}


def test_no_module_is_too_long() -> None:
    """A module has one purpose."""
    assert [str(path) for path in MODULES if _lines(path) > MOST_LINES] == []


def _lines(path: Path) -> int:
    return len((SOURCE / path).read_text().splitlines())
