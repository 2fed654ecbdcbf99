"""`walagent wal tail`: changes come out as they are committed, and nothing of us stays behind."""

import fcntl
import json
import re
import signal
import termios
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.integration.cli.user import Started, User, empty_database, until
from walagent.message import Json
from walagent.postgres.lsn import Lsn

OURS = "select count(*) from pg_replication_slots where database = current_database()"

SLOT = "walagent_printed"
NAMED = ("tail", "--slot", SLOT, "--create", "--publication", "items")
CONFIRMED = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"


def id_of(line: Json) -> int:
    """The key of the row."""
    return line["columns"][0]["value"]


def place_of(line: Json) -> tuple[str, int, int]:
    """What identifies the change, and the key of its row."""
    return line["lsn"], line["ordinal"], id_of(line)


def whole_lines(text: bytes) -> list[bytes]:
    """Without the end of a line that a kill has cut."""
    return text[: text.rfind(b"\n") + 1].splitlines()


def is_full(tail: Started) -> None:
    """Wait until the pipe takes no more."""
    unread, before = array("i", [0]), -1
    while before <= 0 or unread[0] != before:
        before = unread[0]
        time.sleep(0.3)
        fcntl.ioctl(tail.stdout, termios.FIONREAD, unread)


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
    with user.starts("wal", "tail", "--publication", "items") as tail:
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
    with user.starts("wal", "tail", "--publication", "items") as tail:
        tail.says("streaming")
        assert until(db, OURS) == 1
        assert tail.ends(sign) == 0
        assert tail.log.read_text() == "streaming; press Ctrl-C to stop\n"
    until(db, OURS.replace("count(*)", "count(*) = 0"))


def test_a_killed_tail_leaves_no_slot(user: User, db: Connection[Any]) -> None:
    """A forgotten slot would fill the server's disk."""
    with user.starts("wal", "tail", "--publication", "items") as tail:
        tail.says("streaming")
        tail.ends(signal.SIGKILL)
    until(db, OURS.replace("count(*)", "count(*) = 0"))


def test_it_stops_after_as_many_lines_as_asked_for(user: User, db: Connection[Any]) -> None:
    """For scripts."""
    with user.starts("wal", "tail", "--publication", "items", "--limit", "2") as tail:
        tail.says("streaming")
        db.execute("insert into item select n, 'x' from generate_series(1, 5) n")
        assert [tail.line()["columns"][0]["value"] for _ in range(2)] == [1, 2]
        assert tail.ends() == 0


@pytest.mark.slow
def test_a_reader_that_rests_loses_nothing(user: User, db: Connection[Any]) -> None:
    """The pipe is full for longer than the server waits for a sign of life."""
    with user.starts("wal", "tail", "--publication", "items", "--limit", "20000") as tail:
        tail.says("streaming")
        db.execute("insert into item select n, repeat('x', 100) from generate_series(1, 20000) n")
        until(db, "select pg_sleep(6) is not null")
        found = [tail.line()["columns"][0]["value"] for _ in range(20000)]
        assert tail.ends() == 0
    assert found == list(range(1, 20001))


def test_marks_and_our_own_tables_are_shown_on_request(user: User, db: Connection[Any]) -> None:
    """Where transactions begin and end; attaching is a change like any other."""
    with user.starts("wal", "tail", "--all", "--limit", "3") as tail:
        tail.says("streaming")
        db.execute("select agent.attach('item', 'model=gpt-4o')")
        actions = [tail.line() for _ in range(3)]
    assert [line["action"] for line in actions] == ["B", "I", "C"]
    assert (actions[1]["schema"], actions[1]["table"]) == ("agent", "attachment")


def test_a_peeked_slot_is_read_and_not_moved(user: User, db: Connection[Any]) -> None:
    """Looking into a slot must not take its changes from its reader."""
    db.execute("select pg_create_logical_replication_slot('walagent_looked_at', 'pgoutput')")
    db.execute("insert into item values (1, 'one')")
    before = until(db, CONFIRMED, "walagent_looked_at")
    options = ("--slot", "walagent_looked_at", "--publication", "items", "--limit", "1")
    for _ in range(2):
        with user.starts("wal", "tail", *options, "--peek") as tail:
            assert tail.line()["action"] == "I"
            assert tail.ends() == 0
    assert until(db, CONFIRMED, "walagent_looked_at") == before


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--slot", "no_such_slot"], 3, "--create"),
        (["--publication", "no_such_publication"], 2, "no_such_publication"),
        (["--table", "public.no_such_table"], 2, "public.no_such_table"),
        (["--slot", "walagent"], 2, "--peek"),
        (["--create"], 2, "--slot"),
    ],
)
def test_a_name_that_is_none_is_refused(
    user: User, options: list[str], code: int, word: str
) -> None:
    """A sentence, and the way out."""
    refused = user.types("wal", "tail", *options)
    assert refused.code == code
    assert word in refused.err
    assert "Traceback" not in refused.err


