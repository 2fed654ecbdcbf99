"""Templates of a tool over HTTP: `{argument}` in its URL, headers and body.  Pure.

A value never changes the structure around it: in a URL it is percent-encoded, in a header it has no
line break, in a body it stays inside its JSON string, or takes the place of it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import orjson

from walagent.errors import ToolFailedError
from walagent.message import Json

_PARTS: Final = re.compile(r"[/\\]")
_DECODED: Final = 4  # times that a path is decoded, at most
_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|\{secret:([A-Za-z0-9_.-]+)\}")
RESERVED: Final = frozenset({"idempotency_key", "run_id"})

Secret = Callable[[str], str]  # the value of a name


def arguments_of(*templates: Json) -> list[str]:
    """Return the arguments that templates name, sorted."""
    return sorted({name for name, _ in _names(templates) if name} - RESERVED)


def secrets_of(*templates: Json) -> frozenset[str]:
    """Return the secrets that templates name."""
    return frozenset(secret for _, secret in _names(templates) if secret)


def fill_url(template: str, values: Mapping[str, Json], secret: Secret) -> str:
    """Fill the path and query of a URL; its host is literal.

    Raises:
        ToolFailedError: a value would lead to another path.
    """
    head, slash, rest = _split(template)
    filled = _fill(
        rest, lambda name: quote(_text(values[name]), safe=""), lambda n: quote(secret(n), safe="/")
    )
    path = filled.partition("?")[0]
    # Servers and proxies decode once or twice; to some a backslash is a slash, or ";" ends a name.
    for _ in range(_DECODED):
        if any(part.partition(";")[0] in {".", ".."} for part in _PARTS.split(path)):
            raise ToolFailedError('a part of the path of a URL must not be "." or ".."')
        path = unquote(path)
    return head + slash + filled


def show_url(template: str, values: Mapping[str, Json]) -> str:
    """Fill a URL as far as *values* go; other placeholders stay."""
    return _fill(
        template,
        lambda name: quote(_text(values[name]), safe="") if name in values else f"{{{name}}}",
        lambda name: f"{{secret:{name}}}",
    )


def fill_header(template: str, values: Mapping[str, Json], secret: Secret) -> str:
    """Fill the value of a header, without the blanks around it, which are not part of a value.

    Raises:
        ToolFailedError: a value has a line break, or a character that a header cannot have.
    """
    filled = _fill(template, lambda name: _text(values[name]), secret).strip(" ")
    if not filled.isascii() or not filled.isprintable():
        raise ToolFailedError("the value of a header must be printable ASCII, on one line")
    return filled


def fill_body(template: Json, values: Mapping[str, Json], secret: Secret) -> Json:
    """Fill the strings of a JSON template; one that is only `{argument}` becomes its value."""
    match template:
        case str():
            only = _TOKEN.fullmatch(template)
            if only is not None and only[1]:
                return values[only[1]]
            return _fill(template, lambda name: _text(values[name]), secret)
        case {**entries}:
            return {key: fill_body(value, values, secret) for key, value in entries.items()}
        case [*items]:
            return [fill_body(item, values, secret) for item in items]
        case _:
            return template


def _split(url: str) -> tuple[str, str, str]:
    """Split a URL template before its path."""
    parts = urlsplit(url)
    head = f"{parts.scheme}://{parts.netloc}"
    rest = url[len(head) :]
    return head, "" if rest.startswith("/") else "/", rest


def _fill(template: str, value: Callable[[str], str], secret: Secret) -> str:
    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return value(found[1])
        return secret(found[2]) if found[2] else found[0][0]

    return _TOKEN.sub(replaced, template)


def _names(template: Json) -> Iterator[tuple[str, str]]:
    """Yield the argument or the secret of each placeholder."""
    match template:
        case str():
            yield from ((m[1] or "", m[2] or "") for m in _TOKEN.finditer(template))
        case {**entries}:
            for value in entries.values():
                yield from _names(value)
        case [*items] | (*items,):
            for item in items:
                yield from _names(item)
        case _:
            pass


def _text(value: Json) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
        case _:
            return orjson.dumps(value, default=str).decode()
