"""`walagent database uninstall`: everything of walagent goes, and nothing else."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.integration.cli.user import DESK, PATIENCE, User, empty_database
from walagent.config import Embedded
from walagent.demo.database import open_database
from walagent.embedded.server import EmbeddedServer

OURS = """
select (select count(*) from pg_namespace where nspname ~ '^(agent|aos_)')
       + (select count(*) from pg_publication)
       + (select count(*) from pg_replication_slots where database = current_database())
"""


@pytest.fixture
def user(server: str, tmp_path: Path) -> Iterator[User]:
    """Somebody with a table, and slots and roles of their own."""
    with empty_database(server) as dsn:
        own = f"uninstall_{uuid4().hex[:8]}"
        user = User(tmp_path, dsn)
        user.writes(
            f"replication: {{slot: {own}}}\nhttp: {{enabled: false}}\nlog: {{format: json}}\n"
            f"ask: {{role: {own}}}\n"
        )
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(DESK)
            yield user
            if exists(conn, own):
                conn.execute(sql.SQL("drop owned by {}").format(sql.Identifier(own)))
            conn.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(own)))


def role_of(user: User) -> str:
    """The analyst of this test."""
    return (user.folder / "agents.yaml").read_text().split("role: ")[1].split("}")[0]


def exists(conn: psycopg.Connection, role: str) -> bool:
    """Whether there is such a role."""
    return conn.execute("select from pg_roles where rolname = %s", [role]).fetchone() is not None


def value(dsn: str | None, query: str) -> object:
    """Ask the database."""
    with psycopg.connect(dsn or "", autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
    return row and row[0]


def test_nothing_of_walagent_stays(user: User) -> None:
    """Slot, publications, schemas, the role that it created, and views on its tables."""
    user.types("database", "setup").worked()
    user.types("database", "pgagentos", "install").worked()
    assert value(user.dsn, OURS) != 0
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("create view public.my_runs as select id from agent.run")
        conn.execute("insert into support_tickets (customer, issue) values ('ada', 'slow')")
        done = user.types("database", "uninstall", "--yes").worked()
        assert not exists(conn, role_of(user))
    ours = ("slot", "publication walagent", "schema agent", "schema aos_core", "role")
    for name in (*ours, "view public.my_runs"):
        assert name in done.out
    assert "view aos" not in done.out  # not as something of others
    assert value(user.dsn, OURS) == 0
    assert value(user.dsn, "select count(*) from support_tickets") == 1
    again = user.types("database", "uninstall", "--yes").worked()
    assert "nothing" in again.err
    user.types("init").worked()


@pytest.mark.slow
def test_the_login_for_tools_goes_also_if_another_role_created_it(user: User) -> None:
    """On PostgreSQL 16 or newer that role is a member of it."""
    user.types("init").worked()
    creator = sql.Identifier(f"{role_of(user)}_creator")
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        login = str(value(user.dsn, "select agent_internal.tools_login()"))
        conn.execute(sql.SQL("create role {} createrole").format(creator))
        try:
            conn.execute(sql.SQL("grant {} to {}").format(sql.Identifier(login), creator))
            done = user.types("database", "uninstall", "--yes").worked()
            assert login in done.out
            assert not exists(conn, login)
        finally:
            conn.execute(sql.SQL("drop role {}").format(creator))


@pytest.mark.slow
def test_it_is_shown_before_it_is_dropped(user: User) -> None:
    """Without a yes, nothing has happened."""
    user.types("init").worked()
    before = value(user.dsn, OURS)
    refused = user.types("database", "uninstall", stdin="n\n")
    assert refused.code == 1
    assert "schema agent" in refused.out
    assert value(user.dsn, OURS) == before


@pytest.mark.slow
def test_a_removal_that_fails_leaves_the_slot(user: User) -> None:
    """Its position cannot be restored, so it goes last."""
    user.types("init").worked()
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute(
            "create function refuse() returns event_trigger language plpgsql as"
            " $$ begin raise 'not now'; end $$"
        )
        conn.execute(
            "create event trigger refuse on ddl_command_start"
            " when tag in ('DROP PUBLICATION') execute function refuse()"
        )
    before = value(user.dsn, OURS)
    assert "not now" in user.types("database", "uninstall", "--yes").err
    assert value(user.dsn, OURS) == before


@pytest.mark.slow
def test_a_daemon_is_not_left_without_its_schema(user: User) -> None:
    """Exit 3, and which process is in the way."""
    with user.starts("run") as daemon:
        daemon.says('"reader.streaming"')
        before = value(user.dsn, OURS)
        refused = user.types("database", "uninstall", "--yes")
    assert refused.code == 3
    assert "PID" in refused.err
    assert value(user.dsn, OURS) == before


@pytest.mark.slow
def test_a_worker_that_starts_during_the_question_is_not_left_without_it(user: User) -> None:
    """The answer can take minutes."""
    user.types("init").worked()
    before = value(user.dsn, OURS)
    with subprocess.Popen(
        [sys.executable, "-m", "walagent", "database", "uninstall"],
        cwd=user.folder,
        env=user.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline().startswith("  slot")
        with psycopg.connect(user.dsn or "", application_name="walagent worker"):
            _, said = asking.communicate("y\n", timeout=PATIENCE)
    assert asking.returncode == 3
    assert "walagent worker, PID" in said
    assert value(user.dsn, OURS) == before


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["theirs", "member", "elsewhere"])
def test_a_role_that_somebody_uses_stays(user: User, server: str, kind: str) -> None:
    """One that walagent did not create, has a member, or has privileges in another database."""
    role = sql.Identifier(role_of(user))
    member = sql.Identifier(f"{role_of(user)}_member")
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        if kind == "theirs":
            conn.execute(sql.SQL("create role {}").format(role))
        user.types("database", "setup", "--no-slot").worked()
        if kind == "member":
            conn.execute(sql.SQL("create role {}; grant {} to {}").format(member, role, member))
        with empty_database(server) as other, psycopg.connect(other, autocommit=True) as there:
            if kind == "elsewhere":
                there.execute(sql.SQL("grant usage on schema public to {}").format(role))
            user.types("database", "uninstall", "--yes").worked()
            assert exists(conn, role_of(user))
            there.execute(sql.SQL("drop owned by {}").format(role))
        conn.execute(sql.SQL("drop role if exists {}").format(member))
    assert value(user.dsn, OURS) == 0


@pytest.mark.slow
async def test_the_demos_data_is_removed(tmp_path: Path) -> None:
    """With its folder, unless the server has something else."""
    user = User(tmp_path, None)
    home = tmp_path / "home"
    embedded = Embedded(data_dir=home / "postgres")

    async def nothing(_dsn: str) -> None:
        pass

    async with open_database(embedded, nothing, keep=False) as dsn:
        own = conninfo_to_dict(dsn) | {"dbname": "postgres"}
        with psycopg.connect(make_conninfo("", **own), autocommit=True) as conn:
            conn.execute("create table mine ()")
    kept = user.types("database", "uninstall", "--demo", "--yes").worked()
    assert "stays" in kept.err
    server = EmbeddedServer(embedded.data_dir)
    await server.start()
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        assert conn.execute("select from pg_database where datname = 'demo'").fetchone() is None
        conn.execute("drop table mine")
    await server.stop()
    user.types("database", "uninstall", "--demo", "--yes").worked()
    assert list(home.iterdir()) == []
