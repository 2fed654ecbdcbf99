"""The statement that judges conditions, and what is given to it."""

import orjson

from tests.helpers.build import attachment, change
from walagent.attachment import Attachment
from walagent.change import UNCHANGED, Op, Row
from walagent.matching.predicate import rows, statement
from walagent.message import Json

DESK = attachment(condition="(new.status = 'open')", condition_columns=("status",))


def text(on: Attachment) -> str:
    """The statement as it is sent."""
    return statement(on).as_string()


def given(on: Attachment, op: Op, new: Row | None, old: Row | None = None) -> Json:
    """One row of the parameter, as PostgreSQL reads it."""
    (row,) = orjson.loads(orjson.dumps(rows(on, [(7, change(op, new, old))])))
    return row


def test_the_condition_stands_in_parentheses_as_it_is() -> None:
    """Percent signs, dollars and braces are nothing special."""
    made = text(attachment(condition="new.a like '{x}%' or new.b = '%s $2'"))
    assert "(new.a like '{x}%' or new.b = '%s $2')" in made


def test_names_are_quoted() -> None:
    """Schema, table and key columns, however they are called."""
    made = text(attachment(schema='a"b', table="T s", key_columns=('k"',), condition="true"))
    assert '"a""b"."T s"' in made
    assert 't."k""" = wanted."k"""' in made


def test_a_table_without_a_key_has_no_present_row() -> None:
    """Then what the WAL did not bring is NULL."""
    made = text(attachment(key_columns=(), condition="true"))
    assert "present" not in made
    assert 'jsonb_populate_record(null::"public"."tickets", given.new)' in made


def test_no_condition_is_true() -> None:
    """The statement is well formed all the same."""
    assert text(attachment()).startswith("select given.n, (true)")


def test_a_row_is_given_with_its_number() -> None:
    """New and old side; a side that is not there is null."""
    assert given(DESK, Op.INSERT, {"id": 1}) == {
        "n": 7,
        "new": {"id": 1},
        "old": None,
        "key": None,
    }
    assert given(DESK, Op.DELETE, None, {"id": 1})["new"] is None
    assert given(DESK, Op.TRUNCATE, None) == {"n": 7, "new": None, "old": None, "key": None}


def test_what_the_wal_left_out_is_taken_from_the_old_row() -> None:
    """Where that has it, nothing has to be looked up."""
    new, old = {"id": 1, "status": UNCHANGED}, {"id": 1, "status": "open"}
    found = given(DESK, Op.UPDATE, new, old)
    assert found["new"] == {"id": 1, "status": "open"}
    assert found["key"] is None


def test_else_the_present_row_is_looked_up_by_its_key() -> None:
    """But only when the condition reads such a column."""
    new = {"id": 1, "status": UNCHANGED, "body": "x"}
    found = given(DESK, Op.UPDATE, new, {"id": 1})
    assert found["new"] == {"id": 1, "body": "x"}
    assert found["key"] == {"id": 1}
    other = attachment(condition="new.body = 'x'", condition_columns=("body",))
    assert given(other, Op.UPDATE, new, {"id": 1})["key"] is None


def test_json_is_given_as_json() -> None:
    """A string in its place would be a JSON string to PostgreSQL."""
    on = attachment(json_columns={"a": "json", "b": "jsonb"})
    row = {"id": 1, "a": '{"x": 1}', "b": "[1, 2]", "c": "[3]"}
    expected = {"id": 1, "a": {"x": 1}, "b": [1, 2], "c": "[3]"}
    found = given(on, Op.UPDATE, row, row)
    assert (found["new"], found["old"]) == (expected, expected)
