"""What the pages for developers name exists: files, functions, classes, SQL functions and tests."""

import re
from pathlib import Path

import pytest

from tests.docs_pages import ROOT, code, prose, rows, section

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
GUARANTEES = ROOT / "docs" / "guarantees.md"
PAGES = pytest.mark.parametrize(
    "page", [ARCHITECTURE, ROOT / "CONTRIBUTING.md", GUARANTEES], ids=lambda page: page.name
)
SOURCE = ROOT / "src" / "walagent"
SQL = "\n".join(p.read_text() for p in sorted((ROOT / "migrations").rglob("*.sql")))
FILE = re.compile(r"[\w/.-]+\.(py|sql|toml|tsx?)|[\w/]+/")
SETTINGS = {"wal_sender_timeout"}  # of PostgreSQL


def _find(name: str) -> Path | None:
    """Find the file or folder that a name in backticks refers to."""
    places = (ROOT / name, SOURCE / name, ROOT / "migrations" / name)
    return next((place for place in places if place.exists()), None)


def _files(page: Path) -> list[str]:
    return [name for name in code(prose(page)) if FILE.fullmatch(name)]


def test_the_names_are_found() -> None:
    """The tests below have something to check."""
    assert len(_files(ARCHITECTURE)) > 40


@PAGES
def test_every_file_that_is_named_exists(page: Path) -> None:
    """A moved module is noticed."""
    assert [name for name in _files(page) if _find(name) is None] == []


@PAGES
def test_every_name_after_a_file_is_defined_in_it(page: Path) -> None:
    """`file` `name` `name` …: each of the names is a definition in that file."""
    for cells in rows(prose(page)):
        for cell in cells:
            _check(code(cell))


def _check(names: list[str]) -> None:
    text, file = "", ""
    for name in names:
        if FILE.fullmatch(name):
            path = _find(name)
            assert path is not None, name
            text, file = (path.read_text() if path.is_file() else ""), name
        elif text and re.fullmatch(r"[A-Za-z_]\w+", name) and name not in SETTINGS:
            defined = re.search(rf"^\s*(async def|def|class) {name}\b", text, re.MULTILINE)
            assert defined, f"{file} defines no {name}"


@PAGES
def test_every_sql_function_that_is_named_exists(page: Path) -> None:
    """`agent.…`, `agent_internal.…` and `agent_signed.…` are objects of the migrations."""
    named = re.compile(r"agent(_internal|_signed)?\.[a-z_]+")
    for name in {n for n in code(prose(page)) if named.fullmatch(n)}:
        kinds = "function|table|view|type"
        assert re.search(rf"create (or replace )?({kinds}) {re.escape(name)}\b", SQL), name


def test_every_promise_names_a_test() -> None:
    """A promise without a test is a hope."""
    promises = rows(section(GUARANTEES, "Promises"))
    assert len(promises) > 5
    for _, promise, _, test in promises:
        assert any(name.startswith("test_") for name in code(test)), promise
