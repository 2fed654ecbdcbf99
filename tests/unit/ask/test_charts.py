"""What of some rows is drawn, and how it looks as characters and as a picture."""

import struct

import pytest

from walagent.ask.charts import MOST_BARS, Chart, NoChart, chart_of
from walagent.cli.terminal.plotting import draw, paint
from walagent.rows.rows import ResultColumn, Rows

TEXT, INT, NUMERIC, FLOAT, DATE, TIMESTAMPTZ = 25, 20, 1700, 701, 1082, 1184
DAY = 86_400.0


def rows(columns: dict[str, int], *texts: tuple[str | None, ...]) -> Rows:
    """Rows."""
    return Rows([ResultColumn(*each) for each in columns.items()], texts)


def chart(columns: dict[str, int], *texts: tuple[str | None, ...]) -> Chart:
    """What is drawn of them."""
    found = chart_of(rows(columns, *texts))
    assert isinstance(found, Chart)
    return found


def test_numbers_over_times_are_lines() -> None:
    """In the order of time; what is NULL, NaN or infinite has no place."""
    found = chart(
        {"n": INT, "day": DATE, "m": FLOAT},
        ("2", "1970-01-03", "NaN"),
        ("1", "1970-01-02", "1.5"),
        (None, "1970-01-04", "Infinity"),
        ("7", "infinity", "1"),
    )
    assert (found.kind, found.axis, found.is_time) == ("lines", "day", True)
    assert found.series == {"n": [(DAY, 1), (2 * DAY, 2)], "m": [(DAY, 1.5)]}


def test_numbers_over_words_are_bars() -> None:
    """One for each row; of very many, the first."""
    found = chart({"country": TEXT, "n": NUMERIC}, ("CH", "1.5"), (None, None), ("FR", "-2"))
    assert (found.kind, found.labels) == ("bars", ["CH", "NULL", "FR"])
    assert found.series == {"n": [(0, 1.5), (2, -2)]}
    many = chart({"c": TEXT, "n": INT}, *((str(n), str(n)) for n in range(50)))
    assert len(many.labels) == MOST_BARS
    assert many.left_out == ["10 more rows are not drawn"]


def test_each_word_beside_a_time_has_a_line() -> None:
    """Months, countries, totals; as many as can be told apart."""
    texts = [(f"2024-0{m}-01", c, str(m)) for m in (2, 1) for c in "abcdefghi"]
    found = chart({"month": DATE, "country": TEXT, "n": INT}, *texts)
    assert list(found.series) == list("abcdefg")
    assert [y for _, y in found.series["a"]] == [1, 2]
    assert found.left_out == ["2 more series are not drawn"]


def test_numbers_alone_are_drawn_over_the_first_or_in_their_order() -> None:
    """Month 1 to 12, or whatever there is."""
    assert chart({"m": INT, "n": INT}, ("2", "5"), ("1", "4")).series == {"n": [(1, 4), (2, 5)]}
    alone = chart({"n": INT}, ("5",), ("4",))
    assert (alone.axis, alone.series) == ("row", {"n": [(1, 5), (2, 4)]})


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (rows({"n": INT}), "the result has no rows"),
        (rows({"n": INT}, ("1",)), "the result has one row"),
        (rows({"a": TEXT}, ("1",), ("2",)), "no column of the result has numbers"),
        (rows({"a": TEXT, "n": INT}, ("x", None), ("y", None)), "no row has both"),
    ],
)
def test_what_cannot_be_drawn_says_why(found: Rows, reason: str) -> None:
    """There is no empty picture."""
    said = chart_of(found)
    assert isinstance(said, NoChart)
    assert reason in said.reason


HOSTILE = "x\x1b]0;title\x07\n$\\frac{1}{$"


def pictures() -> list[Chart]:
    """One of each kind, with names from strangers."""
    over_time = {"at": TIMESTAMPTZ, HOSTILE: INT, "m": INT}
    times = [(f"2024-01-01 0{n}:00:00+00", str(n), str(-n)) for n in range(9)]
    return [
        chart(over_time, *times),
        chart({HOSTILE: TEXT, "n": INT}, (HOSTILE * 9, "1"), ("日本", "-3"), (None, None)),
        chart({"n": INT}, ("5",), ("5",)),
        chart({"a": TEXT, "n": INT, "m": INT}, ("x", "0", "0"), ("y", "0", None)),
    ]


@pytest.mark.parametrize("color", [True, False])
@pytest.mark.parametrize("width", [20, 80, 300])
def test_a_terminal_obeys_nothing_in_a_chart(width: int, *, color: bool) -> None:
    """Only colours are ours, and only where they are wanted."""
    for each in pictures():
        drawn = draw(each, width, color=color)
        assert "\x1b]" not in drawn
        assert "\x07" not in drawn
        assert color or "\x1b" not in drawn
        assert max(map(len, drawn.splitlines())) <= max(width + 12, 70)


def test_bars_are_as_long_as_their_numbers() -> None:
    """The longest fills the line; what is NULL has none."""
    found = chart({"c": TEXT, "n": INT}, ("CH", "20"), ("DE", "10"), ("FR", None))
    head, *bars = draw(found, 56, color=False).splitlines()
    assert head == "n"
    assert [bar.count("█") for bar in bars] == [40, 20, 0]
    assert [bar.split()[-1] for bar in bars] == ["20", "10", "NULL"]


def test_a_picture_is_a_png_of_its_size() -> None:
    """Names are no formulas, and letters that the font lacks are no warnings."""
    for each in pictures():
        png = paint(each)
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", png[16:24]) == (1200, 600)
