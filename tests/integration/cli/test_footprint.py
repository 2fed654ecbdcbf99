"""What a daemon costs the server beside its work: connections, and statements while it is idle."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.user import AGENTS, DESK, User, until
from tests.servers import SETTINGS
from walagent.embedded.server import EmbeddedServer

SCRIPT = {"replies": [{"call": "update_row", "arguments": {"status": "seen"}}, "Done."]}
CONNECTIONS = 4  # workers.connections
FILE = """
models:
  script: {{provider: scripted, base_url: {folder}/script.json}}
http: {{enabled: false}}
log: {{format: json}}
workers: {{connections: {connections}, slots: 100}}
"""
OPEN = """
select coalesce(nullif(application_name, ''), backend_type), count(*)
  from pg_stat_activity
 where datname = current_database() and application_name like 'walagent%' group by 1
"""
EACH = {"walagent worker": CONNECTIONS, "walagent tools": CONNECTIONS}
IN_ALL = 2 * CONNECTIONS + 10
SECONDS = 30
# What checks once in half a minute can come in one more time.
SPARE = 6
COUNTING: Mapping[str, str] = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "top",
    "autovacuum": "off",
}
STATEMENTS = """
select sum(s.calls)::integer,
       string_agg(s.calls || ' ' || left(s.query, 200), e'\\n' order by s.calls desc)
  from pg_stat_statements s join pg_database d on d.oid = s.dbid and d.datname = current_database()
"""
WRITES = """
select count(*) from pg_get_wal_records_info(%s::pg_lsn, pg_current_wal_flush_lsn())
 where resource_manager = 'Transaction' and record_type like 'COMMIT%%'
"""
LSN = "select pg_current_wal_flush_lsn()::text"


def user_of(folder: Path, dsn: str) -> User:
    """Somebody with a support desk, and a file whose model follows a script."""
    with psycopg.connect(dsn) as conn:
        conn.execute(DESK)
    user = User(folder, dsn)
    user.writes(json.dumps(SCRIPT), "script.json")
    settings = FILE.format(folder=folder, connections=CONNECTIONS)
    user.writes(AGENTS.replace("gpt-4o", "script") + settings)
    return user


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """A server of its own, which counts statements."""
    folder = tmp_path_factory.mktemp("site")
    server = EmbeddedServer(folder / "pg", settings={**SETTINGS, **COUNTING})
    asyncio.run(server.start())
    try:
        yield user_of(folder, server.dsn())
    finally:
        asyncio.run(server.stop())


@contextmanager
def most_at_once(dsn: str) -> Iterator[Counter[str]]:
    """The most connections of each name, and of all, while the block is executed."""
    most, ended = Counter[str](), threading.Event()

    def look() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not ended.wait(0.01):
                now = dict(conn.execute(OPEN.encode()).fetchall())
                for name, count in [*now.items(), ("all", sum(now.values()))]:
                    most[name] = max(most[name], count)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        ended.set()
        looking.join()


@pytest.mark.slow
def test_a_daemon_has_as_many_connections_as_the_documentation_says(site: User) -> None:
    """However many slots it has, and runs in progress."""
    assert site.dsn is not None
    with site.starts("run") as daemon, psycopg.connect(site.dsn, autocommit=True) as conn:
        daemon.says('"reader.streaming"')  # before, those that start it come and go
        with most_at_once(site.dsn) as most:
            conn.execute(
                "insert into support_tickets (customer, issue)"
                " select 'a', 'b' from generate_series(1, 300)"
            )
            until(conn, "select count(*) >= 300 from agent.run where state = 'succeeded'")
    assert all(1 <= most[name] <= limit for name, limit in EACH.items()), most
    several = {name for name, count in most.items() if count > 1} - EACH.keys() - {"all"}
    assert several == set(), most
    assert most["all"] <= IN_ALL, most


@pytest.mark.slow
def test_an_idle_daemon_executes_one_statement_a_second_and_writes_nothing(site: User) -> None:
    """On a server with nothing to do it must not keep a processor awake, nor fill an archive."""
    assert site.dsn is not None
    with (
        site.starts("run") as daemon,
        psycopg.connect(site.dsn, autocommit=True, prepare_threshold=None) as conn,
    ):
        conn.execute("set pg_stat_statements.track = 'none'")
        conn.execute("create extension if not exists pg_stat_statements")
        conn.execute("create extension if not exists pg_walinspect")
        daemon.says('"reader.streaming"')
        conn.execute("insert into support_tickets (customer, issue) values ('idle', 'b')")
        until(
            conn,
            "select count(*) = 1 from agent.run"
            " where change #>> '{new,customer}' = 'idle' and state = 'succeeded'",
        )
        conn.execute("select pg_sleep(12)")  # what follows a run is done
        conn.execute("select pg_stat_statements_reset()")
        (start,) = conn.execute(LSN).fetchone() or ("",)
        conn.execute("select pg_sleep(%s)", [SECONDS])
        (calls, which) = conn.execute(STATEMENTS.encode()).fetchone() or (0, "")
        assert calls <= SECONDS + SPARE, which
        if conn.execute(LSN).fetchone() != (start,):
            (writes,) = conn.execute(WRITES, [start]).fetchone() or (0,)
            assert writes <= 1  # that the worker was seen
