"""The text of a row whose embedding is asked for."""

from decimal import Decimal
from typing import Any

import orjson
import pytest

from walagent.deciders.row_text import row_text
from walagent.errors import ModelRejectedError


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"new": {"a": "x", "b": "y"}}, "y\nx"),
        ({"new": {"a": "x", "b": None}}, "x"),
        ({"new": {"a": None, "b": None}}, ""),
        ({"new": {"a": 1, "b": Decimal("1.50")}}, '"1.50"\n1'),
        ({"new": {"a": {"k": [1]}, "b": True}}, 'true\n{"k":[1]}'),
        ({"new": {"a": orjson.Fragment('{"k": 1}'), "b": "y"}}, 'y\n{"k": 1}'),
        ({"new": {"a": "x"}, "old": {"a": "z", "b": "y"}, "unchanged": ["b"]}, "y\nx"),
    ],
)
def test_values_are_joined_in_the_order_of_the_columns(change: dict[str, Any], text: str) -> None:
    """NULL is left out; a value that the update left is that of the old row."""
    assert row_text(change, ("b", "a")) == text


def test_a_text_is_not_made_of_a_part_of_the_row() -> None:
    """It would look like any other."""
    with pytest.raises(ModelRejectedError, match='column "b"'):
        row_text({"new": {"a": "x"}, "unchanged": ["b"]}, ("a", "b"))
