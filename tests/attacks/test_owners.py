"""Functions that a restore, a reassignment or a single statement has given to the wrong role."""

import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.integration.cli.user import User, empty_database, programs_of

RIGHT = "select count(*) from agent_internal.misowned_functions()"
DEFINERS = """
select count(*) from pg_proc p where p.proowner = to_regrole('walagent_definer')
   and p.pronamespace::regnamespace::text in ('agent', 'agent_internal')
"""
TAKE = {
    "one function": "alter function agent.retry(bigint, boolean, boolean) owner to {0}",
    "what the daemon calls": "alter function agent_internal.tick() owner to {0}",
    "all of a role": "reassign owned by walagent_definer to {0}",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("take", TAKE.values(), ids=TAKE)
def test_functions_of_others_are_not_served_with(server: str, tmp_path: Path, take: str) -> None:
    """A runner refuses, doctor says it, and whoever may restores them."""
    with empty_database(server) as dsn:
        name = str(conninfo_to_dict(dsn)["dbname"])
        user = User(tmp_path, dsn)
        user.types("init").worked()
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
            conn.execute("select agent.grant_runner(%s)", [name])
            before = conn.execute(DEFINERS).fetchone()
            conn.execute(sql.SQL(take).format(sql.Identifier(name)))  # type: ignore[arg-type]
            try:
                runner = User(tmp_path, make_conninfo(dsn, user=name))
                refused = runner.types("run", "--http", "off")
                assert (refused.code, "wrong role" in refused.err) == (3, True), refused
                assert "run walagent database migrate" in refused.err
                assert "wrong role" in user.types("doctor").out
                assert "up to date" in user.types("database", "migrate").worked().err
                assert conn.execute(RIGHT).fetchone() == (0,)
                assert conn.execute(DEFINERS).fetchone() == before
                assert "wrong role" not in user.types("doctor").out
            finally:
                gone = "drop owned by {0} cascade; drop role {0}"
                conn.execute(sql.SQL(gone).format(sql.Identifier(name)))


def test_a_restore_without_owners_is_adopted(server: str, tmp_path: Path) -> None:
    """The usual way to another server: adopt gives the functions back, and what they may read."""
    dump, tool = tmp_path / "dump", programs_of(server)
    with empty_database(server) as dsn, empty_database(server) as restored:
        User(tmp_path, dsn).types("init").worked()
        subprocess.run([tool / "pg_dump", "-Fc", "-f", dump, dsn], check=True)
        without = ["--no-owner", "--no-privileges"]
        subprocess.run([tool / "pg_restore", *without, "-d", restored, dump], check=True)
        with psycopg.connect(dsn) as conn, psycopg.connect(restored, autocommit=True) as copy:
            assert conn.execute(RIGHT).fetchone() == (0,)
            assert copy.execute(RIGHT).fetchone() != (0,)
            User(tmp_path, restored).types("database", "adopt", "--copy").worked()
            assert copy.execute(RIGHT).fetchone() == (0,)
            assert copy.execute(DEFINERS).fetchone() == conn.execute(DEFINERS).fetchone()
