"""Whether a call's arguments are what the schema asks for."""

import pytest

from tests.helpers.build import tool
from walagent.deciders.arguments import what_is_wrong
from walagent.message import Json

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "few": {"type": "string", "maxLength": 3},
        "list": {"type": "array", "items": {"type": "integer"}},
        "place": {"type": "object", "properties": {"no": {"type": "integer"}}},
    },
    "required": ["n"],
    "additionalProperties": False,
}
TOOL = tool("act", input_schema=SCHEMA)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": 1},
        {"n": 1.0},  # JSON knows one kind of number
        {"n": 2**70},
        {"n": 1, "kind": "a", "few": "abc", "list": [], "place": {"no": 1, "other": 2}},
    ],
)
def test_what_the_schema_allows_is_right(arguments: dict[str, Json]) -> None:
    """Nothing is said."""
    assert what_is_wrong(TOOL, arguments) is None


@pytest.mark.parametrize(
    ("arguments", "tells"),
    [
        ({}, "'n' is a required property"),
        ({"n": "1"}, 'n: "1" is not of type integer'),
        ({"n": None}, "n: null is not of type integer"),
        ({"n": True}, "n: true is not of type integer"),
        ({"n": 1, "kind": "c"}, 'kind: "c" is not one of "a", "b"'),
        ({"n": 1, "few": "abcd"}, "few: 'abcd' is too long"),
        ({"n": 1, "list": [1, "x"]}, 'list.1: "x" is not of type integer'),
        ({"n": 1, "place": {"no": "x"}}, 'place.no: "x" is not of type integer'),
        ({"n": 1, "more": 2}, "('more' was unexpected)"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(arguments: dict[str, Json], tells: str) -> None:
    """The model reads it and can mend it."""
    found = what_is_wrong(TOOL, arguments)
    assert found is not None
    assert found.startswith("act refuses these arguments: ")
    assert tells in found


def test_no_more_than_a_few_problems_are_reported_at_once() -> None:
    """A thousand wrong values do not fill the transcript."""
    found = what_is_wrong(TOOL, {"n": 1, "list": ["x" * 5000] * 1000})
    assert found is not None
    assert found.count("list.") == 3
    assert len(found) < 1000


def test_an_empty_update_is_refused() -> None:
    """update_row without a column would do nothing and call it done."""
    schema = {"type": "object", "properties": {"a": {}}, "minProperties": 1}
    assert what_is_wrong(tool("update_row", input_schema=schema), {}) is not None


def test_a_schema_of_nothing_allows_everything() -> None:
    """As JSON Schema says."""
    assert what_is_wrong(tool("f", input_schema={}), {"a": [None]}) is None
