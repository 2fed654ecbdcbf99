"""The bugs that `make planted` plants in the schema leave SQL that PostgreSQL accepts."""

from dataclasses import replace
from pathlib import Path

from psycopg import AsyncConnection

from tests.faults.planted.bugs import BUGS
from tests.faults.planted.marks import apply_edits, read_source
from tests.integration.cli.user import empty_database
from walagent.store.install.files import find_files
from walagent.store.install.migrate import migrate

ROOT = Path(__file__).parents[3]


async def test_a_schema_with_planted_bugs_can_be_created(server: str) -> None:
    """All of them at once: each has marks of its own."""
    planted = apply_edits({edit for bug in BUGS for edit in bug.edits}, read_source(ROOT))
    files = find_files()
    changed = {
        file.name: planted[path].encode()
        for file in files.schema
        if (path := Path("migrations", file.name)) in planted
    }
    assert changed
    schema = [replace(file, script=changed.get(file.name, file.script)) for file in files.schema]
    with empty_database(server) as dsn:
        async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
            await migrate(conn, replace(files, schema=schema))
