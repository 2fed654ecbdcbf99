"""Tokens of a where clause."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.postgres.quoting import quote_name, quote_text
from walagent.sync.lexer import Token, WhereError, tokens

CHARACTERS = st.characters(exclude_characters="\0", codec="utf-8")
TEXTS = st.text(st.sampled_from("'\"\\aA") | CHARACTERS, max_size=8)
# What tokens are made of, so that random texts have many.
PIECES = st.sampled_from([
    "a", "A_1$", '"', '""', "'", "''", "x'", "1", ".5", "1.", "1e-3", "e", "$1", "$", "::", "<=",
    "!=", "||", "(", ")", "[", ",", " ", "\n", "\\", "--", "/*", ";", "é", "٣", "\0", "²",
])  # fmt: skip


def kinds(text: str) -> list[tuple[str, str]]:
    """The tokens of a text, without positions and the end."""
    return [(each.kind, each.text) for each in tokens(text)][:-1]


def read(text: str) -> list[Token] | WhereError:
    """All tokens of a text, or why it has others."""
    try:
        return list(tokens(text))
    except WhereError as error:
        return error


@given(TEXTS)
def test_a_quoted_text_is_one_token_with_its_value(text: str) -> None:
    """Whatever characters it has: quotes are doubled, a backslash is one."""
    assert kinds(quote_text(text)) == [("string", text)]


@given(TEXTS.filter(bool))
def test_a_quoted_name_is_one_token_with_its_name(name: str) -> None:
    """In its case."""
    assert kinds(quote_name(name)) == [("quoted", name)]


@given(st.lists(PIECES, max_size=12).map("".join))
def test_each_token_is_at_its_position(text: str) -> None:
    """Between tokens is white space alone; what is no token has a position, too."""
    found = read(text)
    if isinstance(found, WhereError):
        assert 1 <= found.position <= len(text)
        assert not text[found.position - 1].isspace()
        return
    ends = [each.position for each in found[1:]]
    assert found[-1] == Token("end", "", len(text) + 1)
    assert not text[: found[0].position - 1].strip()
    for token, end in zip(found, ends, strict=False):
        written = text[token.position - 1 : end - 1].rstrip()
        match token.kind:
            case "string":
                assert written[1:-1].replace("''", "'") == token.text
            case "quoted":
                assert written[1:-1].replace('""', '"') == token.text
            case "word":
                assert written.lower() == token.text
            case _:
                assert written == token.text


@given(st.lists(PIECES, max_size=6).map("".join))
def test_what_is_printed_without_quotes_is_ascii(text: str) -> None:
    """PostgreSQL takes a digit of another script for a letter of a name."""
    found = read(text)
    for token in found if isinstance(found, list) else ():
        assert token.text.isascii() or token.kind in {"string", "quoted"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Name", [("word", "name")]),
        ('"Name"', [("quoted", "Name")]),
        ('"a""b"', [("quoted", 'a"b')]),
        ("'it''s'", [("string", "it's")]),
        ("''", [("string", "")]),
        ("1 1.5 .5", [("number", "1"), ("number", "1.5"), ("number", ".5")]),
        ("2. 1e3 1E-3", [("number", "2."), ("number", "1e3"), ("number", "1E-3")]),
        ("$1", [("param", "$1")]),
        ("a::int", [("word", "a"), ("op", "::"), ("word", "int")]),
        ("a<=-1", [("word", "a"), ("op", "<="), ("op", "-"), ("number", "1")]),
        ("a<>b!=c", [("word", "a"), ("op", "<>"), ("word", "b"), ("op", "!="), ("word", "c")]),
    ],
)  # fmt: skip
def test_tokens(text: str, expected: list[tuple[str, str]]) -> None:
    """Words are folded, quoted names are not."""
    assert kinds(text) == expected


@pytest.mark.parametrize(
    ("text", "position"),
    [("a = 1x", 5), ("a; b", 2), ("'open", 1), ('""', 1), ("a = $x", 5), ("0x1F", 1)],
)
def test_what_is_no_token_is_refused_with_its_position(text: str, position: int) -> None:
    """From 1."""
    with pytest.raises(WhereError) as refused:
        list(tokens(text))
    assert refused.value.position == position
