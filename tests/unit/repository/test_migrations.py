"""What was released is not edited, and what is not released defines a function once."""

import re
from collections import Counter
from pathlib import Path

from walagent.store.migrations import find_migrations

GOLDEN = Path(__file__).parents[2] / "golden"
FUNCTION = re.compile(r"^create (?:or replace )?function ([\w.]+\([^)]*\))", re.MULTILINE)


def released() -> dict[str, str]:
    """The digest of each released migration, by name."""
    lines = (GOLDEN / "released_migrations.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines)


def test_a_released_migration_is_as_it_was_released() -> None:
    """A database that has it would refuse the edited one."""
    found = {each.name: each.digest for each in find_migrations()}
    assert {name: found.get(name) for name in released()} == released()


def test_a_function_is_defined_once_in_what_is_not_released() -> None:
    """Of two definitions, the later file's would win, whatever the earlier one says."""
    new = [each for each in find_migrations() if each.name not in released()]
    defined = Counter(
        name for each in new for name in set(FUNCTION.findall(each.script.decode("utf-8")))
    )
    assert [name for name, files in defined.items() if files > 1] == []
