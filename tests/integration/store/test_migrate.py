"""`walagent database migrate`: the schema is brought up to date, once, by one."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.user import User, empty_database
from walagent.store.migrations import find_migrations

ALL = [migration.name for migration in find_migrations()]
PUBLICATIONS = ALL.index("0010_publications.sql")


@pytest.fixture
def empty(server: str) -> Iterator[str]:
    """A database without our schema."""
    with empty_database(server) as dsn:
        yield dsn


@pytest.fixture
def user(empty: str, tmp_path: Path) -> User:
    """Somebody with that database."""
    return User(tmp_path, empty)


def test_a_new_database_is_migrated_once(user: User, empty: str) -> None:
    """The plan, the work, and then nothing more to do."""
    assert user.types("database", "migrate", "--plan").worked().out.split() == ALL
    assert user.types("database", "migrate", "--plan", "--json").json == {"due": ALL}
    assert user.types("database", "migrate", "--json").worked().json == {"applied": ALL}
    again = user.types("database", "migrate").worked()
    assert (again.out, again.err) == ("", "the schema is up to date\n")
    with psycopg.connect(empty) as conn:
        done = conn.execute("select name from agent_internal.migration order by 1").fetchall()
    assert [name for (name,) in done] == ALL


def test_a_plan_changes_nothing(user: User, empty: str) -> None:
    """Not even a schema."""
    user.types("database", "migrate", "--plan").worked()
    with psycopg.connect(empty) as conn:
        assert conn.execute("select to_regnamespace('agent')").fetchone() == (None,)


def test_an_edited_migration_stops_everything(user: User, empty: str) -> None:
    """The database is not what the files say; a person must look."""
    user.types("database", "migrate").worked()
    with psycopg.connect(empty) as conn:
        conn.execute("update agent_internal.migration set sha256 = 'x' where name = %s", [ALL[0]])
    for command in (["migrate"], ["migrate", "--plan"], ["run"], ["init"]):
        refused = user.types(*command)
        assert refused.code == 3
        assert ALL[0] in refused.err
        assert "Traceback" not in refused.err


def test_a_newer_database_is_left_alone(user: User, empty: str) -> None:
    """An older program would write what the newer one does not expect."""
    user.types("database", "migrate").worked()
    with psycopg.connect(empty) as conn:
        conn.execute(
            "insert into agent_internal.migration (name, sha256) values ('9999_new.sql', 'x')"
        )
    refused = user.types("database", "migrate")
    assert refused.code == 3
    assert "9999_new.sql" in refused.err


def test_somebody_elses_schema_is_left_alone(user: User, empty: str) -> None:
    """A schema of the same name is no reason to write into it."""
    with psycopg.connect(empty) as conn:
        conn.execute("create schema agent create table mine (id int)")
    refused = user.types("database", "migrate")
    assert refused.code == 3
    assert "walagent did not create it" in refused.err


def test_what_fails_halfway_goes_on_where_it_stopped(user: User, empty: str) -> None:
    """Each file is a transaction: what is done stays done, the rest is done later."""
    with psycopg.connect(empty) as conn:
        conn.execute("create publication walagent_inserts")  # in the way of PUBLICATIONS
    refused = user.types("database", "migrate")
    assert refused.code == 2
    assert "walagent_inserts" in refused.err
    assert user.types("database", "migrate", "--plan").out.split() == ALL[PUBLICATIONS:]
    with psycopg.connect(empty) as conn:
        conn.execute("drop publication walagent_inserts")
    assert user.types("database", "migrate", "--json").worked().json == {
        "applied": ALL[PUBLICATIONS:]
    }


def test_two_at_a_time_do_it_once(user: User) -> None:
    """A deployment of many starts them all at once."""
    with user.starts("database", "migrate") as first, user.starts("database", "migrate") as second:
        assert (first.ends(), second.ends()) == (0, 0)
        said = first.log.read_text() + second.log.read_text()
    assert [said.count(f"applied {name}") for name in ALL] == [1] * len(ALL)


def test_a_role_that_may_not_is_refused_with_the_reason(user: User, empty: str) -> None:
    """Exit 3: somebody must grant it."""
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("drop role if exists walagent_cli_poor")
        conn.execute("create role walagent_cli_poor login")
        refused = user.types("database", "migrate", "--dsn", f"{empty} user=walagent_cli_poor")
        conn.execute("drop role walagent_cli_poor")
    assert refused.code == 3
    assert "permission denied for database" in refused.err
