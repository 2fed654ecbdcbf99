"""What a database lacks of the schema: a decision without a database."""

import pytest

from walagent.errors import PreconditionError
from walagent.store.install.files import SchemaFile, SchemaFiles, find_files
from walagent.store.install.plan import Applied, plan_of

TABLES = SchemaFile("schema/run/tables.sql", b"tables")
CODE = SchemaFile("schema/run/claim.sql", b"claim")
VIEWS = SchemaFile("schema/run/views.sql", b"views")
ONE, TWO = SchemaFile("upgrades/0001_a.sql", b"a"), SchemaFile("upgrades/0002_b.sql", b"b")
FILES = SchemaFiles([TABLES, CODE, VIEWS], [ONE, TWO])


def applied(*files: SchemaFile, version: str = "0.2.0") -> dict[str, Applied]:
    """Say that these were applied as they are."""
    return {file.name: Applied(file.digest, version) for file in files}


def test_an_empty_database_gets_everything() -> None:
    """By one name."""
    assert plan_of(FILES, {}, "0.2.0").names == ["schema"]


def test_a_database_that_has_everything_lacks_nothing() -> None:
    """Tables are not on record: upgrades are."""
    assert not plan_of(FILES, applied(ONE, TWO, CODE, VIEWS), "0.2.0")


def test_upgrades_come_before_code() -> None:
    """What is missing, what has another text, and what is no longer there."""
    gone = SchemaFile("schema/run/gone.sql", b"gone")
    before = applied(ONE, SchemaFile(CODE.name, b"before"), VIEWS, gone)
    plan = plan_of(FILES, before, "0.2.0")
    assert plan.names == [TWO.name, CODE.name, gone.name]
    assert "upgrades/0002_b.sql and 2 more files" in plan.text


def test_an_edited_upgrade_is_refused() -> None:
    """What the file says now is not what the database has."""
    edited = SchemaFile(ONE.name, b"edited")
    with pytest.raises(PreconditionError, match=r"0001_a\.sql differs"):
        plan_of(FILES, applied(edited, TWO, CODE, VIEWS), "0.2.0")


@pytest.mark.parametrize("version", ["0.2.1", "0.10.0", "1.0.0"])
def test_a_database_of_a_newer_version_is_refused(version: str) -> None:
    """An old program must not replace what a newer one has written."""
    with pytest.raises(PreconditionError, match=version) as caught:
        plan_of(FILES, applied(ONE, TWO, CODE, version=version), "0.2.0")
    assert "Upgrade" in caught.value.hint


def test_an_unknown_upgrade_is_refused() -> None:
    """Also one of the same version, such as another checkout."""
    more = SchemaFile("upgrades/0003_c.sql", b"c")
    with pytest.raises(PreconditionError, match=r"0003_c\.sql"):
        plan_of(FILES, applied(ONE, TWO, more, CODE, VIEWS), "0.2.0")


def test_the_files_are_found() -> None:
    """In this checkout or in the wheel: state before the code that uses it, grants last."""
    kinds = [file.kind for file in find_files().schema]
    assert kinds[0] == "types"
    assert kinds[-1] == "grants"
    assert kinds.index("tables") < kinds.index("functions") < kinds.index("triggers")
