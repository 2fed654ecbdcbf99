"""Replace the string literals of a statement by parameters, so that parsing it converts none.

PostgreSQL converts a literal when it analyzes a statement, which can execute a user's function: a
CHECK of a domain inside a composite type, a comparison of a range.  With parameters, the same
analysis only reports the types.  What the text is mistaken for here ends in a syntax error, or in a
literal of a type that the grammar itself names.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from walagent.errors import StatementRefusedError

# As in scan.l: every character beyond ASCII is a letter, also a space or digit.
_TOKEN: Final = re.compile(
    r"""
      (?P<blank>\s+|--[^\n\r]*)
    | (?P<comment>/\*)
    | (?P<bits>[bBxX]'[^']*')
    | (?P<text>(?:[nN]|[uU]&)?'(?:[^']|'')*'|[eE]'(?:[^'\\]|\\.|'')*')
    | (?P<dollar>\$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?)\$.*?\$(?P=tag)\$)
    | (?P<parameter>\$\d)
    | (?P<name>(?:[uU]&)?"(?:[^"]|"")*"|[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
    | (?P<number>\.?\d[\w.]*(?:(?<=[eE])[-+]\d+)?)
    | (?P<operator>(?:(?!--|/\*)[-+*/<>=~!@\#%^&|`?:])+)
    | (?P<rest>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_CONTINUED: Final = re.compile(
    r"[^\S\n\r]*(?:--[^\n\r]*)?[\n\r](?:\s|--[^\n\r]*[\n\r])*'((?:[^']|'')*)'", re.ASCII
)
_UESCAPE: Final = re.compile(r"\s*uescape\s*'[^']'", re.ASCII | re.IGNORECASE)
_NAMED: Final = re.compile(r'[A-Za-z_\x80-\U0010ffff]|"')


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words of the grammar after which an expression starts.
_BEFORE: Final = _words(
    """
    all and any asymmetric between both by case collate content default distinct document else
    escape except except from for having ilike in intersect is key leading like limit not of
    offset on or ordinality over passing placing select similar some symmetric then to trailing
    union using value values when where zone
    """
)
# Words that end a type of the grammar: never a user's, unless qualified.
_TYPES: Final = _words(
    """
    bigint bit boolean char character dec decimal float int integer interval nchar numeric
    precision real smallint time timestamp varchar
    """
)


def without_literals(text: str, *, nulls: bool = False) -> tuple[str, int]:
    """Return a statement with parameters in place of its string literals, and their number.

    A literal of a type that the grammar names, as in `interval '1 day'`, is kept.

    Args:
        nulls: put NULL in their place, for a statement that takes no parameters.

    Raises:
        StatementRefusedError: it has parameters.
    """
    out: list[str] = []
    count = 0
    found = list(tokens(text))
    words = [token.lower() for _, token in found]
    # PostgreSQL compares nothing with a plain NULL; a collation is discarded, but keeps the rest.
    compared = ("distinct", "from") in pairwise(words)
    null = '(null collate pg_catalog."C")' if compared else "null"
    for kind, token in found:
        if kind == "parameter":
            raise StatementRefusedError("parameters are not allowed")
        if kind != "text" or _is_of_grammar(out):
            out.append(token)
            continue
        count += 1
        name = _type_name(out)
        given = null if nulls else f"${count}"
        out.append(f" cast({given} as {name}) " if name else f" {given} ")
    return " ".join(out), count


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield kinds and tokens, without whitespace and comments; literals are of kind `text`."""
    at = 0
    while at < len(text) and (found := _TOKEN.match(text, at)):
        kind, at = found.lastgroup or "", found.end()
        kind = "dollar" if found["dollar"] else kind
        match kind:
            case "blank":
                continue
            case "comment":
                at = _end_of_comment(text, at)
                continue
            case "text" | "dollar":
                while kind == "text" and (more := _CONTINUED.match(text, at)):
                    at = more.end()
                kind = "text"
            case _:
                pass
        if found.group()[:2] in {"U&", "u&"} and (more := _UESCAPE.match(text, at)):
            at = more.end()
        yield kind, text[found.start() : at]


def _end_of_comment(text: str, at: int) -> int:
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _is_of_grammar(before: Sequence[str]) -> bool:
    """Return whether a literal after these tokens is of a type that the grammar names."""
    at = len(before)
    if at and before[-1] == ")":  # a precision: timestamp(3) '…'
        while at and before[at - 1] != "(":
            at -= 1
        at -= 1
    words = [word.lower() for word in before[max(0, at - 4) : at]]
    if words[-2:] == ["extract", "("]:  # a name of a field
        return words[-3:-2] != ["."]
    if words[-1:] == ["varying"]:  # alone, it can name a user's type
        return words[-2:-1] in (["bit"], ["char"], ["character"], ["nchar"])
    if words[-1:] == ["zone"]:
        return words[-2:-1] == ["time"] and words[-3:-2] in (["with"], ["without"])
    return bool(words) and words[-1] in _TYPES and words[-2:-1] != ["."]


def _type_name(out: list[str]) -> str:
    """Remove and return the name of a type that precedes a literal; "" if none does."""
    if not out or not _NAMED.match(out[-1]) or out[-1].lower() in _BEFORE:
        return ""
    name = [out.pop()]
    while len(out) > 1 and out[-1] == "." and _NAMED.match(out[-2]):
        name += [out.pop(), out.pop()]
    return "".join(reversed(name))
