"""A change as a run keeps it, and the texts that name its row and ordering_key."""

import json
import math
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.build import attachment, change, tool
from walagent.domain.change import UNCHANGED, Op, Row, Value
from walagent.matching.document import (
    MAX_ROW,
    MAX_TEXT,
    SizeLimits,
    cut_off,
    document,
    joined,
    key_of,
    ordering_key_of,
    row_json,
    row_of,
)
from walagent.message import Json
from walagent.store.codecs.exact import exact

DESK = attachment()


def kept(row: Row, **changes: Json) -> Json:
    """The new row as a run keeps it, as text and back."""
    text = orjson.dumps(document(change(Op.INSERT, row), attachment(**changes)), default=exact)
    return json.loads(text, parse_float=Decimal)["new"]


def test_a_change_says_what_happened_where() -> None:
    """Operation, table, and the sides that there are."""
    assert document(change(Op.UPDATE, {"id": 2}, {"id": 1}), DESK) == {
        "op": "update",
        "schema": "public",
        "table": "tickets",
        "new": {"id": 2},
        "old": {"id": 1},
    }
    assert document(change(Op.DELETE, None, {"id": 1}), DESK) == {
        "op": "delete",
        "schema": "public",
        "table": "tickets",
        "old": {"id": 1},
    }
    truncated = {"op": "truncate", "schema": "public", "table": "tickets"}
    assert document(change(Op.TRUNCATE), DESK) == truncated


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        (True, True),
        (2**63 - 1, 2**63 - 1),
        ("", ""),
        ("a\x01\n\"'\\", "a\x01\n\"'\\"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (0.1, Decimal("0.1")),
        (Decimal("NaN"), "NaN"),
        (Decimal("Infinity"), "Infinity"),
        (Decimal("12345678901234567890.1234567890"), Decimal("12345678901234567890.1234567890")),
        (Decimal("1E+3"), Decimal(1000)),
        ("\udcff", "\\xff"),
        ("a\udc80ö", "a\\x80ö"),
    ],
)
def test_every_value_has_a_form(value: Value, written: Json) -> None:
    """Numbers keep their digits; what JSON has no form for is PostgreSQL's word for it."""
    assert kept({"v": value})["v"] == written


def test_unchanged_is_neither_a_value_nor_null() -> None:
    """The column is left out, and named."""
    found = document(change(Op.UPDATE, {"id": 1, "long": UNCHANGED}), DESK)
    assert found["new"] == {"id": 1}
    assert found["unchanged"] == ["long"]


def test_only_what_is_needed_is_kept() -> None:
    """The columns that the agent is shown, its row's key, and what its tools are given."""
    row = {"id": 1, "status": "open", "owner": 5, "secret": "x"}
    tools = (tool(bind={"user": "owner"}),)
    assert kept(row, columns=frozenset({"status"}), tools=tools) == {
        "id": 1,
        "status": "open",
        "owner": 5,
    }


def test_too_long_a_text_is_cut_and_said_to_be() -> None:
    """Its full length is told."""
    found = document(change(Op.INSERT, {"id": 1, "a": "x" * (MAX_TEXT + 5)}), DESK)
    assert len(found["new"]["a"]) == MAX_TEXT
    assert found["truncated"] == {"a": MAX_TEXT + 5}


def test_what_was_cut_of_the_old_row_is_not_said_of_the_new_one() -> None:
    """Of a column that the new row does not have, it is."""
    old = {"id": 1, "a": "x" * (MAX_TEXT + 5), "long": "y" * (MAX_TEXT + 7)}
    found = document(change(Op.UPDATE, {"id": 1, "a": "x", "long": UNCHANGED}, old), DESK)
    assert found["truncated"] == {"long": MAX_TEXT + 7}
    longer = document(change(Op.UPDATE, {"id": 1, "a": "x" * (MAX_TEXT + 6)}, old), DESK)
    assert longer["truncated"] == {"a": MAX_TEXT + 6, "long": MAX_TEXT + 7}


def test_too_large_a_row_is_cut_where_its_room_ends() -> None:
    """What comes later is cut to nothing, and not forgotten."""
    row = {"id": 1, **{f"c{n}": "x" * MAX_TEXT for n in range(6)}, "last": "y"}
    found = document(change(Op.INSERT, row), DESK)
    texts = [value for value in found["new"].values() if isinstance(value, str)]
    assert sum(map(len, texts)) == MAX_ROW
    assert found["new"]["last"] == ""
    assert found["truncated"] == {"c4": MAX_TEXT, "c5": MAX_TEXT, "last": 1}


def test_what_names_a_row_is_kept_whatever_room_there_is() -> None:
    """The key and what tools are given stand behind large values, and must not be cut for them."""
    tools = (tool(bind={"user": "owner"}),)
    row = {**{f"c{n}": "x" * MAX_TEXT for n in range(5)}, "owner": "ann", "id": "k-1"}
    found = kept(row, tools=tools)
    assert (found["owner"], found["id"]) == ("ann", "k-1")


