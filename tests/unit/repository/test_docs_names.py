"""What ARCHITECTURE.md names is there: files, functions, classes, SQL functions and tests."""

import re
from pathlib import Path

from tests.docs_pages import ROOT, code, prose, rows, section

PAGE = ROOT / "ARCHITECTURE.md"
SOURCE = ROOT / "src" / "walagent"
SQL = "\n".join(p.read_text() for p in sorted((ROOT / "migrations").glob("*.sql")))
FILE = re.compile(r"[\w/.-]+\.(py|sql|toml)|[\w/]+/")


def _find(name: str) -> Path | None:
    """The file or folder that a name in backticks stands for."""
    places = (ROOT / name, SOURCE / name, ROOT / "migrations" / name)
    return next((place for place in places if place.exists()), None)


def test_every_file_that_is_named_exists() -> None:
    """A moved module is noticed."""
    named = [name for name in code(prose(PAGE)) if FILE.fullmatch(name)]
    assert len(named) > 40, "the pattern finds the names"
    assert [name for name in named if _find(name) is None] == []


def test_every_name_after_a_file_is_defined_in_it() -> None:
    """`file` `name` `name` …: each of the names is a definition in that file."""
    for cells in rows(prose(PAGE)):
        for cell in cells:
            _check(code(cell))


def _check(names: list[str]) -> None:
    text, file = "", ""
    for name in names:
        if FILE.fullmatch(name):
            path = _find(name)
            assert path is not None, name
            text, file = (path.read_text() if path.is_file() else ""), name
        elif text and re.fullmatch(r"[A-Za-z_]\w+", name) and name != "wal_sender_timeout":
            defined = re.search(rf"^\s*(async def|def|class) {name}\b", text, re.MULTILINE)
            assert defined, f"{file} defines no {name}"


def test_every_sql_function_that_is_named_exists() -> None:
    """`agent.…` is a function, table or view of the migrations."""
    for name in {n for n in code(prose(PAGE)) if re.fullmatch(r"agent\.[a-z_]+", n)}:
        kinds = "function|table|view|type"
        assert re.search(rf"create (or replace )?({kinds}) {re.escape(name)}\b", SQL), name


def test_every_promise_names_a_test() -> None:
    """A promise that nothing holds is none."""
    for promise, _, held in rows(section(PAGE, "The promises, and the tests that hold them")):
        assert any(name.startswith("test_") for name in code(held)), promise
