"""The files of the schema: each object has one definition, in the folder of its noun."""

import re
from collections import Counter
from pathlib import Path

import pytest

from walagent.store.install.files import SchemaFile, find_files

ROOT = Path(__file__).parents[3]
FILES = find_files()
DEFINES = re.compile(
    r"^create (?P<how>or replace )?(?P<kind>function|view) (?P<name>[\w.]+)(?P<rest>\([^)]*\))?",
    re.MULTILINE,
)
# What only a new database gets stands in no file of code, and the other way round.
STATE = re.compile(
    r"^(create (table|type|sequence|index|unique index|schema|publication)|insert)", re.MULTILINE
)
GRANTS = re.compile(r"^insert into agent_internal\.(privilege|owner_function) ", re.MULTILINE)
# A loop that makes objects hides them from who searches.
HIDDEN = re.compile(r"^do \$", re.MULTILINE)


def test_a_function_or_view_has_one_definition() -> None:
    """Who searches for it finds the text that is in force."""
    found = Counter(
        (m["kind"], m["name"], m["rest"])
        for file in FILES.schema
        for m in DEFINES.finditer(file.script.decode())
    )
    assert [name for name, count in found.items() if count > 1] == []


def test_each_folder_is_a_noun_of_the_order() -> None:
    """A folder that is not listed would not be applied."""
    folder = ROOT / "migrations" / "schema"
    nouns = (folder / "order").read_text("utf-8").split()
    assert sorted(nouns) == sorted(path.name for path in folder.iterdir() if path.is_dir())
    files = {str(path.relative_to(folder.parent)) for path in folder.rglob("*.sql")}
    assert {file.name for file in FILES.schema} == files


@pytest.mark.parametrize("file", FILES.schema, ids=lambda file: file.name)
def test_a_file_has_state_or_code(file: SchemaFile) -> None:
    """An upgrade applies code again: it replaces what is there."""
    script = file.script.decode()
    defined = list(DEFINES.finditer(script))
    assert not HIDDEN.search(script)
    if file.is_state:
        assert not defined
    else:
        assert [m["name"] for m in defined if not m["how"]] == []
        assert not STATE.search(GRANTS.sub("", script))


def test_upgrades_are_numbered_and_end_no_transaction() -> None:
    """They are applied in the order of their names, and commit with the code."""
    names = [Path(file.name).name for file in FILES.upgrades]
    assert [name for name in names if not re.fullmatch(r"\d{4}_\w+\.sql", name)] == []
    assert len({name[:4] for name in names}) == len(names)
    ends = re.compile(
        r"^\s*(commit|rollback|begin|end|start transaction)\b[^;]*;", re.MULTILINE | re.IGNORECASE
    )
    for file in FILES.upgrades:
        outside = re.sub(r"\$\$.*?\$\$", "", file.script.decode(), flags=re.DOTALL)
        assert not ends.search(outside), file.name
