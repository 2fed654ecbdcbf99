"""Texts and errors in, what may be shown of them out.

For everything that leaves the process where many can read it: log lines, error messages, status
lines.  Better too much than too little: what merely looks like a secret goes as well.
"""

import re
import traceback
from collections.abc import Iterator
from typing import cast

_MASK = "***"
_SHORTEST = 6  # a shorter secret would blot out ordinary words, and is found by guessing anyway

_PATTERNS = (
    # scheme://user:password@host; up to the last @ of the word, for passwords with an @ in them
    (re.compile(r"(://[^\s:/@]*:)\S+@"), rf"\1{_MASK}@"),
    # password=… and sslpassword=… of a connection string, bare or quoted; "api_key": "…" of JSON
    (
        re.compile(
            r"""((?:password|passwd|pgpassword|secret|token|api[_-]?key)["']?\s*[=:]\s*)"""
            r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\s&,;]+)""",
            re.IGNORECASE,
        ),
        rf"\1{_MASK}",
    ),
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {_MASK}"),
    (re.compile(r"\bsk-[\w-]{12,}"), _MASK),  # the form of API keys of several model providers
)
# What every match of the patterns contains.  One search spares most texts four replacements.
_SUSPECT = re.compile(
    r"://|passw|pgpassword|secret|token|api[_-]?key|bearer|basic|sk-", re.IGNORECASE
)

_hidden: set[str] = set()


def hide(secret: str) -> None:
    """Mask *secret* wherever it turns up from now on; whoever reads a credential calls this."""
    if len(secret) >= _SHORTEST:
        _hidden.add(secret)


def mask(text: str) -> str:
    """Replace passwords, keys and every hidden secret in *text*."""
    for secret in _hidden:
        text = text.replace(secret, _MASK)
    if _SUSPECT.search(text) is not None:
        for pattern, masked in _PATTERNS:
            text = pattern.sub(masked, text)
    return text


def say(error: BaseException) -> str:
    """Name *error* in one line, without what it may quote from a row.

    PostgreSQL's messages do quote values, so its errors are told by SQLSTATE; further lines of
    any message (psycopg's DETAIL, pydantic's input) are left out.
    """
    kind = type(error).__name__
    if sqlstate := getattr(error, "sqlstate", None):
        kind = f"{kind} ({sqlstate})"
        if hasattr(error, "diag"):  # psycopg's own; a sentence of ours was written to be read
            return kind
    first, *_ = str(error).splitlines() or [""]
    return mask(f"{kind}: {first}" if first else kind)


def trace(error: BaseException) -> Iterator[str]:
    """List the places that *error* and its causes came through, a line each."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield from trace(cause)
        yield "which led to"
    yield say(error)
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield f"  {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    if isinstance(error, BaseExceptionGroup):
        for part in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from (f"  | {text}" for text in trace(part))
