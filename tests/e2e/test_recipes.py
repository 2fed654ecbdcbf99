"""Each recipe of examples/ works as it stands, with the daemon, the SDK and a scripted provider."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.integration.cli.user import SOURCE, User, empty_database, until

EXAMPLES = Path(__file__).parents[2] / "examples"
# A show is played by a test of its own.
RECIPES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "burn")
FILES = {"README.md", "agents.yaml", "replies.yaml", "rows.sql", "schema.sql"}
ROWS = 20

# Of each recipe: how many runs there are, and statements with what they select afterwards.
RESULTS: dict[str, tuple[int, dict[str, object]]] = {
    "triage": (20, {
        "select array[category, priority] from tickets where message like 'All our%'":
            ["bug", "urgent"],
        "select count(*) from tickets where category is null": 0,
    }),
    "enrich": (20, {
        "select segment from leads where company = 'Hooli'": "large",
        "select count(*) from leads where segment = 'unknown'": 19,
    }),
    "summarise": (20, {"select count(*) from documents where summary like 'It was%'": 20}),
    "moderate": (20, {
        "select count(*) from posts where state = 'published'": 19,
        "select author from bans": "bob",
        "select state from posts where author = 'bob'": "held",
    }),
    "extract": (20, {
        "select amount::text from invoices": "100.50",
        "select count(*) from mails where is_other": 19,
    }),
    "alert": (5, {"select count(*) from agent.run where state = 'succeeded'": 5}),
}  # fmt: skip


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A webhook, and what it received."""
    received = list[dict[str, object]]()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append({**json.loads(body), "token": self.headers["authorization"]})
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/alerts", received
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def provider(script: Path) -> Iterator[str]:
    """A provider that follows a script; its URL."""
    command = [sys.executable, "-m", "walagent.testing", "--script", str(script)]
    environment = {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            words = process.stdout.readline().split()
            yield words[words.index("anthropic") + 1]
        finally:
            process.kill()


def test_each_folder_is_complete_and_listed() -> None:
    """Schema, agents, rows, replies and a page, listed in the table."""
    listed = re.findall(r"\]\((\w+)/README\.md\)", (EXAMPLES / "README.md").read_text())
    assert sorted({*listed} - {"burn"}) == RECIPES == sorted(RESULTS)
    for name in RECIPES:
        assert {path.name for path in (EXAMPLES / name).iterdir()} == FILES


@pytest.mark.few(3)
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works_as_it_stands(
    name: str, server: str, tmp_path: Path, hook: tuple[str, list[dict[str, object]]]
) -> None:
    """Twenty rows, each processed once."""
    url, received = hook
    folder, (runs, results) = EXAMPLES / name, RESULTS[name]
    agents = (folder / "agents.yaml").read_text()
    agents += f"\nhttp: {{enabled: false}}\nreplication: {{slot: recipe_{name}}}\n"
    agents = agents.replace("    description: A", "    networks: [127.0.0.0/8]\n    description: A")
    with provider(folder / "replies.yaml") as base, empty_database(server) as dsn:
        keys = {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "fake-key"}
        user = User(tmp_path, dsn, {**keys, "ALERT_URL": url, "ALERT_TOKEN": "hook-token"})
        user.writes(agents)
        user.types("init").worked()
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute((folder / "schema.sql").read_bytes())
            try:
                with user.starts("run") as daemon:
                    _play(conn, folder, daemon.log, user, runs)
                    assert daemon.ends(signal.SIGTERM) == 0
                found = {query: _value(conn, query) for query in results}
                broken = _value(conn, "select count(*) from agent.broken_invariant")
            finally:
                if name == "moderate":
                    conn.execute("drop owned by moderator; drop role moderator")
    assert found == results
    assert broken == 0
    if name == "alert":
        assert sorted(str(each["event"]) for each in received) == ["1", "16", "19", "4", "6"]
        assert {each["token"] for each in received} == {"Bearer hook-token"}


@pytest.mark.slow
def test_the_role_of_compose_suffices(server: str, tmp_path: Path) -> None:
    """Not a superuser: it owns the database, replicates and may create the tools' login."""
    statements = (EXAMPLES.parent / "deploy" / "postgres" / "create-role").read_text()
    made = re.search(r"^create role walagent (.*) password", statements, re.MULTILINE)
    assert made is not None
    folder = EXAMPLES / "triage"
    agents = (folder / "agents.yaml").read_text()
    agents += "\nhttp: {enabled: false}\nreplication: {slot: recipe_role}\n"
    with (
        provider(folder / "replies.yaml") as base,
        empty_database(server) as dsn,
        psycopg.connect(dsn, autocommit=True) as admin,
    ):
        name = admin.info.dbname
        admin.execute(f"create role recipe_daemon {made[1]}".encode())
        admin.execute(f"alter database {name} owner to recipe_daemon".encode())
        own = make_conninfo(dsn, user="recipe_daemon")
        keys = {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "fake-key"}
        user = User(tmp_path, own, keys)
        user.writes(agents)
        try:
            user.types("init").worked()
            with psycopg.connect(own, autocommit=True) as conn:
                conn.execute((folder / "schema.sql").read_bytes())
                with user.starts("run") as daemon:
                    _play(conn, folder, daemon.log, user, ROWS)
                    assert daemon.ends(signal.SIGTERM) == 0
        finally:
            admin.execute(f"alter database {name} owner to current_user".encode())
            admin.execute(b"reassign owned by recipe_daemon to current_user")
            admin.execute(b"drop owned by recipe_daemon; drop role recipe_daemon")


def _play(conn: psycopg.Connection[Any], folder: Path, log: Path, user: User, runs: int) -> None:
    """Insert the rows, approve what waits, and wait for every run."""
    until(conn, "select bool_and(active_from is not null) from agent.attachment_version")
    assert conn.execute((folder / "rows.sql").read_bytes()).rowcount == ROWS
    ended = "count(*) filter (where agent_internal.is_final(state) or state = 'waiting_approval')"
    until(conn, f"select {ended} = {runs} from agent.run")
    for row in conn.execute("select id from agent.pending_approval").fetchall():
        user.types("approvals", "approve", str(row[0])).worked()
    until(conn, f"select count(*) = {runs} from agent.run where agent_internal.is_final(state)")
    states = conn.execute(
        "select distinct state::text, error ->> 'reason' from agent.run"
    ).fetchall()
    assert states == [("succeeded", None)], log.read_text()


def _value(conn: psycopg.Connection[Any], query: str) -> object:
    row = conn.execute(query.encode()).fetchone()
    return row and row[0]
