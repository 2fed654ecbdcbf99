"""`walagent why`: for a row and each attachment, the run it has or the reasons for none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb

from tests.integration.cli.user import DESK, User
from walagent.explain.facts import split_key
from walagent.matching.document import joined
from walagent.message import Json


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a support desk of two tickets."""
    with psycopg.connect(dsn) as conn:
        conn.execute(DESK)
        conn.execute("insert into support_tickets (customer, issue) values ('a', 'x'), ('b', 'y')")
    return User(tmp_path, dsn)


@pytest.fixture
def db(user: User) -> Iterator[Connection[Any]]:
    """A look into the database, and a hand in it."""
    assert user.dsn is not None
    with psycopg.connect(user.dsn, autocommit=True) as conn:
        yield conn


def attach(db: Connection[Any], spec: str, *, active: bool = True) -> None:
    """Attach an agent; let the reader have come to it or not."""
    db.execute("select agent.attach('support_tickets', %s)", [f"model=gpt-4o, {spec}"])
    if active:
        db.execute("update agent.attachment_version set active_from = '0/1'")


def run(db: Connection[Any], key: str, state: str = "pending", error: str | None = None) -> None:
    """Let intake have inserted a run of the newest attachment."""
    change = {"op": "insert", "schema": "public", "table": "support_tickets", "new": {"id": key}}
    given = {
        "attachment_id": 0, "attachment_version": 1, "commit_lsn": "0/99", "ordinal": int(key),
        "committed_at": "2026-01-02T03:04:05Z", "change": change, "key": key, "max_attempts": 5,
        "state": state, "error": {"reason": error} if error else None,
    }  # fmt: skip
    row = db.execute("select max(id) from agent.attachment").fetchone()
    assert row is not None
    given["attachment_id"] = row[0]
    db.execute("select agent_internal.insert_runs(1, %s)", [Jsonb([given])])


def why(user: User, key: str = "1") -> Json:
    """Ask, and give the answer for programs."""
    return user.types("why", "support_tickets", key, "--json").worked().json


def rules(user: User, key: str = "1") -> dict[str, bool]:
    """Give the rules that the one attachment names: certain or not."""
    (verdict,) = why(user, key)["verdicts"]
    return {reason["rule"]: reason["certain"] for reason in verdict["reasons"]}


def test_a_row_with_a_run_is_matched(user: User, db: Connection[Any]) -> None:
    """Its runs are told with state and change, for people and for programs."""
    attach(db, "name=triage")
    run(db, "1", "failed", "the tool said no")
    answer = why(user)
    assert answer["verdicts"][0]["verdict"] == "matched"
    assert (answer["runs"][0]["state"], answer["runs"][0]["error"]) == (
        "failed",
        "the tool said no",
    )
    said = user.types("why", "support_tickets", "1").worked().out
    assert "triage: matched\n  run 1 failed, for the insert committed 2026-01-02" in said
    assert why(user, "2")["verdicts"][0]["verdict"] == "no run"


@pytest.mark.slow
def test_a_condition_that_is_false_now_is_certain(user: User, db: Connection[Any]) -> None:
    """PostgreSQL evaluates it on the row as it is, NULL included."""
    attach(db, "name=triage, when=\"new.customer = 'b'\"")
    assert rules(user, "1")["condition"] is True
    assert "condition" not in rules(user, "2")
    db.execute("update support_tickets set customer = 'b' where id = 1")
    assert "condition" not in rules(user, "1")


def test_a_condition_that_raises_is_reported_with_its_error(
    user: User, db: Connection[Any]
) -> None:
    """Such a row would have a dead run; now one knows why before it has."""
    attach(db, 'name=triage, when="new.customer::integer > 1"')
    (verdict,) = why(user)["verdicts"]
    (text,) = [each["text"] for each in verdict["reasons"] if each["rule"] == "condition"]
    assert "SQLSTATE 22P02" in text


def test_an_attachment_that_the_reader_has_not_come_to_says_so(
    user: User, db: Connection[Any]
) -> None:
    """Its changes cannot have started anything yet."""
    attach(db, "name=triage", active=False)
    assert rules(user)["not_active"] is True


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("on=update", "operation"),
        ("on=update, columns=[issue]", "columns"),
        ("on=update", "own_write"),
        ("max_depth=0", "depth"),
        ("on=insert", "before_attach"),
    ],
)
def test_rules_that_may_have_filtered_a_change_are_named(
    user: User, db: Connection[Any], spec: str, rule: str
) -> None:
    """What the change was like is not known any more, so these are possible, not certain."""
    attach(db, f"name=triage, {spec}")
    assert rules(user)[rule] is False


