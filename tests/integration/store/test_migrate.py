"""`walagent database migrate`: the schema is brought up to date, once, by one."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.user import User, empty_database
from walagent.store.install.files import find_files

FILES = find_files()
CODE = "schema/run/functions.sql"


@pytest.fixture
def empty(server: str) -> Iterator[str]:
    """A database without our schema."""
    with empty_database(server) as dsn:
        yield dsn


@pytest.fixture
def user(empty: str, tmp_path: Path) -> User:
    """Somebody with that database."""
    return User(tmp_path, empty)


def change(dsn: str, statement: str) -> None:
    """Change what the database has on record."""
    with psycopg.connect(dsn) as conn:
        conn.execute(statement.encode())


@pytest.mark.slow
def test_a_new_database_is_migrated_once(user: User, empty: str) -> None:
    """The plan, the work, and then nothing more to do."""
    assert user.types("database", "migrate", "--plan").worked().out == "schema\n"
    assert user.types("database", "migrate", "--plan", "--json").json == {"due": ["schema"]}
    assert user.types("database", "migrate", "--json").worked().json == {"applied": ["schema"]}
    again = user.types("database", "migrate").worked()
    assert (again.out, again.err) == ("", "the schema is up to date\n")
    with psycopg.connect(empty) as conn:
        done = conn.execute("select name from agent_internal.migration").fetchall()
    assert {name for (name,) in done} == {file.name for file in FILES.recorded}


def test_a_plan_changes_nothing(user: User, empty: str) -> None:
    """Not even a schema."""
    user.types("database", "migrate", "--plan").worked()
    with psycopg.connect(empty) as conn:
        assert conn.execute("select to_regnamespace('agent')").fetchone() == (None,)


def test_code_that_changed_is_applied_again(user: User, empty: str) -> None:
    """By migrate alone: a daemon does not start before."""
    user.types("database", "migrate").worked()
    change(empty, f"update agent_internal.migration set sha256 = 'x' where name = '{CODE}'")
    refused = user.types("run")
    assert refused.code == 3
    assert CODE in refused.err
    assert "walagent database migrate" in refused.err
    assert user.types("database", "migrate", "--plan").worked().out == f"{CODE}\n"
    assert user.types("database", "migrate", "--json").worked().json == {"applied": [CODE]}
    assert user.types("database", "migrate", "--json").worked().json == {"applied": []}


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "insert into agent_internal.migration values ('upgrades/9999_new.sql', 'x', '0.1.0')",
            "9999_new.sql",
        ),
        ("update agent_internal.migration set version = '99.0.0'", "version 99.0.0"),
    ],
)
def test_a_newer_database_is_left_alone(user: User, empty: str, statement: str, says: str) -> None:
    """An older program would write what the newer one does not expect."""
    user.types("database", "migrate").worked()
    change(empty, statement)
    for command in (["migrate"], ["migrate", "--plan"], ["run"], ["init"]):
        refused = user.types(*command)
        assert refused.code == 3
        assert says in refused.err
        assert "Upgrade walagent" in refused.err
        assert "Traceback" not in refused.err


def test_somebody_elses_schema_is_left_alone(user: User, empty: str) -> None:
    """A schema of the same name is no reason to write into it."""
    change(empty, "create schema agent create table mine (id int)")
    refused = user.types("database", "migrate")
    assert refused.code == 3
    assert "walagent did not create it" in refused.err


def test_the_schema_of_an_unreleased_version_is_left_alone(user: User, empty: str) -> None:
    """The error says how to go on."""
    change(
        empty,
        "create schema agent create table run (id int);"
        "create schema agent_internal create table migration (name text, sha256 text)",
    )
    for command in (["migrate"], ["run"], ["init"]):
        refused = user.types(*command)
        assert refused.code == 3
        assert "unreleased version" in refused.err
        assert "pg_dump --data-only --schema agent" in refused.err


@pytest.mark.slow
def test_what_fails_leaves_nothing_and_can_be_repeated(user: User, empty: str) -> None:
    """A publication of ours is in the way."""
    change(empty, "create publication walagent_inserts")
    refused = user.types("database", "migrate")
    assert refused.code == 3
    assert "walagent_inserts" in refused.err
    with psycopg.connect(empty) as conn:
        assert conn.execute("select to_regnamespace('agent')").fetchone() == (None,)
    change(empty, "drop publication walagent_inserts")
    assert user.types("database", "migrate", "--json").worked().json == {"applied": ["schema"]}


@pytest.mark.slow
def test_two_at_a_time_do_it_once(user: User) -> None:
    """A deployment of many starts them all at once."""
    with user.starts("database", "migrate") as first, user.starts("database", "migrate") as second:
        assert (first.ends(), second.ends()) == (0, 0)
        said = first.log.read_text() + second.log.read_text()
    assert said.count("applied schema") == 1


def test_a_role_without_create_gets_the_statement_that_grants_it(user: User, empty: str) -> None:
    """Exit 3: somebody must grant it."""
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("drop role if exists walagent_cli_poor")
        conn.execute("create role walagent_cli_poor login")
        refused = user.types("database", "migrate", "--dsn", f"{empty} user=walagent_cli_poor")
        conn.execute("drop role walagent_cli_poor")
    assert refused.code == 3
    assert "permission denied for database" in refused.err
    assert "grant create on database" in refused.err
