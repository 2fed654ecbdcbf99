"""Which migrations are due: a decision without a database."""

import pytest

from walagent.app.migrate import due
from walagent.errors import PreconditionError
from walagent.store.migrations import Applied, Migration, find_migrations

KNOWN = [
    Migration("0001_a.sql", b"a"),
    Migration("0002_b.sql", b"b"),
    Migration("0003_c.sql", b"c"),
]


def applied(*names: str) -> list[Applied]:
    """Say that these were applied as they are."""
    return [Applied(m.name, m.digest) for m in KNOWN if m.name in names]


def test_what_was_not_applied_is_due_in_order() -> None:
    """From nothing, from the middle, from the end."""
    assert due(KNOWN, []) == KNOWN
    assert due(KNOWN, applied("0001_a.sql")) == KNOWN[1:]
    assert due(KNOWN, applied(*(m.name for m in KNOWN))) == []


def test_an_edited_migration_is_refused() -> None:
    """What the file says now is not what the database has."""
    with pytest.raises(PreconditionError, match=r"0001_a\.sql differs"):
        due(KNOWN, [Applied("0001_a.sql", "0" * 64)])


def test_a_database_of_a_newer_version_is_refused() -> None:
    """An old program must not write into a schema that it does not know."""
    with pytest.raises(PreconditionError, match=r"0004_d\.sql") as caught:
        due(KNOWN, [*applied("0001_a.sql"), Applied("0004_d.sql", "0" * 64)])
    assert "Upgrade" in caught.value.hint


def test_a_hole_is_refused() -> None:
    """A later file may rest on the one that is missing."""
    with pytest.raises(PreconditionError, match=r"0002_b\.sql was not applied"):
        due(KNOWN, applied("0001_a.sql", "0003_c.sql"))


def test_the_migrations_are_found() -> None:
    """In this checkout or in the wheel, in their order."""
    names = [migration.name for migration in find_migrations()]
    assert names == sorted(names)
    assert names[0] == "0001_overview.sql"
