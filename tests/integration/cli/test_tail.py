"""`walagent tail`: changes come out as they are committed, and nothing of us stays behind."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.integration.cli.user import User, until

OURS = "select count(*) from pg_replication_slots where database = current_database()"


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a published table."""
    with psycopg.connect(dsn) as conn:
        conn.execute("create table item (id int primary key, name text)")
        conn.execute("create publication items for table item")
    return User(tmp_path, dsn)


@pytest.fixture
def db(user: User) -> Iterator[Connection[Any]]:
    """A hand in the database."""
    assert user.dsn is not None
    with psycopg.connect(user.dsn, autocommit=True) as conn:
        yield conn


def test_changes_come_out_as_lines_of_json(user: User, db: Connection[Any]) -> None:
    """In wal2json's format 2, as soon as they are committed, in order."""
    with user.starts("tail", "--publication", "items") as tail:
        tail.says("streaming")
        with db.transaction():
            db.execute("insert into item values (1, 'one')")
            db.execute("update item set name = 'eins'")
        db.execute("delete from item")
        lines = [tail.line() for _ in range(3)]
    assert [line["action"] for line in lines] == ["I", "U", "D"]
    assert lines[0]["columns"][1] == {"name": "name", "type": "text", "value": "one"}
    assert lines[2]["identity"][0]["value"] == 1


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_cleanly(user: User, db: Connection[Any], sign: signal.Signals) -> None:
    """Exit 0, not a word of complaint, and the slot is gone."""
    with user.starts("tail", "--publication", "items") as tail:
        tail.says("streaming")
        assert until(db, OURS) == 1
        assert tail.ends(sign) == 0
        assert tail.log.read_text() == "streaming; press Ctrl-C to stop\n"
    until(db, OURS.replace("count(*)", "count(*) = 0"))


def test_a_killed_tail_leaves_no_slot(user: User, db: Connection[Any]) -> None:
    """A forgotten slot would fill the server's disk."""
    with user.starts("tail", "--publication", "items") as tail:
        tail.says("streaming")
        tail.ends(signal.SIGKILL)
    until(db, OURS.replace("count(*)", "count(*) = 0"))


def test_it_stops_after_as_many_lines_as_asked_for(user: User, db: Connection[Any]) -> None:
    """For scripts."""
    with user.starts("tail", "--publication", "items", "--limit", "2") as tail:
        tail.says("streaming")
        db.execute("insert into item select n, 'x' from generate_series(1, 5) n")
        assert [tail.line()["columns"][0]["value"] for _ in range(2)] == [1, 2]
        assert tail.ends() == 0


def test_a_reader_that_rests_loses_nothing(user: User, db: Connection[Any]) -> None:
    """The pipe is full for longer than the server waits for a sign of life."""
    with user.starts("tail", "--publication", "items", "--limit", "20000") as tail:
        tail.says("streaming")
        db.execute("insert into item select n, repeat('x', 100) from generate_series(1, 20000) n")
        until(db, "select pg_sleep(6) is not null")
        found = [tail.line()["columns"][0]["value"] for _ in range(20000)]
        assert tail.ends() == 0
    assert found == list(range(1, 20001))


def test_marks_and_our_own_tables_are_shown_on_request(user: User, db: Connection[Any]) -> None:
    """Where transactions begin and end; attaching is a change like any other."""
    with user.starts("tail", "--all", "--limit", "3") as tail:
        tail.says("streaming")
        db.execute("select agent.attach('item', 'model=gpt-4o')")
        actions = [tail.line() for _ in range(3)]
    assert [line["action"] for line in actions] == ["B", "I", "C"]
    assert (actions[1]["schema"], actions[1]["table"]) == ("agent", "attachment")


def test_a_named_slot_is_read_and_not_moved(user: User, db: Connection[Any]) -> None:
    """Looking into a slot must not take its changes from its reader."""
    db.execute("select pg_create_logical_replication_slot('walagent_looked_at', 'pgoutput')")
    db.execute("insert into item values (1, 'one')")
    query = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
    before = until(db, query, "walagent_looked_at")
    options = ("tail", "--slot", "walagent_looked_at", "--publication", "items", "--limit", "1")
    for _ in range(2):
        with user.starts(*options) as tail:
            assert tail.line()["action"] == "I"
            assert tail.ends() == 0
    assert until(db, query, "walagent_looked_at") == before


def test_a_slot_or_publication_that_is_none_is_told(user: User, db: Connection[Any]) -> None:
    """Exit 3 and a sentence."""
    missing = user.types("tail", "--slot", "no_such_slot")
    assert missing.code == 3
    assert "no_such_slot" in missing.err
    assert "Traceback" not in missing.err


def test_a_reader_that_goes_away_ends_it(user: User, db: Connection[Any]) -> None:
    """As in `walagent tail | head -1`: no traceback, no slot."""
    with user.starts("tail", "--publication", "items") as tail:
        tail.says("streaming")
        tail.stdout.close()
        db.execute("insert into item values (1, 'one')")
        assert tail.ends() == 1
        assert "Traceback" not in tail.log.read_text()
    until(db, OURS.replace("count(*)", "count(*) = 0"))


@pytest.mark.wal2json
def test_wal2json_shows_every_table(user: User, db: Connection[Any]) -> None:
    """Without a publication, or only the tables that were named."""
    db.execute("create table other (id int primary key)")
    with user.starts("tail", "--plugin", "wal2json", "--table", "public.other") as tail:
        tail.says("streaming")
        db.execute("insert into item values (1, 'one')")
        db.execute("insert into other values (1)")
        assert tail.line()["table"] == "other"
