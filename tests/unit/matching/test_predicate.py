"""What a condition reads of changes."""

from dataclasses import replace
from decimal import Decimal

import orjson

from tests.helpers.build import TICKETS, attachment, change, changed
from walagent.domain.attachment import Attachment
from walagent.domain.change import UNCHANGED, Column, Op, Row
from walagent.matching.predicate import (
    MAX_EVALUATED,
    columns,
    needed,
    oversized,
    rows,
    texts,
)
from walagent.message import Json

DESK = attachment(condition="(new.status = 'open')", condition_columns=("status",))


def given(on: Attachment, op: Op, new: Row | None, old: Row | None = None) -> Json:
    """One row of the parameter, as PostgreSQL reads it."""
    (row,) = orjson.loads(orjson.dumps(rows(on, [(7, change(op, new, old))])))
    return row


def test_what_is_needed_comes_with_its_type_at_the_change() -> None:
    """Of a relation that was not described nothing is known; of a missing column neither."""
    other = changed(DESK, condition_columns=("status", "gone"))
    assert needed(other, TICKETS) == [("status", 25), ("gone", 0), ("id", 20)]
    assert needed(changed(DESK, whole_row=True), TICKETS) == [("id", 20), ("status", 25)]
    assert needed(changed(DESK, whole_row=True), replace(TICKETS, columns=())) is None


def test_a_row_is_given_with_its_number() -> None:
    """New and old side, of which what the condition reads; a side that is not there is null."""
    assert given(DESK, Op.INSERT, {"id": 1, "status": "a"}) == {
        "n": 7,
        "new": {"status": "a"},
        "old": None,
        "key": None,
    }
    assert given(DESK, Op.DELETE, None, {"id": 1})["new"] is None
    assert given(DESK, Op.TRUNCATE, None) == {"n": 7, "new": None, "old": None, "key": None}
    whole = given(changed(DESK, whole_row=True), Op.INSERT, {"id": 1, "status": "a"})
    assert whole["new"] == {"id": 1, "status": "a"}


def test_what_the_wal_left_out_is_taken_from_the_old_row() -> None:
    """Where that has it, nothing has to be looked up."""
    new, old = {"id": 1, "status": UNCHANGED}, {"id": 1, "status": "open"}
    found = given(DESK, Op.UPDATE, new, old)
    assert found["new"] == {"status": "open"}
    assert found["key"] is None


def test_else_the_present_row_is_looked_up_by_its_key() -> None:
    """But only when the condition reads such a column."""
    new = {"id": 1, "status": UNCHANGED, "body": "x"}
    found = given(DESK, Op.UPDATE, new, {"id": 1})
    assert found["new"] == {}
    assert found["key"] == {"id": 1}
    other = attachment(condition="new.body = 'x'", condition_columns=("body",))
    assert given(other, Op.UPDATE, new, {"id": 1})["key"] is None
    assert given(changed(DESK, whole_row=True), Op.UPDATE, new)["key"] == {"id": 1}
    assert given(changed(DESK, key_columns=()), Op.UPDATE, new)["key"] is None


def test_json_is_given_as_json() -> None:
    """A string in its place would be a JSON string to PostgreSQL."""
    on = attachment(json_columns={"a": "json", "b": "jsonb"}, whole_row=True)
    row = {"id": 1, "a": '{"x": 1}', "b": "[1, 2]", "c": "[3]"}
    expected = {"id": 1, "a": {"x": 1}, "b": [1, 2], "c": "[3]"}
    found = given(on, Op.UPDATE, row, row)
    assert (found["new"], found["old"]) == (expected, expected)


def test_the_relation_decides_what_holds_json() -> None:
    """A column may have become JSON since the agent was attached, or have been it until then."""
    on = attachment(json_columns={"a": "json", "d": "jsonb"}, whole_row=True)
    types = {"a": 25, "b": 3802, "c": 114, "d": 20000}  # d: a domain
    columns = tuple(Column(name, oid, "", in_key=False) for name, oid in types.items())
    it = replace(
        change(Op.INSERT, dict.fromkeys("abcd", "[1]")), relation=replace(TICKETS, columns=columns)
    )
    (row,) = orjson.loads(orjson.dumps(rows(on, [(0, it)])))
    assert row["new"] == {"a": "[1]", "b": [1], "c": [1], "d": [1]}


