"""What a provider says about a failure, read from a body of any shape.  Pure.

Bodies are objects, arrays of one, lists of details, objects in a text, HTML pages of a proxy.  None
of these shapes is a provider's own: gateways pass on what they got, each wrapped in another.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from itertools import islice
from typing import Final

import orjson

from walagent.message import Json
from walagent.models.replies import NAME_LIMIT, as_array, as_object, clean

# Where words are, the most telling first; an explanation can be an object with another in it.
_WORDS: Final = (
    "error", "message", "msg", "error_message", "errorMessage", "detail", "details", "errors",
    "error_description", "description", "reason", "title", "body",
)  # fmt: skip
_NAMES: Final = ("error_code", "code", "reason", "type", "status", "__type", "quotaId")
# Where names are looked for: `input` and `failed_generation` repeat what a row or a model wrote.
_INNER: Final = (
    "error", "message", "detail", "details", "errors", "innererror", "metadata", "raw",
    "violations",
)  # fmt: skip
# What is no explanation, or repeats the request.
_SILENT: Final = frozenset(
    {*_NAMES, "failed_generation", "flagged_input", "input", "loc", "metadata", "object", "param"}
    | {"request_id", "url", "domain", "@type", "retryDelay"}
)
FLAGGED: Final = "flagged"  # the name of what a moderation refused
_DEPTH = 8  # of an explanation within another
_MOST = 50  # names, and items of a list
_HTML = re.compile(
    r"\s*(?:<!--.*?-->\s*)*<(?:!doctype|html|head|body|title|h1|center)\b",
    re.IGNORECASE | re.DOTALL,
)
_UNSEEN = re.compile(
    r"<(script|style|svg|template)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.IGNORECASE | re.DOTALL
)
_TAG = re.compile(r"<[^>]*(?:>|\Z)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\- ]{0,99}")
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_AGAIN = re.compile(
    r"try again in (?:(?P<m>\d{1,4}) ?m(?:in(?:ute)?s?)?(?![a-z]) ?)?"
    r"(?:(?P<n>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>ms|s(?:ec(?:ond)?s?)?)(?![a-z]))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Said:
    """What a body says.

    Args:
        words: for people; one line.
        code: the provider's short name of the failure.
        names: every code, type, status and reason in it, in lower case.
        status: the HTTP status that the body names; None: none.
        wait: seconds that it asks to wait; None: it does not ask.
    """

    words: str = ""
    code: str = ""
    names: frozenset[str] = frozenset()
    status: int | None = None
    wait: float | None = None


def read_error(body: Json) -> Said:
    """Read what a body says about a failure; a text can be JSON, or a page of HTML."""
    value = decoded(body) if isinstance(body, str) else body
    if isinstance(value, str):
        return Said(plain(value), wait=_asked(value))
    words = " ".join("; ".join(dict.fromkeys(_words(value, _DEPTH))).split())
    found = list(islice(_names(value, _DEPTH), _MOST))
    codes = [name for name in found if name]
    wait = next(_delays(value, _DEPTH), None)
    return Said(
        words=words,
        code=clean(codes[0], NAME_LIMIT) if codes else "",
        names=frozenset(code.lower() for code in codes),
        status=next(_statuses(value, _DEPTH), None),
        wait=_asked(words) if wait is None else wait,
    )


def is_page(text: str) -> bool:
    """Return whether a text is a page for browsers."""
    return _HTML.match(text[:2_000]) is not None


def plain(text: str) -> str:
    """Return the words of a text on one line, without the tags of a page or of XML."""
    if is_page(text) or text.lstrip().startswith("<?xml"):
        text = unescape(_TAG.sub(" ", _UNSEEN.sub(" ", text[:200_000])))
    return " ".join(text.split())


def decoded(text: str) -> Json:
    """Return the JSON value that a text is, or else the text."""
    begun = text.lstrip()[:1]
    if begun not in {"{", "["}:
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _words(value: Json, depth: int) -> Iterator[str]:
    match value:
        case _ if not depth:
            return
        case str(text):
            inner = decoded(text)  # a gateway's message can be the whole body that it got
            yield from [plain(text)] if isinstance(inner, str) else _words(inner, depth - 1)
        case [*items]:
            for item in items[:_MOST]:
                yield from _words(item, depth - 1)
        case {"loc": [*places], "msg": str(text)}:  # FastAPI names the field apart
            yield f"{'.'.join(map(str, places))}: {text}"
        case {**fields}:
            for key in _WORDS:
                if said := [one for one in _words(fields.get(key), depth - 1) if one]:
                    yield from said
                    yield from _raw(fields, depth)
                    return
            others = (one for key, one in fields.items() if key not in _SILENT)
            for one in others:  # of a shape that nobody has seen
                yield from _words(one, depth - 1)
        case _:
            return


def _raw(fields: dict[str, Json], depth: int) -> Iterator[str]:
    """Give the words of the provider behind a gateway, which has only general ones itself."""
    metadata = as_object(fields.get("metadata"))
    if "raw" in metadata:
        yield from _words(metadata["raw"], depth - 1)
    if reasons := as_array(metadata.get("reasons")):
        yield ", ".join(map(str, reasons[:_MOST]))
    filters = as_object(as_object(fields.get("innererror")).get("content_filter_result"))
    if caught := [name for name, one in filters.items() if as_object(one).get("filtered")]:
        yield f"filtered: {', '.join(caught)}"


def _names(value: Json, depth: int) -> Iterator[str]:
    """Give the codes in a body, the outermost and most specific first."""
    if not depth:
        return
    match value:
        case str(text):
            inner = decoded(text)
            yield from () if isinstance(inner, str) else _names(inner, depth - 1)
        case {**fields}:
            yield from _names(fields.get("error"), depth - 1)
            for key in _NAMES:
                name = fields.get(key)
                if isinstance(name, str) and _NAME.fullmatch(name) and name.lower() != "error":
                    yield name
            for key in _INNER[1:]:
                yield from _names(fields.get(key), depth - 1)
            if fields.get("reasons") or fields.get("flagged_input"):
                yield FLAGGED
        case [*items]:
            for item in items[:_MOST]:
                yield from _names(item, depth - 1)
        case _:
            return


def _statuses(value: Json, depth: int) -> Iterator[int]:
    if not depth:
        return
    match value:
        case {**fields}:
            for key in ("code", "status", "status_code", "raw_status_code", "statusCode"):
                text = fields.get(key)
                if not isinstance(text, bool) and re.fullmatch(r"[1-5]\d\d", str(text)):
                    yield int(str(text))
            yield from _statuses(fields.get("error"), depth - 1)
        case [*items]:
            for item in items[:_MOST]:
                yield from _statuses(item, depth - 1)
        case _:
            return


def _delays(value: Json, depth: int) -> Iterator[float]:
    """Find the delay that Google's errors have in their details."""
    if not depth:
        return
    match value:
        case {"retryDelay": str(text)} if found := _DURATION.fullmatch(text):
            yield float(found[1])
        case {**fields}:
            for key in _INNER:
                one = fields.get(key)
                yield from _delays(decoded(one) if isinstance(one, str) else one, depth - 1)
        case [*items]:
            for item in items[:_MOST]:
                yield from _delays(item, depth - 1)
        case _:
            return


def _asked(words: str) -> float | None:
    """Read "try again in 1m2.5s" and the like."""
    found = _AGAIN.search(words[:2_000])
    if found is None or not (found["m"] or found["n"]):
        return None
    unit = 0.001 if (found["unit"] or "").lower() == "ms" else 1.0
    return 60 * float(found["m"] or 0) + unit * float(found["n"] or 0)
