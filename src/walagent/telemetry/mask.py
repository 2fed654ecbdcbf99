"""Remove secrets and values from texts and errors.

For everything that others can read: log lines, error messages, status lines.  When in doubt it
removes: text that only looks like a secret, too.
"""

import re
import traceback
from collections.abc import Iterator
from typing import cast

_MASK = "***"
_SHORTEST = 6  # a shorter secret would mask ordinary words, and is easy to guess


def _without_password(found: re.Match[str]) -> str:
    """Replace what stands before the last @ of the word: a password can have an @."""
    before, at, after = found[2].rpartition("@")
    return f"{found[1]}{_MASK}@{after}" if at and before else found[0]


# Each takes a time that grows with the text, whatever it is: others write it.
_PATTERNS = (
    # scheme://user:password@host
    (re.compile(r"(://[^\s:/@]*:)(\S+)"), _without_password),
    # password=… and sslpassword=… of a connection string, bare or quoted; "api_key": "…" of JSON;
    # but not the "…" of a hint
    (
        re.compile(
            r"""((?<!agent_internal\.)(?:password|passwd|pgpassword|secret|token|api[_-]?key)["']?\s*[=:]\s*)(?!-?…)"""
            r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\s&,;]+)""",
            re.IGNORECASE,
        ),
        rf"\1{_MASK}",
    ),
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {_MASK}"),
    (re.compile(r"\bsk-[\w-]{12,}"), _MASK),  # the format of API keys of several providers
)
# Every match of the patterns contains one of these.  One search avoids most replacements.
_SUSPECT = re.compile(
    r"://|passw|pgpassword|secret|token|api[_-]?key|bearer|basic|sk-", re.IGNORECASE
)

_hidden: set[str] = set()


def hide(secret: str) -> None:
    """Mask *secret* in all texts from now on; call it for every credential that is read."""
    if len(secret) >= _SHORTEST:
        _hidden.add(secret)


def mask(text: str) -> str:
    """Replace passwords, keys and all registered secrets in *text*."""
    for secret in _hidden:
        text = text.replace(secret, _MASK)
    if _SUSPECT.search(text) is not None:
        for pattern, masked in _PATTERNS:
            text = pattern.sub(masked, text)
    return text


def say(error: BaseException) -> str:
    """Describe *error* in one line, without values from rows.

    PostgreSQL's messages quote values, so its errors are described by SQLSTATE; further lines of
    any message (psycopg's DETAIL, pydantic's input) are omitted.
    """
    kind = type(error).__name__
    if sqlstate := getattr(error, "sqlstate", None):
        kind = f"{kind} ({sqlstate})"
        if hasattr(error, "diag"):  # psycopg's; walagent's messages contain no values
            return kind
    first, *_ = str(error).splitlines() or [""]
    return mask(f"{kind}: {first}" if first else kind)


def trace(error: BaseException) -> Iterator[str]:
    """Yield the code locations of *error* and its causes, one line each."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield from trace(cause)
        yield "which caused"
    yield say(error)
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield f"  {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    if isinstance(error, BaseExceptionGroup):
        for part in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from (f"  | {text}" for text in trace(part))
