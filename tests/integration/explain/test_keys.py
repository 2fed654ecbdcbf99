"""`walagent why` finds the runs of a row, however its key is written."""

from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.user import User, empty_database, until

KEYS = {
    "boolean, b text": ("(true, 'x y')", ["true,x y", "t,x y"]),
    "numeric(20,4)": ("(1.5)", ["1.5", "1.5000", "1.50"]),
    "char(8)": ("('x')", ["x", "x       "]),
    "timestamptz": (
        "('2026-02-01 10:00:00+00')",
        ["2026-02-01 10:00:00+00", "2026-02-01T11:00:00+01:00"],
    ),
    "money": ("('1234.50')", ["1234.50", "$1,234.50"]),
    "float8": ("(0.5)", ["0.5", "0.50", "5e-1"]),
    "uuid": (
        "('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11')",
        ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}"],
    ),
    "int[]": ("('{1,2}')", ["{1,2}", "{1, 2}"]),
    "interval": ("('1 day 2 hours')", ["1 day 02:00:00", "26 hours"]),
    "bytea": (r"('\xdead')", [r"\xdead", r"\xDEAD"]),
    "inet": ("('10.0.0.1')", ["10.0.0.1", "10.0.0.1/32"]),
    "date": ("('2026-02-01')", ["2026-02-01", "1 February 2026"]),
    "numeric": ("('NaN')", ["NaN", "nan"]),
}


@pytest.mark.slow
def test_a_key_is_read_by_its_type(server: str, tmp_path: Path) -> None:
    """Whatever text PostgreSQL accepts for it."""
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        user = User(tmp_path, dsn)
        user.types("init").worked()
        conn.execute(
            "insert into agent.model (name, provider, model_id) values ('m', 'scripted', 'm')"
        )
        for n, kind in enumerate(KEYS):
            columns = f"a {kind}, primary key (a{', b' if ', b' in kind else ''})"
            conn.execute(f"create table k{n} ({columns})".encode())
            conn.execute("select agent.attach(%s, 'model=m')", [f"k{n}"])
        with user.starts("run", "--http", "off") as daemon:
            daemon.says('"reader.streaming"')
            for n, (value, _) in enumerate(KEYS.values()):
                conn.execute(f"insert into k{n} values {value}".encode())
            until(conn, "select count(*) = %s from agent.run", len(KEYS))
        missed = [
            (kind, key)
            for n, (kind, (_, keys)) in enumerate(KEYS.items())
            for key in keys
            if not user.types("why", f"k{n}", key, "--json").worked().json["runs"]
        ]
    assert missed == []


@pytest.mark.few(1)
@pytest.mark.parametrize("deleted", [False, True])
def test_a_row_is_read_with_grants_on_columns(server: str, tmp_path: Path, deleted: bool) -> None:  # noqa: FBT001
    """As docs/security.md sets them: the whole row cannot be read."""
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        user = User(tmp_path, dsn)
        user.types("init").worked()
        role = f"walagent_why_{conn.info.backend_pid}"
        conn.execute(
            f"create table t (id int primary key, issue text, card text); create role {role};"
            f"grant select (id, issue) on t to {role};"
            " insert into t values (1, 'a', 'secret')".encode()
        )
        try:
            spec = f"model=gpt-4o, run_as={role}, columns=[issue], when=\"new.issue = 'b'\""
            conn.execute("select agent.attach('t', %s)", [spec])
            if deleted:
                conn.execute("delete from t")
            said = user.types("why", "t", "1").worked().out
            assert "cannot be read" not in said
            assert ("the row exists" in said) is not deleted
            assert ("the condition is not true for the current row" in said) is not deleted
        finally:
            conn.execute(f"drop owned by {role} cascade; drop role {role}".encode())
