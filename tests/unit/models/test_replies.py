"""What of an answer may enter the database."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.models.replies import (
    ARGUMENTS_LIMIT,
    COUNT_LIMIT,
    RAW_LIMIT,
    clean,
    count,
    read_call,
    read_call_value,
    storable,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("abc\\u0 \n", max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '"x"',
        '"{"',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 123456789012345678901234567890}',
        '{"a": "\\u0000"}',
        '{"a\\u0000": 1}',
        '{"a": "\\ud800"}',
        "[" * 100_000,
        '{"a":' * 2_000 + "1" + "}" * 2_000,
        '{"a": "' + "x" * ARGUMENTS_LIMIT + '"}',
        '{"a": ' + "9" * 5_000 + "}",
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        '{"a":' * 245 + "1" + "}" * 245,
    ],
    ids=lambda text: text[:24],
)
def test_arguments_that_cannot_be_stored_exactly_are_none(text: str) -> None:
    """The raw text is kept, short and clean, so that the model can be told."""
    call = read_call("1", "tool", text)
    assert call.arguments is None
    assert 0 < len(call.raw) <= RAW_LIMIT
    assert call.raw.startswith(text[:10])
    assert storable(call.raw)


@given(st.dictionaries(st.text("ab"), JSON, max_size=4))
def test_arguments_that_are_an_object_come_through_unchanged(arguments: dict[str, Any]) -> None:
    """A literal backslash-u0000 is text like any other."""
    assert read_call("1", "tool", json.dumps(arguments)).arguments == arguments
    assert read_call_value("1", "tool", arguments).arguments == arguments


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 2}', 'key "a" twice'),
        ('{"a": 1e400}', "too large"),
        ('{"a": 99999999999999999999}', "too large"),
        ('{"a": ' + "9" * 5_000 + "}", "too large"),
        ('{"a": "\\u0000"}', "NUL"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": NaN}', "NaN"),
        ('{"a":' * 3_000 + "1" + "}" * 3_000, "too deeply"),
        ('{"a":' * 245 + "1" + "}" * 245, "too deeply"),
        ('{"a": "' + "x" * ARGUMENTS_LIMIT + '"}', "longer than"),
        ("{}<|im_end|>", "Extra data at character 3"),
        ("[1]", "not a JSON object"),
    ],
    ids=lambda text: text[:24],
)
def test_what_is_wrong_with_arguments_is_named(text: str, problem: str) -> None:
    """The model corrects only what it is told."""
    assert problem in read_call("1", "tool", text).problem


def test_arguments_that_were_encoded_twice_are_read() -> None:
    """Some servers encode what the model already wrote as text."""
    assert read_call("1", "tool", json.dumps('{"q": "x"}')).arguments == {"q": "x"}


@pytest.mark.parametrize("text", ["", "  ", "{}", "null"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    """Several servers send nothing for a tool that takes nothing."""
    assert read_call("1", "tool", text).arguments == {}


def test_deeply_nested_values_do_not_end_the_process() -> None:
    """A value that came decoded may be nested deeper than Python can write it."""
    value: Any = {}
    for _ in range(100_000):
        value = [value]
    assert read_call_value("1", "tool", value).arguments is None


@given(st.text())
def test_cleaned_text_can_be_stored(text: str) -> None:
    """NUL and lone surrogates go, visibly; all else stays."""
    cleaned = clean(text + "\0\ud800")
    assert cleaned.endswith("\u2400\ufffd")
    assert storable(cleaned)
    if storable(text):
        assert cleaned[:-2] == text


def test_a_cut_text_says_so() -> None:
    """Nobody takes a cut text for a whole one."""
    assert clean("abcdef", 3) == "abc\n[cut after 3 characters]"
    assert clean("abc", 3) == "abc"


def test_storable_agrees_with_what_orjson_writes() -> None:
    """A value that passes can be written by the store."""
    assert storable({"a": ["\\u0000", 2**64 - 1]})
    assert not storable({"a": 2**64})
    assert orjson.dumps({"a": "\\u0000"}) == b'{"a":"\\\\u0000"}'


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (7, 7),
        (-7, 0),
        (7.5, 0),
        (7.0, 7),
        (True, 0),
        ("7", 0),
        (None, 0),
        (float("nan"), 0),
        (10**30, COUNT_LIMIT),
    ],
)
def test_a_count_of_tokens_fits_its_column_whatever_the_server_says(
    value: object, tokens: int
) -> None:
    """An absurd figure stops the run by its limits, and no statement."""
    assert count(value) == tokens
    assert 4 * COUNT_LIMIT < 2**31
