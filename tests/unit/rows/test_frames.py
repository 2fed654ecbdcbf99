"""Rows as data frames: no value loses anything on the way, whatever its type."""

import math
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pandas as pd
import polars as pl
import pytest

from walagent.errors import PreconditionError
from walagent.rows.rows import ResultColumn, Rows

NAMES = {
    "i": 23,
    "big": 20,
    "yes": 16,
    "f": 701,
    "num": 1700,
    "at": 1184,
    "plain": 1114,
    "day": 1082,
    "id": 2950,
    "s": 25,
    "took": 1186,
    "doc": 3802,
    "list": 1007,
    "raw": 17,
}
FIRST = (
    "1",
    "9223372036854775807",
    "t",
    "1.5",
    "12345678901234567890.123456789",
    "2024-03-31 02:30:00.123456+02",
    "1000-01-01 00:00:00",
    "0001-01-01",
    "6f1b2a0e-0000-4000-8000-000000000001",
    "",
    "1 day 02:00:00",
    '{"a": 1}',
    "{1,2}",
    "\\x00ff",
)
ROWS = Rows([ResultColumn(*each) for each in NAMES.items()], [FIRST, (None,) * len(NAMES)])
WHOLE = {
    "i": 1,
    "big": 9223372036854775807,
    "yes": True,
    "f": 1.5,
    "num": Decimal("12345678901234567890.123456789"),
    "at": datetime(2024, 3, 31, 0, 30, 0, 123456, UTC),
    "plain": datetime(1000, 1, 1),  # noqa: DTZ001 - a timestamp without a zone
    "day": date(1, 1, 1),
    "id": UUID("6f1b2a0e-0000-4000-8000-000000000001"),
    "s": "",
    "took": timedelta(days=1, hours=2),
    "doc": {"a": 1},
    "list": [1, 2],
    "raw": b"\x00\xff",
}


def one(text: str | None, oid: int, *more: str | None) -> Rows:
    """Rows of one column."""
    return Rows([ResultColumn("x", oid)], [(text,), *((each,) for each in more)])


def test_a_frame_of_pandas_has_every_value_and_every_null() -> None:
    """The largest bigint, a numeric beyond any float, a time with its zone, an empty text."""
    frame = ROWS.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert {name: frame[name][0] for name in NAMES} == WHOLE
    assert [bool(pd.isna(frame[name][1])) for name in NAMES] == [True] * len(NAMES)
    assert str(frame["at"].dtype) == "datetime64[us, UTC]"
    assert str(frame["big"].dtype) == "Int64"
    assert len(frame) == 2


def test_a_frame_of_polars_has_every_value_and_every_null() -> None:
    """What it has no type for is the text that PostgreSQL wrote."""
    frame = ROWS.to_polars()
    assert isinstance(frame, pl.DataFrame)
    texts = {name: FIRST[list(NAMES).index(name)] for name in ("id", "doc", "list")}
    assert frame.row(0, named=True) == WHOLE | texts
    assert frame.row(1) == (None,) * len(NAMES)
    assert frame.schema["num"] == pl.Decimal(38, 9)
    assert frame.schema["at"] == pl.Datetime("us", "UTC")


@pytest.mark.parametrize(
    ("text", "oid"),
    [
        ("infinity", 1184),
        ("0044-03-15 00:00:00 BC", 1114),
        ("1 mon", 1186),
        ("24:00:00", 1083),
        ("NaN", 1700),
        ("1" * 40, 1700),
    ],
)
def test_what_a_library_lacks_is_the_text_or_the_object(text: str, oid: int) -> None:
    """Nothing is rounded, and no month has thirty days."""
    assert one(text, oid, None).to_polars()["x"].to_list() == [text, None]
    assert str(one(text, oid).to_pandas()["x"][0]) == text


def test_null_and_nan_are_two_things() -> None:
    """As far as the library can tell them apart."""
    assert str(one("1.5", 701, None).to_pandas()["x"].dtype) == "float64"
    nan, null = one("NaN", 701, None).to_pandas()["x"]
    assert math.isnan(nan)
    assert null is None
    nan, null = one("NaN", 701, None).to_polars()["x"]
    assert math.isnan(nan)
    assert null is None


def test_columns_of_one_name_are_numbered() -> None:
    """A join makes them; neither library should drop one."""
    rows = Rows([ResultColumn(name, 25) for name in ("a", "a", "a (1)")], [("x", "y", "z")])
    assert rows.distinct_names == ["a (1)", "a (2)", "a (1) (1)"]
    assert rows.to_polars().row(0) == ("x", "y", "z")
    assert list(rows.to_pandas().columns) == list(rows.distinct_names)
    assert rows.dicts() == [{"a (1)": "x", "a (2)": "y", "a (1) (1)": "z"}]


def test_no_rows_are_a_frame_with_the_columns() -> None:
    """Of their types."""
    empty = Rows([ResultColumn("n", 20)])
    assert empty.to_polars().schema == {"n": pl.Int64}
    assert str(empty.to_pandas()["n"].dtype) == "Int64"
    assert len(Rows(()).to_pandas()) == len(Rows(()).to_polars()) == 0


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_library_that_is_missing_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PreconditionError, match=f"{name} is not installed") as caught:
        getattr(ROWS, f"to_{name}")()
    assert caught.value.hint == f"Run pip install {name}"
