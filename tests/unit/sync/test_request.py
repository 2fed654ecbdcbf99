"""What a request for a shape asks for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.postgres.quoting import quote_name
from walagent.sync.definition import Definition
from walagent.sync.expression import Binary, Column, Literal
from walagent.sync.request import (
    Place,
    RequestError,
    Subset,
    parse_deletion,
    parse_place,
    parse_request,
)
from walagent.sync.shape_log import INFINITE, Offset

FIRST = {"table": "item", "offset": "-1"}
NAMES = st.text(
    st.sampled_from('aA".,/') | st.characters(exclude_characters="\0", codec="utf-8"),
    min_size=1,
    max_size=5,
)


def definition(**query: str) -> Definition:
    """What identifies the shape of a request."""
    return parse_request(FIRST | query).definition


@given(NAMES, NAMES)
def test_a_table_has_any_name_in_quotes(schema: str, name: str) -> None:
    """With its schema, or in public."""
    found = definition(table=f"{quote_name(schema)}.{quote_name(name)}")
    assert (found.schema, found.table) == (schema, name)
    assert definition(table=quote_name(name)) == Definition("public", name)
    assert definition(table="Item") == Definition("public", "item")


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_equal_columns_are_one_shape_in_any_order(names: list[str]) -> None:
    """Two requests share a log."""
    found = definition(columns=",".join(map(quote_name, names)))
    assert found == definition(columns=" , ".join(map(quote_name, reversed(names))))
    assert set(found.columns or ()) == set(names)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ({"offset": "-1"}, Place("first", "", live=False, sse=False, cursor="")),
        ({"offset": "now"}, Place("now", "", live=False, sse=False, cursor="")),
        (
            {"offset": "5_3", "handle": "h"},
            Place(Offset(5, 3), "h", live=False, sse=False, cursor=""),
        ),
        (
            {"offset": "0_inf", "handle": "h", "live": "true", "cursor": "7"},
            Place(Offset(0, INFINITE), "h", live=True, sse=False, cursor="7"),
        ),
        (
            {"offset": "5_3", "handle": "h", "live": "true", "live_sse": "true"},
            Place(Offset(5, 3), "h", live=True, sse=True, cursor=""),
        ),
        (
            {"offset": "5_3", "handle": "h", "live": "true", "experimental_live_sse": "true"},
            Place(Offset(5, 3), "h", live=True, sse=True, cursor=""),
        ),
    ],
)
def test_where_a_client_goes_on(query: dict[str, str], place: Place) -> None:
    """From the start, from now, or after what it has."""
    assert parse_place(query) == place


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({}, "table"),
        ({"table": ""}, "table"),
        ({"table": "a.b.c"}, "table"),
        ({"table": "a b"}, "table"),
        ({"table": "a,b"}, "table"),
        ({"table": ".a"}, "table"),
        ({"table": "a."}, "table"),
        ({"table": "'a'"}, "table"),
        ({"table": "1"}, "table"),
        ({"table": "a;"}, "table"),
        ({"offset": ""}, "offset"),
        ({"offset": "5"}, "offset"),
        ({"offset": "5_x"}, "offset"),
        ({"offset": "5_0"}, "handle"),
        ({"live": "true"}, "live"),
        ({"live": "yes"}, "live"),
        ({"offset": "5_0", "handle": "h", "live_sse": "true"}, "live_sse"),
        ({"replica": "none"}, "replica"),
        ({"log": "none"}, "log"),
        ({"columns": ""}, "columns"),
        ({"columns": "a,"}, "columns"),
        ({"columns": "a b"}, "columns"),
        ({"columns": "a;b"}, "columns"),
        ({"columns": "*"}, "columns"),
        ({"columns": "a.b"}, "columns"),
        ({"where": "a ="}, "where"),
        ({"where": "a = $1"}, "where"),
        ({"params[2]": "x"}, "params"),
        ({"params[1]": "x", "params[3]": "x"}, "params"),
        ({"params[x]": "x"}, "params"),
        ({"params[01]": "x", "params[1]": "x"}, "params"),
        ({"subset__limit": "1"}, "subset"),
        ({"subset__order_by": "a", "subset__limit": "-1"}, "subset"),
        ({"subset__order_by": "a", "subset__limit": "1e3"}, "subset"),
        ({"subset__order_by": "a", "subset__offset": "9999999"}, "subset"),
        ({"subset__order_by": "a asc desc"}, "subset"),
        ({"subset__order_by": "a,"}, "subset"),
        ({"subset__order_by": "a nulls"}, "subset"),
        ({"subset__order_by": "lower(a)"}, "subset"),
        ({"subset__where": "a = $1"}, "subset"),
        ({"subset__params": "[1]"}, "subset"),
        ({"subset__params": "{"}, "subset"),
        ({"subset__where": "a = $2", "subset__params[2]": "x"}, "subset"),
    ],
)
def test_what_is_invalid_is_named(query: dict[str, str], name: str) -> None:
    """By its parameter."""
    given_ = query if "table" in query or not query else FIRST | query
    with pytest.raises(RequestError) as refused:
        parse_request({**given_, "offset": query.get("offset", "-1")})
    assert list(refused.value.errors) == [name]


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8))
def test_a_parameter_of_a_condition_is_a_value(value: str) -> None:
    """Of the shape and of a subset, in the query and in a body."""
    wanted = Binary("=", Column("a"), Literal(value))
    assert parse_request(FIRST | {"where": "a = $1", "params[1]": value}).definition.where == wanted
    params = {"1": value}
    asked = {"subset__where": "a = $1", "subset__params": json.dumps(params)}
    named = {"subset__where": "a = $1", "subset__params[1]": value}
    body = json.dumps({"where": "a = $1", "params": params}).encode()
    inner = json.dumps({"subset": {"where": "a = $1", "params": params}}).encode()
    for found in (
        parse_request(FIRST | asked),
        parse_request(FIRST | named),
        parse_request(FIRST, body),
        parse_request(FIRST, inner),
    ):
        assert found.subset == Subset(wanted, (), None, None)
        assert found.definition.where is None


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("a", (("a", ""),)),
        ('"A b" desc', (("A b", " desc"),)),
        ("a asc nulls last, b", (("a", " asc nulls last"), ("b", ""))),
        ("a nulls first,b desc nulls first", (("a", " nulls first"), ("b", " desc nulls first"))),
        ("ASC desc", (("asc", " desc"),)),
    ],
)
def test_an_order_is_of_columns(text: str, order: tuple[tuple[str, str], ...]) -> None:
    """With a direction and a place for NULL."""
    found = parse_request(FIRST | {"subset__order_by": text, "subset__limit": "10"}).subset
    assert found == Subset(None, order, 10, None)


@pytest.mark.parametrize("where", ["1 x 1", "x x"])
def test_an_error_is_where_it_is_in_a_whole_statement(where: str) -> None:
    """The protocol counts from the start of SELECT 1 WHERE …."""
    with pytest.raises(RequestError) as refused:
        parse_request(FIRST | {"where": where})
    assert refused.value.errors == {"where": ['At location 17: syntax error at or near "x"']}


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ({"handle": "1-2"}, "1-2"),
        ({"handle": "1-2", "table": "item"}, "1-2"),
        ({"table": "item"}, Definition("public", "item")),
    ],
)
def test_a_shape_is_ended_by_its_handle_or_by_what_it_is(
    query: dict[str, str], what: Definition | str
) -> None:
    """The handle is one shape; a definition is the one that there is now."""
    assert parse_deletion(query) == what
