"""Rows as they are printed: exact, and harmless to whatever reads them."""

import csv
import io

import pytest

from walagent.cli.terminal.answer_rows import print_csv, print_markdown, print_table
from walagent.rows.rows import ResultColumn, Rows

TEXT, NUMBER = 25, 1700


def rows(*texts: tuple[str | None, ...], names: tuple[str, ...] = ("name", "n")) -> Rows:
    """Rows of a text and a number."""
    return Rows([ResultColumn(names[0], TEXT), ResultColumn(names[1], NUMBER)], texts)


def test_csv_is_what_postgresql_would_write(capsys: pytest.CaptureFixture[str]) -> None:
    """Commas, quotes, line ends and blanks come back as they were; NULL is not the empty text."""
    tricky = ['a,"b"', "two\nlines", " blank ", "", "é", "-"]
    print_csv(rows(*((text, "-1.50") for text in tricky[:-1]), (None, None)))
    out, err = capsys.readouterr()
    assert err == ""
    assert list(csv.reader(io.StringIO(out)))[1:-1] == [[text, "-1.50"] for text in tricky[:-1]]
    assert out.endswith('"",-1.50\né,-1.50\n,\n')


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r"])
def test_no_text_in_csv_is_a_formula(capsys: pytest.CaptureFixture[str], begin: str) -> None:
    """A spreadsheet would run it; numbers are numbers, whatever they begin with."""
    formula = f'{begin}HYPERLINK("http://evil.example")'
    print_csv(rows((formula, "-1"), ("fine", "+1"), names=("=name", "n")))
    out, err = capsys.readouterr()
    head, first, second = csv.reader(io.StringIO(out, newline=""))
    assert (head, first, second) == (["'=name", "n"], [f"'{formula}", "-1"], ["fine", "+1"])
    assert "1 values" in err


def test_markdown_shows_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """No link, picture, element or cell is made by a value."""
    print_markdown(
        rows(
            ("a|b <b>&amp; ![x](http://e) `c`\r\nd \x1b[31m", "1"), (None, None), names=("a_b", "n")
        )
    )
    assert capsys.readouterr().out.splitlines() == [
        r"| a\_b | n |",
        "| --- | ---: |",
        r"| a\|b &lt;b&gt;&amp;amp; \!\[x\](http://e) \`c\`<br>d \u{1b}\[31m | 1 |",
        "| NULL | NULL |",
    ]


def test_a_table_in_a_pipe_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers stand to the right; control characters and line ends are gone."""
    print_table(rows(("x" * 200, "1"), ("two\nlines \x1b]0;t\x07\u202e", "-10.5"), (None, None)))
    out = capsys.readouterr().out.splitlines()
    assert out[1] == f"{'x' * 200}      1"
    first = r"two lines \u{1b}]0;t\u{7}\u{202e}"
    assert out[2] == f"{first.ljust(200)}  -10.5"
    assert out[3].split() == ["NULL", "NULL"]


def test_no_rows_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """And where there are no columns either, nothing is."""
    print_table(rows())
    print_table(Rows(()))
    assert capsys.readouterr().out == "(no rows)\n"
    print_csv(rows())
    assert capsys.readouterr().out == "name,n\n"
