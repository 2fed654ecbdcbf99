"""What a call's arguments mean to what is called with them."""

from typing import Any

import pytest

from tests.helpers.build import tool
from walagent.deciders.arguments import what_is_wrong
from walagent.domain.fitted_arguments import fitted
from walagent.message import Json

INTEGER = {"type": "integer"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": INTEGER,
        "maybe": {"type": ["integer", "null"]},
        "either": {"type": ["integer", "number"]},
        "price": {"type": "number"},
        "list": {"type": "array", "items": INTEGER},
        "place": {"type": "object", "properties": {"no": INTEGER}},
        "map": {"type": "object", "additionalProperties": INTEGER},
        "one": {"anyOf": [INTEGER, {"type": "null"}]},
        "ref": {"$ref": "#/$defs/count"},
        "text": {"type": "string"},
        "free": {},
    },
    "$defs": {"count": INTEGER},
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"n": 7.0}, {"n": 7}),
        ({"n": 1e3}, {"n": 1000}),
        ({"n": -0.0}, {"n": 0}),
        ({"n": 7.5}, {"n": 7.5}),
        ({"n": 1e30}, {"n": 1e30}),
        ({"maybe": 7.0}, {"maybe": 7}),
        ({"either": 7.0}, {"either": 7.0}),
        ({"price": 7.0}, {"price": 7.0}),
        ({"list": [1.0, 2]}, {"list": [1, 2]}),
        ({"place": {"no": 1.0}}, {"place": {"no": 1}}),
        ({"map": {"a": 1.0}}, {"map": {"a": 1}}),
        ({"one": 1.0}, {"one": 1}),
        ({"ref": 1.0}, {"ref": 1}),
        ({"free": 1.0, "unknown": 1.0}, {"free": 1.0, "unknown": 1.0}),
        ({"text": "7.0"}, {"text": "7.0"}),
    ],
    ids=str,
)
def test_whole_numbers_are_integers(given: dict[str, Json], expected: dict[str, Json]) -> None:
    """At every depth, where the schema says so, and nowhere else."""
    found = fitted(tool(input_schema=SCHEMA), given)
    assert repr(found) == repr(expected)


def test_a_schema_that_points_at_itself_ends() -> None:
    """A reference can be a circle."""
    circle = {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}
    assert fitted(tool(input_schema=circle), {"a": 1.0}) == {"a": 1.0}


@pytest.mark.parametrize("kind", ["sql", "http", "mcp", "python"])
def test_null_for_an_argument_with_a_default_is_the_default(kind: str) -> None:
    """Models write null for what they leave out."""
    made = tool(kind=kind, input_schema={**SCHEMA, "required": ["n"]})
    given = {"n": None, "text": None}
    assert fitted(made, given) == {"n": None}
    assert "n: null is not of type integer" in str(what_is_wrong(made, given))


def test_null_is_a_value_of_a_column() -> None:
    """To leave it out would set nothing, and say that it did."""
    made = tool(kind="builtin", target="update_row", input_schema=SCHEMA)
    given = {"maybe": None, "text": None}
    assert fitted(made, given) == given
    assert "text: null is not of type string" in str(what_is_wrong(made, given))