def test_how_much_is_kept_can_be_said() -> None:
    """Per value and per row."""
    row = {"id": 1, "a": "x" * 30, "b": "y" * 30}
    found = document(change(Op.INSERT, row), DESK, SizeLimits(value=20, row=25))
    assert found["new"] == {"id": 1, "a": "x" * 20, "b": "y" * 5}
    assert found["truncated"] == {"a": 30, "b": 30}


def test_a_value_that_a_tool_would_get_a_part_of_is_found() -> None:
    """Only what a tool is bound to; what the model is shown says itself that it was cut."""
    on = attachment(tools=(tool(bind={"text": "body"}),))
    large = change(Op.INSERT, {"id": 1, "body": "x" * (MAX_TEXT + 1), "other": "x" * MAX_TEXT * 2})
    assert cut_off(large, on) == ("body", MAX_TEXT + 1)
    assert cut_off(large, DESK) is None
    assert cut_off(large, on, SizeLimits(value=MAX_TEXT + 1)) is None


def test_jsonb_is_kept_as_json() -> None:
    """Digits and all; json, which may hold what jsonb refuses, and cut text stay text."""
    columns = {"doc": "jsonb", "plain": "json", "long": "jsonb"}
    row = {
        "doc": '{"a": [1.50, null]}',
        "plain": '{"a": "\\u0000"}',
        "long": '"' + "x" * MAX_TEXT + '"',
    }
    found = kept(row, json_columns=columns)
    assert found["doc"] == {"a": [Decimal("1.50"), None]}
    assert found["plain"] == '{"a": "\\u0000"}'
    assert isinstance(found["long"], str)
    assert kept({"doc": None}, json_columns=columns) == {"doc": None}


def test_a_whole_row_is_for_postgresql_to_read_back() -> None:
    """Uncut, and without what the WAL did not bring."""
    row = {"a": "x" * (MAX_TEXT + 1), "b": UNCHANGED, "c": None}
    assert row_json(row) == {"a": "x" * (MAX_TEXT + 1), "c": None}
    assert row_json(None) is None
    assert orjson.dumps(row_json({"j": '{"a":1}'}, ["j"])) == b'{"j":{"a":1}}'


@pytest.mark.parametrize(
    ("op", "expected"), [(Op.INSERT, {"id": 2}), (Op.UPDATE, {"id": 2}), (Op.DELETE, {"id": 1})]
)
def test_the_row_is_the_side_that_says_which_it_is(op: Op, expected: Row) -> None:
    """The old one of a delete."""
    assert row_of(change(op, {"id": 2}, {"id": 1})) == expected


def test_a_truncate_is_about_no_row() -> None:
    """It has no key and no ordering key of its own."""
    it = change(Op.TRUNCATE)
    assert row_of(it) == {}
    assert key_of(row_of(it), DESK) is None


def test_a_table_without_a_key_has_none() -> None:
    """Neither key nor order."""
    on = attachment(key_columns=())
    assert key_of({"a": 1}, on) is None
    assert ordering_key_of(change(Op.INSERT, {"a": 1}), on) is None


def test_the_ordering_key_is_the_key_unless_said_otherwise() -> None:
    """Columns, or no order at all."""
    it = change(Op.INSERT, {"id": 1, "customer": 7})
    assert ordering_key_of(it, DESK) == "1"
    assert ordering_key_of(it, attachment(ordering_key=("customer",))) == "7"
    assert ordering_key_of(it, attachment(ordering_key=("customer", "id"))) == "7,1"
    assert ordering_key_of(it, attachment(ordering_key=())) is None


def test_an_update_of_the_key_stays_behind_what_came_before_it() -> None:
    """In the ordering key of the old key, where the WAL tells it."""
    assert ordering_key_of(change(Op.UPDATE, {"id": 2}, {"id": 1}), DESK) == "1"
    on = attachment(ordering_key=("customer",))
    moved = change(Op.UPDATE, {"id": 1, "customer": 8}, {"id": 1, "customer": 7})
    assert ordering_key_of(moved, on) == "7"
    untold = change(Op.UPDATE, {"id": 1, "customer": 8}, {"id": 1})
    assert ordering_key_of(untold, on) == "8"


@given(
    st.lists(
        st.tuples(st.text(max_size=5), st.text(max_size=5)).map(tuple),
        min_size=2,
        max_size=6,
        unique=True,
    )
)
def test_different_values_make_different_texts(rows: list[tuple[str, str]]) -> None:
    """Whatever they hold: commas, backslashes, nothing."""
    texts = [joined({"a": a, "b": b}, ("a", "b")) for a, b in rows]
    assert len(set(texts)) == len(rows)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Decimal("1.50"), Decimal("1.5")),
        (Decimal(100), Decimal("1E+2")),
        (Decimal("0.0"), Decimal(0)),
    ],
)
def test_equal_numbers_make_equal_texts(one: Value, other: Value) -> None:
    """As PostgreSQL compares them."""
    assert joined({"a": one}, ["a"]) == joined({"a": other}, ["a"])