def test_a_paused_attachment_with_waiting_runs_says_why(user: User, db: Connection[Any]) -> None:
    """Pausing keeps runs from starting, not from being made."""
    attach(db, "name=triage")
    run(db, "1")
    db.execute("select agent.pause('triage', 'key is spent')")
    said = user.types("why", "support_tickets", "1").worked().out
    assert "paused: key is spent" in said


def test_a_backfill_that_is_going_on_is_named(user: User, db: Connection[Any]) -> None:
    """The row's turn may still come; then it is no matter that it is older."""
    attach(db, "name=triage, backfill=true")
    assert rules(user)["backfill"] is False
    assert "before_attach" not in rules(user)


def test_a_reader_that_is_behind_is_named(user: User, db: Connection[Any]) -> None:
    """Never started, gone, or not running: each is said, for all attachments alike."""
    attach(db, "name=triage")
    assert [reason["rule"] for reason in why(user)["reasons"]] == ["slot_missing"]
    db.execute(
        "insert into agent.checkpoint (slot, system_id, timeline, plugin, commit_lsn, end_lsn)"
        " values ('walagent', '1', 1, 'pgoutput', '0/1', '0/1')"
    )
    assert "the slot does not exist" in why(user)["reasons"][0]["text"]
    db.execute("insert into agent.gap (slot, reason) values ('walagent', 'slot lost')")
    assert [reason["rule"] for reason in why(user)["reasons"]] == ["slot_missing", "gap"]


def test_a_row_that_is_gone_can_still_be_asked_about(user: User, db: Connection[Any]) -> None:
    """Its runs are there, though it is not."""
    attach(db, "name=triage")
    run(db, "7")
    answer = why(user, "7")
    assert answer["present"] is False
    assert answer["verdicts"][0]["verdict"] == "matched"


def test_runs_of_an_ended_attachment_are_reported(user: User, db: Connection[Any]) -> None:
    """They explain what happened to the row, too."""
    attach(db, "name=triage")
    run(db, "1")
    db.execute("select agent.detach('triage')")
    said = user.types("why", "support_tickets", "1").worked().out
    assert "no attachment on this table" in said
    assert "run 1 (pending) belongs to a removed attachment" in said


def test_what_cannot_be_asked_is_said(user: User, db: Connection[Any]) -> None:
    """A table that is none, a key of another type: exit 2, no traceback."""
    attach(db, "name=triage")
    for arguments, said in (
        (["suport_tickets", "1"], 'Did you mean "support_tickets"?'),
        (["support_tickets", "x"], "invalid input syntax for type bigint"),
    ):
        refused = user.types("why", *arguments)
        assert refused.code == 2
        assert said in refused.err
        assert "Traceback" not in refused.err


def test_a_key_of_two_columns_is_written_with_a_comma(user: User, db: Connection[Any]) -> None:
    """As the run's key is; a comma within a value is escaped."""
    db.execute("create table pair (a int, b text, primary key (b, a))")
    db.execute("insert into pair values (1, 'x,y')")
    db.execute("select agent.attach('pair', 'model=gpt-4o, name=paired')")
    answer = user.types("why", "pair", r"x\,y,1", "--json").worked().json
    assert answer["present"] is True
    refused = user.types("why", "pair", "x")
    assert refused.code == 2
    assert "2 key columns" in refused.err


@pytest.mark.parametrize(
    "values", [["a", "b"], ["a,b", "c"], ["a\\", "b"], ["\\,", ","], ["", "x"]]
)
def test_a_key_is_split_as_it_was_joined(values: list[str]) -> None:
    """Whatever the values contain."""
    text = joined({"a": values[0], "b": values[1]}, ["a", "b"])
    assert text is not None
    assert split_key(text) == values


@pytest.mark.slow
def test_an_old_row_that_the_wal_lacks_is_reported_everywhere(
    user: User, db: Connection[Any]
) -> None:
    """At the attach, by `why` and by the doctor: such a condition never matches."""
    notices = list[str]()
    db.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    attach(db, "on=update, when=\"old.issue = 'x'\"")
    assert any('"issue" from old' in notice for notice in notices)
    assert "the condition reads issue from old" in user.types("why", "support_tickets", "1").out
    assert "replica identity full" in user.types("doctor").out
    db.execute("alter table support_tickets replica identity full")
    assert "from old" not in user.types("doctor").out