def test_the_slot_of_a_checkpoint_is_refused(user: User, db: Connection[Any]) -> None:
    """Whatever its name: walagent run would lose what tail confirms."""
    db.execute("select pg_create_logical_replication_slot('walagent_second', 'pgoutput')")
    db.execute(
        "insert into agent.checkpoint (slot, system_id, timeline, plugin, commit_lsn, end_lsn)"
        " values ('walagent_second', '1', 1, 'pgoutput', '0/1', '0/1')"
    )
    refused = user.types("wal", "tail", "--slot", "walagent_second")
    assert refused.code == 2
    assert "walagent run" in refused.err


def test_a_restart_resumes_after_what_was_confirmed(user: User, db: Connection[Any]) -> None:
    """A limit and a signal both leave the slot behind the last whole transaction."""
    for first, end in ((1, None), (3, signal.SIGTERM)):
        limit = () if end else ("--limit", "2")
        with user.starts(*NAMED, *limit) as tail:
            tail.says("streaming")
            for id_ in (first, first + 1):
                db.execute("insert into item values (%s)", [id_])
            assert [id_of(tail.line()) for _ in range(2)] == [first, first + 1]
            if end:
                until(db, CONFIRMED.replace("::text", " >= pg_current_wal_lsn()"), SLOT)
            assert tail.ends(end) == 0
    db.execute("insert into item values (5)")
    with user.starts(*NAMED, "--limit", "1") as tail:
        assert id_of(tail.line()) == 5


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("number", range(3))
def test_a_kill_repeats_and_never_loses(user: User, db: Connection[Any], number: int) -> None:
    """In order; what is repeated was written after the last confirmed position."""
    transactions, rows = 60, 50
    found = list[list[tuple[str, int, int]]]()
    with user.starts(*NAMED) as tail:
        tail.says("streaming")
        for at in range(transactions):
            values = "insert into item select n from generate_series(%s::int, %s) n"
            db.execute(values, [at * rows, at * rows + rows - 1])
        read = 700 * (number + 1)
        found.append([place_of(tail.line()) for _ in range(read)])
        tail.ends(signal.SIGKILL)
        found[0] += [place_of(json.loads(line)) for line in whole_lines(tail.stdout.read())]
    confirmed = until(db, CONFIRMED, SLOT)
    with user.starts(*NAMED) as tail:
        last = transactions * rows - 1
        again = [place_of(tail.line())]
        while again[-1][2] != last:
            again.append(place_of(tail.line()))
    ids = [id_ for _, _, id_ in found[0]]
    assert ids == list(range(len(ids)))
    start = again[0][2]
    assert start < len(ids)  # the kill came between a write and its confirmation
    assert [id_ for _, _, id_ in again] == list(range(start, last + 1))
    for one, other in zip(found[0][start:], again, strict=False):
        assert one == other
        assert Lsn.parse(one[0]) >= Lsn.parse(confirmed)


@pytest.mark.slow
def test_a_lost_connection_is_opened_again(user: User, db: Connection[Any]) -> None:
    """In the middle of a transaction, too: no line is missing, none is repeated."""
    rows = 20_000
    with user.starts(*NAMED, "--limit", str(rows + 1)) as tail:
        tail.says("streaming")
        fill = "insert into item select n, repeat('x', 100) from generate_series(1, %s) n"
        db.execute(fill, [rows])
        first = tail.line()
        until(
            db,
            "select pg_terminate_backend(active_pid) from pg_replication_slots"
            " where slot_name = %s",
            SLOT,
        )
        lines = [first, *(tail.line() for _ in range(rows - 1))]
        tail.says("streaming again")
        db.execute("insert into item values (0)")
        lines.append(tail.line())
        assert tail.ends() == 0
    assert [id_of(line) for line in lines] == [*range(1, rows + 1), 0]
    assert [line["ordinal"] for line in lines] == [*range(rows), 0]


