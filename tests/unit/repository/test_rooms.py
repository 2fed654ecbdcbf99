"""The rooms of the source: none too full, no name that says nothing, no module too long."""

from collections import Counter
from pathlib import Path

from tests.docs_pages import ROOT

SOURCE = ROOT / "src" / "walagent"
MODULES = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))]
MOST_SIDE_BY_SIDE = 32
MOST_WITH_ONE_NAME = 4
MOST_LINES = 420
MOST_LINES_OF_THE_CONSOLE = 300


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


def test_no_file_of_the_console_is_too_long() -> None:
    """A page shows one thing."""
    pages = ROOT / "web" / "src"
    files = [each for kind in ("ts", "tsx") for each in pages.rglob(f"*.{kind}")]
    long = {str(each.relative_to(pages)): len(each.read_text().splitlines()) for each in files}
    assert {name: n for name, n in long.items() if n > MOST_LINES_OF_THE_CONSOLE} == {}
    assert len(files) > 100


def _lines(path: Path) -> int:
    return len((SOURCE / path).read_text().splitlines())
