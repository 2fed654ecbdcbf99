"""Take the string literals out of a statement, so that parsing it converts none.

PostgreSQL converts a literal when it analyzes a statement, which can execute a user's function: a
CHECK of a domain inside a composite type, a comparison of a range.  With NULL in its place, which
has no type of its own either, the same analysis finds the same functions and types.  What the text
is mistaken for here ends in a syntax error, or in a literal of a type that the grammar names.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
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
    | (?P<parameter>\$\d+)
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
    escape except first from for groups having ilike in intersect is key leading like limit next
    not of offset on or ordinality over passing placing range rows select similar some symmetric
    then to trailing union using value values variadic version when where zone
    """
)
# Words that end a type of the grammar: never a user's, unless qualified.
_TYPES: Final = _words(
    """
    bigint bit boolean char character dec decimal float int integer interval nchar numeric
    precision real smallint time timestamp varchar
    """
)
# Words after the path of a column, by which it is a literal alone.
_AFTER: Final = _words(", ) as columns default empty error keep null omit with without")


@dataclass(frozen=True, slots=True)
class Template:
    """A statement around its string literals, without comments.

    Args:
        pieces: what is before, between and after them.
        literals: how they are written.
        nulls: how NULL is written in the place of each.
    """

    pieces: Sequence[str]
    literals: Sequence[str]
    nulls: Sequence[str]

    @property
    def whole(self) -> str:
        """The statement with its literals."""
        return self.filled(self.literals)

    @property
    def empty(self) -> str:
        """The statement with NULL in their places."""
        return self.filled(self.nulls)

    def filled(self, values: Iterable[str]) -> str:
        """Return the statement with other values in their places."""
        return "".join(chain.from_iterable(zip_longest(self.pieces, values, fillvalue="")))


def split_literals(text: str, *, parameters: bool = False) -> Template:
    """Take the string literals out of a statement.

    One of a type that the grammar names, as in `interval '1 day'`, stays in it; so do the paths in
    the columns of JSON_TABLE and XMLTABLE, where nothing else can be written.

    Args:
        parameters: whether it may have some, as the body of a function.

    Raises:
        StatementRefusedError: it has parameters.
    """
    pieces: list[str] = []
    literals: list[str] = []
    nulls: list[str] = []
    out: list[str] = []
    found = list(tokens(text))
    words = ["'" if kind == "text" else token.lower() for kind, token in found]
    for at, (kind, token) in enumerate(found):
        if kind == "parameter" and not parameters:
            raise StatementRefusedError("parameters are not allowed")
        if kind != "text" or _is_of_grammar(out) or _is_path(words, at):
            out.append(token)
            continue
        before, after = "", ""
        if token[0] in "nN":  # nchar, which is not of unknown type
            before, after = "( ", " :: pg_catalog.bpchar )"
        elif name := _type_name(out):
            before, after = "cast( ", f" as {name} )"
        pieces.append(" ".join([*out, before]))
        literals.append(token)
        # PostgreSQL compares nothing with a plain NULL; a collation is discarded again.
        plain = after or not _is_compared(words, at)
        nulls.append("null" if plain else '(null collate pg_catalog."C")')
        out = [after]
    return Template([*pieces, " ".join(out)], literals, nulls)


def _is_compared(words: Sequence[str], at: int) -> bool:
    """Return whether a literal is itself a side of IS DISTINCT FROM, also in parentheses."""
    first, last = at, at
    while first and words[first - 1] == "(":
        first -= 1
    while words[last + 1 : last + 2] == [")"]:
        last += 1
    after = [word for word in words[last + 1 : last + 4] if word != "not"]
    return words[max(0, first - 2) : first] == ["distinct", "from"] or (
        after[:2] == ["is", "distinct"]
    )


def _is_path(words: Sequence[str], at: int) -> bool:
    """Return whether a literal is a path of JSON_TABLE or XMLTABLE, and nothing but that."""
    before, after = words[max(0, at - 2) : at], words[at + 1 : at + 2]
    if before[-1:] == ["path"]:
        of_column = bool(_NAMED.match(before[0]) or before[0] in {")", "]"})
        return of_column and before[0] not in _BEFORE and after[0:1] != [] and after[0] in _AFTER
    if before[-1:] != [","] or after not in (["columns"], ["as"], ["passing"]):
        return False
    depth = 0
    for n in range(at - 1, 0, -1):
        depth += (words[n] == ")") - (words[n] == "(")
        if depth < 0:
            return words[n - 1] == "json_table" and words[n - 2 : n - 1] != ["."]
    return False


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
    if before[-3:-2] == ["("] and before[-1] == ")":  # a precision: timestamp(3) '…'
        at -= 3
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
