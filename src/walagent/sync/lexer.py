"""Split a where clause into tokens.

The grammar is a small part of PostgreSQL's: no E'', U&'' or $$ strings, no comments, and only the
operators that shapes can have.

Source: PostgreSQL docs, 4.1 Lexical Structure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKENS: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<quoted>"(?:[^"\0]|"")+")
  | (?P<string>'(?:[^'\0]|'')*')
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![A-Za-z_])
  | (?P<param>\$[0-9]{1,5})(?![A-Za-z_0-9])
  | (?P<word>[A-Za-z_][A-Za-z0-9_$]*)
  | (?P<op>::|<>|!=|<=|>=|\|\||@>|<@|&&|<<|>>|[-+*/%^=<>&|\#~(),.\[\]])
    """,
    re.VERBOSE,
)


class WhereError(Exception):
    """A where clause is invalid; `position` counts characters from 1."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Args:
        kind: word (folded to lower case), quoted, string, number, param, op or end.
        text: what it denotes, without quotes.
        position: of its first character, from 1.
    """

    kind: str
    text: str
    position: int


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of *text*, and an end.

    Raises:
        WhereError: something is no token.
    """
    offset = 0
    while offset < len(text):
        found = _TOKENS.match(text, offset)
        if found is None:
            near = text[offset : offset + 12].split(maxsplit=1)[0]
            raise WhereError(f'syntax error at or near "{near}"', offset + 1)
        kind, at = found.lastgroup or "", offset
        offset = found.end()
        match kind:
            case "space":
                continue
            case "word":
                value = found.group().lower()
            case "quoted":
                value = found.group()[1:-1].replace('""', '"')
            case "string":
                value = found.group()[1:-1].replace("''", "'")
            case _:
                value = found.group()
        yield Token(kind, value, at + 1)
    yield Token("end", "", len(text) + 1)
