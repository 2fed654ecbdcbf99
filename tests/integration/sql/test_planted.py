"""The bugs that `make planted` plants in migrations leave SQL that PostgreSQL accepts."""

from pathlib import Path

import psycopg

from tests.faults.planted.bugs import BUGS
from tests.faults.planted.marks import apply_edits, read_source
from tests.integration.cli.user import empty_database

ROOT = Path(__file__).parents[3]


def test_migrations_with_planted_bugs_can_be_applied(server: str) -> None:
    """All of them at once: each has marks of its own."""
    source = read_source(ROOT)
    planted = apply_edits({edit for bug in BUGS for edit in bug.edits}, source)
    migrations = sorted(path for path in source if path.parts[0] == "migrations")
    assert set(migrations) & planted.keys()
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        for path in migrations:
            conn.execute((planted.get(path) or source[path]).encode())
