"""Prepare the text of a statement: remove the closing semicolon and unwrap EXPLAIN.

The resulting text is both checked and run, so a parsing error here can reject a statement but
cannot let another one pass.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from walagent.errors import StatementRefusedError

LONGEST = 100_000  # characters

# Where a semicolon or a keyword does not count.
_OPAQUE = re.compile(
    r"""
      --[^\n\r]*
    | (?<![\w$])[eE]'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$
    """,
    re.VERBOSE | re.DOTALL,
)
_EXPLAIN = re.compile(r"explain\b", re.IGNORECASE)
_PLAIN_OPTION = re.compile(r"(analyze|analyse|verbose)\b", re.IGNORECASE)
_OPTION = re.compile(
    r"""
    \s*(?P<name>analyze|analyse|verbose|costs|buffers|timing|summary|format|wal|generic_plan|memory)
    (?:\s+(?P<value>true|false|on|off|0|1|text|json|yaml|xml))?\s*
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    Args:
        text: the query, without EXPLAIN and without a closing semicolon.
        explain: the options of EXPLAIN, normalized; None for a plain query.
    """

    text: str
    explain: tuple[str, ...] | None = None

    @property
    def analyzes(self) -> bool:
        """Whether it is an EXPLAIN that executes the query."""
        return any(
            option.startswith("analy") and not option.endswith((" off", " false", " 0"))
            for option in self.explain or ()
        )

    def wrapped(self, head: str, alias: str = "q") -> str:
        """Insert the query into the FROM clause of *head*; a newline ends a trailing comment."""
        return f"{head} from (\n{self.text}\n) as {alias}"


def read_statement(text: str) -> Statement:
    """Parse one statement.

    Raises:
        StatementRefusedError: it is empty, too long, or an EXPLAIN with invalid options.
    """
    if len(text) > LONGEST:
        raise StatementRefusedError(
            f"the statement has {len(text):,} characters, the limit is {LONGEST:,}"
        )
    if "\x00" in text:
        raise StatementRefusedError("the statement contains a NUL character")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise StatementRefusedError("the statement contains an unpaired surrogate")
    body = _without_semicolon(text)
    start = _skip_blank(body, 0)
    if start == len(body):
        raise StatementRefusedError("the statement is empty")
    if not (word := _EXPLAIN.match(body, start)):
        return Statement(body)
    options, start = _explain_options(body, _skip_blank(body, word.end()))
    return Statement(body[start:], options)


def _without_semicolon(text: str) -> str:
    """Cut at the first semicolon if only whitespace, comments and semicolons follow."""
    for at, char in _visible(text):
        if char == ";":
            rest = text[at:].replace(";", " ")
            return text[:at] if _skip_blank(rest, 0) == len(rest) else text
    return text


def _visible(text: str) -> Iterator[tuple[int, str]]:
    """Yield the characters outside comments and quotes, with their positions."""
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = _end_of_comment(text, at)
        elif hidden := _OPAQUE.match(text, at):
            at = hidden.end()
        else:
            yield at, text[at]
            at += 1


def _skip_blank(text: str, at: int) -> int:
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text.startswith("--", at):
            at = len(text) if (end := text.find("\n", at)) < 0 else end + 1
        elif text.startswith("/*", at):
            at = _end_of_comment(text, at)
        else:
            break
    return at


def _end_of_comment(text: str, at: int) -> int:
    """Return where a block comment ends; they nest."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _explain_options(body: str, at: int) -> tuple[tuple[str, ...], int]:
    """Parse the options between EXPLAIN and the query; return where the query starts."""
    if body.startswith("(", at) and not re.match(
        r"\(\s*(select|with|values|table|\()", body[at:], re.IGNORECASE
    ):
        return _listed_options(body, at)
    options: list[str] = []
    while word := _PLAIN_OPTION.match(body, at):
        options.append(word.group().lower())
        at = _skip_blank(body, word.end())
    return tuple(options), at


def _listed_options(body: str, at: int) -> tuple[tuple[str, ...], int]:
    end = body.find(")", at)
    options: list[str] = []
    for part in body[at + 1 : end].split(",") if end > 0 else [body[at:]]:
        if not (known := _OPTION.fullmatch(part)):
            raise StatementRefusedError(f"EXPLAIN option not allowed: {part.strip()}")
        options.append(" ".join(word.lower() for word in known.groups() if word))
    return tuple(options), _skip_blank(body, end + 1)
