"""Tables on a terminal: what is shortened, what is omitted, and what never is."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from walagent.cli.terminal.table import Below, Column, Dollars, Row, Screen, age, column, lay_out

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LONG = "a column that was dropped is used by the condition, as is another one"


def shown(rows: list[Row], screen: Screen, width: int) -> list[str]:
    """The lines of a table."""
    return [line.text for line in lay_out(rows, screen, width, NOW)[0]]


def test_the_longest_texts_are_shortened_first_and_numbers_never() -> None:
    """A short text stays whole beside a long one."""
    rows: list[Row] = [
        {"id": 1234567, "name": "desk", "key": "f3d15830-f275-40e0-8af7-53a0f9cec812"},
        {"id": 2, "name": "triage", "key": "2"},
    ]
    screen = Screen([column("id"), column("name"), column("key")])
    assert shown(rows, screen, 30) == [
        "     id  name    key",
        "1234567  desk    f3d15830-f27…",
        "      2  triage  2",
    ]


def test_an_error_is_a_line_below_its_row() -> None:
    """Shortened with an ellipsis; wrapped only where a person has to read all of it."""

    def below(row: Row) -> Iterable[Below]:
        yield Below(row["error"], whole=row["id"] == 2)

    rows: list[Row] = [{"id": 1, "error": LONG}, {"id": 2, "error": LONG}]
    first, second = 1, 3
    lines = shown(rows, Screen([column("id")], below), 40)
    assert lines[first + 1] == "    a column that was dropped is used b…"
    assert " ".join(line.strip() for line in lines[second + 1 :]) == LONG


def test_a_column_of_nulls_and_zeros_is_omitted() -> None:
    """It would take space from the others."""
    rows: list[Row] = [{"a": 0, "b": None, "c": "x"}]
    assert shown(rows, Screen([column("a"), column("b"), column("c")]), 80) == ["c", "x"]


def test_columns_that_do_not_fit_are_named() -> None:
    """From the right, and never the first."""
    rows: list[Row] = [{"id": 10**9, "cost": 10**9, "tokens": 10**9}]
    lines, omitted = lay_out(rows, Screen([column(c) for c in rows[0]]), 25, NOW)
    assert omitted == ["tokens"]
    assert lines[0].text.split() == ["id", "cost"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (7199, "119m"), (7200, "2h"), (172_800, "2d"),
     (20 * 86_400, "20d"), (30 * 86_400, "4w"), (3 * 365 * 86_400, "3y"), (-90, "in 1m")],
)  # fmt: skip
def test_a_time_is_its_age(seconds: int, text: str) -> None:
    """In the largest unit of which it has two; before it, with "in"."""
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0.00"),
        (0.0038, "0.0038"),
        (0.1, "0.10"),
        (1.234567, "1.23"),
        (0.000012, "0.000012"),
        (0.00000031, "0.00000031"),
    ],
)
def test_dollars_have_as_many_decimals_as_they_need(amount: float, text: str) -> None:
    """Cents of an amount above a dollar; a run costs less than a cent."""
    assert str(Dollars(amount)) == text


@given(
    rows=st.lists(
        st.fixed_dictionaries({"a": st.text(max_size=60), "b": st.text(max_size=60)}), min_size=1
    ),
    width=st.integers(20, 200),
)
def test_no_line_is_wider_than_the_terminal(rows: list[Row], width: int) -> None:
    """Whatever a row contains: wide characters, none at all, line ends, controls."""

    def below(row: Row) -> Iterable[Below]:
        yield Below(row["b"])
        yield Below(row["a"], whole=True)

    screen = Screen([column("a"), Column("b", lambda row: row["b"])], below)
    for line in shown(rows, screen, width):
        assert cell_len(line) <= width
        assert "\n" not in line
