"""`docs/stability.md` lists what is public, and nothing that does not exist."""

import re
from importlib import import_module

import pytest

from tests.docs_pages import ROOT, code, rows, section

PAGE = ROOT / "docs" / "stability.md"
SQL = "\n".join(p.read_text() for p in sorted((ROOT / "migrations").rglob("*.sql")))
CREATED = re.compile(r"create (?:or replace )?(function|view|table) agent\.(\w+)")


MODULES = ["walagent", "walagent.moves", "walagent.providers", "walagent.testing", "walagent.tools"]


@pytest.mark.parametrize("module", MODULES)
def test_every_export_is_listed(module: str) -> None:
    """An export is promised on purpose, and a promised name is exported."""
    listed = {code(name)[0]: code(names) for name, names in rows(section(PAGE, "Python"))}
    assert sorted(listed[module]) == sorted(import_module(module).__all__)


def test_every_object_of_the_public_schema_is_listed() -> None:
    """What is created in `agent` is promised on purpose; the rest belongs in `agent_internal`."""
    listed = {
        (kind.split()[0].rstrip("s"), n) for kind, c in rows(section(PAGE, "SQL")) for n in code(c)
    }
    assert listed == set(CREATED.findall(SQL))
