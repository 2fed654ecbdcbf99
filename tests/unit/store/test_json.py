"""JSON on its way to PostgreSQL."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.message import Json
from walagent.store.codecs.jsonb import to_json

_MARK = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("a\x00b", f"a{_MARK}b"),
        ("\\\x00", f"\\{_MARK}"),
        ("\\u0000", "\\u0000"),  # six plain characters, not a NUL
        ("\\\\u0000", "\\\\u0000"),
        ("a\ud800b", f"a{_MARK}b"),
        ("\U0001f600", "\U0001f600"),
    ],
)
def test_what_jsonb_refuses_is_marked_and_the_rest_is_kept(given_text: str, kept: str) -> None:
    """NUL and half a surrogate pair become the replacement character; nothing else changes."""
    assert orjson.loads(to_json({"k": [given_text]})) == {"k": [kept]}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(_JSON)
def test_json_without_nul_or_surrogates_is_written_as_it_is(value: Json) -> None:
    """Escapes that only look like a NUL are left alone."""
    if "\\u0000" not in repr(value) and "\\x00" not in repr(value):
        assert orjson.loads(to_json(value)) == value
