"""Two results are the same by their values, whatever their columns are called."""

from typing import Any

import pytest

from walagent.rows import equal
from walagent.rows.equal import same_rows

COUNTRIES = [(f"C{n}", n) for n in range(9)]
TURNED = [(f"{n}.000", "more", code.lower()) for code, n in COUNTRIES]


def test_rows_are_compared_by_value() -> None:
    """Names, order of columns and spelling do not count; values and number of rows do."""
    assert same_rows(COUNTRIES, TURNED[::-1])
    assert not same_rows(COUNTRIES, TURNED[1:])
    assert not same_rows(COUNTRIES, [*TURNED[1:], TURNED[1]])
    assert not same_rows(
        COUNTRIES, [(n, code) for code, (_, n) in zip("abcdefghi", COUNTRIES, strict=True)]
    )


def test_the_order_of_rows_counts_where_it_was_asked_for() -> None:
    """The same rows from the end to the beginning are others then."""
    assert not same_rows(COUNTRIES, TURNED[::-1], ordered=True)
    assert same_rows(COUNTRIES, TURNED, ordered=True)


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        ([("2025-01", 1.04)], [("2025-01-01 00:00:00", "1.09")], True),
        ([("2025-01", 1.04)], [("2025-01-01 00:00:00", "1.10")], False),
        ([(None, 1)], [(None, "1")], True),
        ([(None, 1)], [("none", "1")], False),
        ([(1,)], [("NaN",)], False),
        ([(True,)], [("t",)], True),
        ([], [], True),
    ],
)
def test_cells_are_compared_by_what_they_mean(
    expected: list[tuple[object, ...]], found: list[tuple[object, ...]], *, same: bool
) -> None:
    """Numbers within a bound, dates by their beginning, NULL by itself."""
    assert same_rows(expected, found, within=0.051) is same


def test_a_column_is_not_expected_twice() -> None:
    """Two equal expected columns need two, and pairs of values stay together."""
    assert not same_rows([(1, 1), (2, 2)], [(1, 3), (2, 4)])
    assert not same_rows([(1, "a"), (2, "b")], [(1, "b"), (2, "a")])


def test_many_columns_that_look_alike_end_soon() -> None:
    """Of forty columns with the same values, not all orders of eight are tried."""
    wide = [tuple(range(8)), tuple(range(8, 16))]
    alike = [(0,) * 40, (8,) * 40]
    assert not same_rows([(0,) * 8, (9,) * 8], alike)
    assert not same_rows(wide, alike)


def test_of_many_rows_not_each_is_compared_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that have the same values in other rows would be a million pairs for each choice."""
    compared, same = [0], equal._same  # noqa: SLF001 - what is counted

    def counted(*given: Any) -> bool:  # noqa: ANN401 - two rows and a tolerance
        compared[0] += 1
        return same(*given)

    monkeypatch.setattr(equal, "_same", counted)
    count = 1_000
    expected = [(n, n) for n in range(count)]
    found = [tuple((n * k) % count for k in (1, 3, 7, 9, 11, 13, 17, 19)) for n in range(count)]
    assert not same_rows(expected, found)
    assert same_rows(expected, [(n, n) for n in reversed(range(count))])
    assert compared[0] < 100 * count