def test_bytes_that_are_no_text_are_given_as_they_are() -> None:
    """A database without an encoding holds them, and there they are what the column is."""
    on = attachment(whole_row=True, json_columns={"j": "jsonb"})
    row = {"t": 'a"\udcff\\', "j": '{"k": "\udcfe"}'}
    document = orjson.dumps(rows(on, [(0, change(Op.INSERT, row))]))
    assert rb'"t":"a\"' + b"\xff" + rb"\\" in document
    assert b'"j":{"k": "\xfe"}' in document


def test_a_value_too_large_for_a_condition_is_found_where_the_condition_reads_it() -> None:
    """On either side; other columns are none of its business."""
    large = "x" * (MAX_EVALUATED + 1)
    assert oversized(DESK, change(Op.INSERT, {"id": 1, "status": large})) == (
        "status", MAX_EVALUATED + 1
    )  # fmt: skip
    assert oversized(DESK, change(Op.DELETE, None, {"id": 1, "status": large})) is not None
    assert oversized(DESK, change(Op.INSERT, {"id": 1, "status": "open", "body": large})) is None
    whole = changed(DESK, whole_row=True)
    assert oversized(whole, change(Op.INSERT, {"id": 1, "body": large})) is not None


# By columns.


def test_values_are_given_as_text_one_tuple_for_each_change() -> None:
    """The new side alone, where no change has an old one; NULL is None on a side without a row."""
    on = changed(DESK, condition_columns=("status", "id"))
    inserts = [
        change(Op.INSERT, {"id": n, "status": status}) for n, status in ((1, "a"), (2, None))
    ]
    assert texts(columns([on]), inserts) == (("new",), [("a", "1"), (None, "2")])
    mixed = [*inserts, change(Op.DELETE, None, {"id": 3})]
    assert texts(columns([on]), mixed) == (
        ("new", "old"),
        [("a", "1", None, None), (None, "2", None, None), (None, None, None, "3")],
    )


def test_numbers_are_given_with_all_that_they_are() -> None:
    """Digits, scale and what is no number; a boolean is no 1."""
    on = changed(DESK, condition_columns=("id",))
    values = [Decimal("1.00"), Decimal("NaN"), 0.1, -0.0, float("inf"), True, False, None, 1]
    found = texts(columns([on]), [change(Op.INSERT, {"id": value}) for value in values])
    assert found is not None
    assert [value for (value,) in found[1]] == [
        "1.00", "NaN", "0.1", "-0.0", "inf", "true", "false", None, "1"
    ]  # fmt: skip


def test_what_is_not_all_there_is_not_given_by_columns() -> None:
    """A whole row, no column at all, a value that the WAL left out, or one that is too large."""
    plain = [change(Op.INSERT, {"id": 1, "status": "open"})]
    assert texts(columns([changed(DESK, whole_row=True)]), plain) is None
    assert texts(columns([changed(DESK, condition_columns=())]), plain) is None
    assert texts(columns([DESK]), [change(Op.TRUNCATE, None)]) is None
    for value in (UNCHANGED, "x" * (MAX_EVALUATED + 1)):
        bad = change(Op.UPDATE, {"id": 1, "status": value})
        assert texts(columns([DESK]), [*plain, bad]) is None


def test_conditions_together_read_what_each_of_them_reads() -> None:
    """Each column once; not by columns, if one of them could not be read so alone."""
    first, second = (changed(DESK, condition_columns=names) for names in (("a", "b"), ("b", "c")))
    assert columns([first, second]) == ["a", "b", "c"]
    assert columns([first, changed(DESK, whole_row=True)]) == ()
    assert columns([changed(DESK, condition_columns=()), first]) == ()