def test_a_busy_slot_is_awaited(user: User, db: Connection[Any]) -> None:
    """The second reader continues when the first one ends."""
    with user.starts(*NAMED) as first:
        first.says("streaming")
        with user.starts(*NAMED, "--limit", "1") as second:
            assert SLOT in second.says("waiting")
            assert first.ends(signal.SIGTERM) == 0
            db.execute("insert into item values (1)")
            assert id_of(second.line()) == 1
            assert second.ends() == 0


@pytest.mark.parametrize("options", [(), ("--slot", "walagent_printed", "--create")])
def test_sigterm_ends_it_at_once_while_the_pipe_is_full(
    user: User, db: Connection[Any], options: tuple[str, ...]
) -> None:
    """The reader rests; nobody waits for it."""
    with user.starts("wal", "tail", *options, "--publication", "items") as tail:
        tail.says("streaming")
        db.execute("insert into item select n, repeat('x', 999) from generate_series(1, 5000) n")
        is_full(tail)
        start = time.monotonic()
        assert tail.ends(signal.SIGTERM) == 0
        assert time.monotonic() - start < 5


@pytest.mark.parametrize("rows", [0, 5000])
def test_a_reader_that_goes_away_ends_it_at_once(
    user: User, db: Connection[Any], rows: int
) -> None:
    """While nothing is written, and while the pipe is full."""
    with user.starts("wal", "tail", "--publication", "items") as tail:
        tail.says("streaming")
        if rows:
            fill = "insert into item select n, repeat('x', 999) from generate_series(1, %s) n"
            db.execute(fill, [rows])
            is_full(tail)
        tail.stdout.close()
        assert tail.ends() == 1
        assert "Traceback" not in tail.log.read_text()


def test_tables_and_operations_are_selected(user: User, db: Connection[Any]) -> None:
    """Of all that the publications contain."""
    db.execute("create table other (id int primary key)")
    db.execute("alter publication items add table other")
    options = ("--publication", "items", "--table", "item", "--op", "insert", "--op", "delete")
    with user.starts("wal", "tail", *options, "--limit", "2") as tail:
        tail.says("streaming")
        db.execute("insert into other values (1)")
        db.execute("insert into item values (1)")
        db.execute("update item set name = 'x'")
        db.execute("delete from item")
        lines = [tail.line() for _ in range(2)]
    assert [(line["table"], line["action"]) for line in lines] == [("item", "I"), ("item", "D")]


def test_a_reader_that_goes_away_ends_it(user: User, db: Connection[Any]) -> None:
    """As in `walagent wal tail | head -1`: no traceback, no slot."""
    with user.starts("wal", "tail", "--publication", "items") as tail:
        tail.says("streaming")
        tail.stdout.close()
        db.execute("insert into item values (1, 'one')")
        assert tail.ends() == 1
        assert "Traceback" not in tail.log.read_text()
    until(db, OURS.replace("count(*)", "count(*) = 0"))


TYPES = """
    id int primary key, n numeric(10,3), d double precision, a public.mood[], o public.small,
    l pg_lsn, v varchar(7), w tsvector
"""


@pytest.mark.parametrize(
    "plugin", ["pgoutput", pytest.param("wal2json", marks=pytest.mark.wal2json)]
)
def test_types_have_their_names(user: User, db: Connection[Any], plugin: str) -> None:
    """Those of users, arrays and domains, too: as PostgreSQL prints them, with both plugins."""
    db.execute("create type mood as enum ('sad')")
    db.execute("create domain small as int")
    db.execute(f"create table typed ({TYPES})".encode())
    db.execute("alter publication items add table typed")
    options = ("--plugin", plugin, "--publication", "items", "--table", "typed", "--limit", "1")
    with user.starts("wal", "tail", *options) as tail:
        tail.says("streaming")
        db.execute("insert into typed values (1)")
        columns = tail.line()["columns"]
    assert [column["type"] for column in columns] == [
        "integer", "numeric(10,3)", "double precision", "public.mood[]", "public.small", "pg_lsn",
        "character varying(7)", "tsvector",
    ]  # fmt: skip


def test_values_that_json_has_not_are_texts(user: User, db: Connection[Any]) -> None:
    """By column name, with what identifies the change."""
    db.execute("create table number (id int primary key, n numeric, d float8, b bytea)")
    db.execute("alter publication items add table number")
    options = ("--publication", "items", "--format", "json", "--limit", "2")
    with user.starts("wal", "tail", *options) as tail:
        tail.says("streaming")
        with db.transaction():
            db.execute("insert into number values (1, 'NaN', '-infinity', '\\x00')")
            db.execute("update number set n = 1.50, d = 'nan'")
        first, second = tail.line(), tail.line()
    assert (first["op"], first["table"], first["ordinal"]) == ("insert", "number", 0)
    assert first["new"] == {"id": 1, "n": "NaN", "d": "-Infinity", "b": "\\x00"}
    assert (second["op"], second["ordinal"], second["lsn"]) == ("update", 1, first["lsn"])
    assert second["new"] == {"id": 1, "n": 1.5, "d": "NaN", "b": "\\x00"}


