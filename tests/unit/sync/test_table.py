"""Keys of rows, and values as PostgreSQL writes them."""

from dataclasses import replace
from decimal import Decimal
from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sync.build import column
from walagent.domain.change import UNCHANGED, Value
from walagent.postgres import pgtypes
from walagent.sync.table import ShapeTable, key_part, schema_header, writer_of

# Texts full of what separates the parts of a key.
VALUES = st.lists(st.none() | st.text(st.sampled_from('/"_.a'), max_size=5), min_size=1, max_size=3)
KEYED = ShapeTable(
    7,
    "pu.b/",
    'it"em',
    [column("z", 25, pk_index=1), column("note", 25), column("a", 25, pk_index=0)],
    has_policies=False,
    identity="d",
)


@given(VALUES, VALUES)
def test_different_rows_have_different_keys(one: list[str | None], other: list[str | None]) -> None:
    """Whatever their values contain; NULL is no text."""
    keys = ["".join(map(key_part, values)) for values in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


def test_a_key_names_the_table_and_the_primary_key_in_its_order() -> None:
    """Not in the order of the columns."""
    assert KEYED.key == ["a", "z"]
    assert KEYED.key_of({"z": "1", "a": "x/y", "note": "n"}) == '"pu..b//"."it""em"/"x//y"/"1"'


def test_without_a_primary_key_a_row_is_named_by_all_columns() -> None:
    """By their names, so that another order is no other key."""
    table = ShapeTable(7, "public", "item", [column("b", 25), column("a", 25)], False, "f")  # noqa: FBT003
    assert not table.has_key
    assert table.key_of({"b": None, "a": "1"}) == '"public"."item"/"1"/_'


@given(st.floats())
def test_a_float_is_written_so_that_it_is_read_again(value: float) -> None:
    """With PostgreSQL's words for what is no number."""
    text = writer_of(pgtypes.FLOAT8)(value)
    assert float(text) == value or (isnan(value) and text == "NaN")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "-0"), (1.0, "1"), (-1.5, "-1.5"), (0.1, "0.1"), (100.0, "100"),
        (1e14, "100000000000000"), (123456789012345.0, "123456789012345"), (1e15, "1e+15"),
        (1.5e300, "1.5e+300"), (0.0001, "0.0001"), (0.00012, "0.00012"), (1e-5, "1e-05"),
        (-1.25e-7, "-1.25e-07"), (1e-100, "1e-100"), (inf, "Infinity"),
        (-inf, "-Infinity"), (nan, "NaN"),
    ],
)  # fmt: skip
def test_floats_have_the_form_that_postgresql_gives_them(value: float, text: str) -> None:
    """As `select 1e15::float8` prints it."""
    assert writer_of(pgtypes.FLOAT8)(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (999999.0, "999999"), (1e6, "1e+06"), (1234567.0, "1.234567e+06")],
)
def test_a_float_of_four_bytes_has_an_exponent_earlier(value: float, text: str) -> None:
    """It has six digits for sure, and not fifteen."""
    assert writer_of(pgtypes.FLOAT4)(value) == text


@pytest.mark.parametrize(
    "text", ["0", "1.50", "-0.000001", "1000000000000000000000", "NaN", "Infinity", "-Infinity"]
)
def test_numbers_keep_their_scale(text: str) -> None:
    """And have no exponent."""
    assert writer_of(pgtypes.NUMERIC)(Decimal(text)) == text


def test_a_row_has_the_values_that_were_sent() -> None:
    """NULL was sent, an unchanged value was not, and another column is none of the table."""
    row: dict[str, Value] = {"a": "x", "z": None, "note": UNCHANGED, "dropped": 1}
    assert KEYED.texts(row) == {"a": "x", "z": None}
    assert KEYED.texts(row, frozenset({"z"})) == {"z": None}


@pytest.mark.parametrize(
    ("kind", "typmod", "said"),
    [
        ("varchar", 24, '"max_length":20'), ("bpchar", 14, '"length":10'),
        ("numeric", (12 << 16 | 2) + 4, '"precision":12,"scale":2'),
        ("numeric", (3 << 16 | (-2 & 0x7FF)) + 4, '"precision":3,"scale":-2'),
        ("timestamptz", 3, '"precision":3'), ("bit", 8, '"length":8'),
        ("varbit", 8, '"max_length":8'),
        ("int4", -1, '"type":"int4"'),
    ],
)  # fmt: skip
def test_the_header_has_the_modifiers_of_types(kind: str, typmod: int, said: str) -> None:
    """As they are declared: numeric(12,2), varchar(20)."""
    typed = replace(column("a", 25), type_name=kind, typmod=typmod)
    table = ShapeTable(7, "public", "item", [typed, column("b", 25)], False, "d")  # noqa: FBT003
    assert said in schema_header(table, ["a"])
    assert '"b"' not in schema_header(table, ["a"])
