"""The text of a record, as record_out() writes it."""

import pytest

from walagent.store.codecs.record import read_record


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("()", [None]),
        ("(1)", ["1"]),
        ("(1,)", ["1", None]),
        ("(,,)", [None, None, None]),
        ('("",a)', ["", "a"]),
        ('("a,b","c ""d""","e\\\\f",g)', ["a,b", 'c "d"', "e\\f", "g"]),
        ('("line\nbreak","(x)",2)', ["line\nbreak", "(x)", "2"]),
        ('("a,")', ["a,"]),
    ],
)
def test_values_are_read_as_they_were_written(text: str, values: list[str | None]) -> None:
    """Quotes, commas, backslashes, parentheses, NULL and the empty text."""
    assert read_record(text) == values


@pytest.mark.parametrize("text", ["", "1,2", '("a', '("a"b)'])
def test_other_texts_are_no_records(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="not a record"):
        read_record(text)