@pytest.mark.wal2json
def test_wal2json_shows_every_table(user: User, db: Connection[Any]) -> None:
    """Without a publication, or only the tables that were named."""
    db.execute("create table other (id int primary key)")
    with user.starts("wal", "tail", "--plugin", "wal2json", "--table", "public.other") as tail:
        tail.says("streaming")
        db.execute("insert into item values (1, 'one')")
        db.execute("insert into other values (1)")
        assert tail.line()["table"] == "other"


WHERE = ("--publication", "items", "--table", "public.item", "--where")


def test_a_condition_selects_changes(user: User, db: Connection[Any]) -> None:
    """It reads new and old; what is filtered is confirmed too, so that a restart goes on."""
    db.execute("create table other (id int primary key)")
    db.execute("alter publication items add table other")
    slot = ("tail", "--slot", SLOT, "--create", *WHERE)
    with user.starts(*slot, "new.id % 3 = 0 and new.name like 'n%'", "--limit", "4") as tail:
        tail.says("streaming")
        for start in (1, 7):
            db.execute(
                "insert into item select n, 'n' || n from generate_series(%s::int, %s::int) n",
                [start, start + 5],
            )
            db.execute("insert into other values (%s)", [start])
        lines = [tail.line() for _ in range(4)]
        assert tail.ends() == 0
    assert [id_of(line) for line in lines] == [3, 6, 9, 12]
    with user.starts(*slot, "new.id > 12", "--limit", "1") as tail:
        db.execute("insert into item select n from generate_series(13, 13) n")
        assert id_of(tail.line()) == 13


def test_a_change_that_cannot_be_evaluated_is_printed(user: User, db: Connection[Any]) -> None:
    """And said on stderr."""
    with user.starts("wal", "tail", *WHERE, "10 / new.id > 4", "--limit", "2") as tail:
        tail.says("streaming")
        db.execute("insert into item values (0), (1), (5)")
        assert [id_of(tail.line()) for _ in range(2)] == [0, 1]
        tail.says("division by zero")


def test_code_of_others_in_a_condition_runs_without_privileges(
    user: User, db: Connection[Any]
) -> None:
    """The check of a domain does, as neither the caller nor a role that it can become."""
    db.execute(
        "create function who(text) returns boolean language plpgsql as $$ begin"
        " if current_setting('application_name') = 'walagent evaluate' then"
        " set role none; raise 'executed as % and %', session_user, current_user;"
        " end if; return true; end $$"
    )
    db.execute("create domain grade as text check (who(value))")
    db.execute("alter table item add grades grade[]")
    where = "new.grades is not null"
    with user.starts("wal", "tail", *WHERE, where, "--limit", "1") as tail:
        tail.says("streaming")
        db.execute("insert into item values (1, 'a', '{x}')")
        assert id_of(tail.line()) == 1
        said = tail.log.read_text()
    login = re.escape(f"walagent_tools_{database_oid(db)}")
    assert re.search(f"executed as {login} and {login}", said)


def database_oid(db: Connection[Any]) -> int:
    """The number in the name of the login."""
    row = db.execute("select oid from pg_database where datname = current_database()").fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--where", "true"), "one --table"),
        (("--table", "item", "--where", "new.nope = 1"), "nope"),
        (("--table", "item", "--where", "exists (select 1)"), "subquery"),
        (("--table", "nothing", "--where", "true"), "does not exist"),
    ],
)
def test_a_condition_that_is_not_valid_is_refused(
    user: User, options: tuple[str, ...], says: str
) -> None:
    """Before anything is read."""
    done = user.types("wal", "tail", "--publication", "items", *options)
    assert done.code != 0
    assert says in done.err


def test_a_condition_needs_walagent(server: str, tmp_path: Path) -> None:
    """It is checked and evaluated by what init creates."""
    with empty_database(server) as dsn, psycopg.connect(dsn) as conn:
        conn.execute("create table item (id int primary key)")
        conn.commit()
        done = User(tmp_path, dsn).types("wal", "tail", *WHERE, "true")
    assert done.code == 2
    assert "walagent init" in done.err
