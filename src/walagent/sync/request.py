"""Read what a request asks for.

Source: the HTTP Shape protocol; unknown parameters are ignored, since other clients have more.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

import orjson

from walagent.sync.definition import Definition
from walagent.sync.expression import Node
from walagent.sync.lexer import WhereError, tokens
from walagent.sync.shape_log import Offset, parse_offset
from walagent.sync.where import parse_where

_NUMBER: Final = re.compile(r"([0-9]{1,7})")
_PARAM: Final = re.compile(r"params\[([0-9]{1,4})\]")
_SUBSET: Final = "subset__"
_MOST: Final = 1_000_000

# What a named shape understands beside its own parameters.
PARAMETERS: Final = frozenset(
    {"offset", "handle", "live", "live_sse", "experimental_live_sse", "cursor"}
)


class RequestError(Exception):
    """The request is invalid; `errors` are by parameter."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.errors = {name: [text]}


@dataclass(frozen=True, slots=True)
class Subset:
    """A part of a shape that is asked for once."""

    where: Node | None
    order_by: tuple[tuple[str, str], ...]  # columns, and their directions in SQL
    limit: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client is in the log of a shape, and how it wants to go on."""

    start: Literal["first", "now"] | Offset
    handle: str
    live: bool
    sse: bool
    cursor: str


@dataclass(frozen=True, slots=True)
class ShapeRequest:
    """A request for the shape of a table."""

    definition: Definition
    place: Place
    subset: Subset | None


def parse_request(query: Mapping[str, str], body: bytes = b"") -> ShapeRequest:
    """Parse the parameters of a request.

    Raises:
        RequestError: one is missing or invalid.
    """
    subset = _subset(query, body)
    definition = parse_definition(query)
    return ShapeRequest(definition, parse_place(query, is_subset=subset is not None), subset)


def parse_deletion(query: Mapping[str, str]) -> Definition | str:
    """Parse what a request ends: the shape with a handle, or the one of a definition.

    Raises:
        RequestError: a parameter is missing or invalid.
    """
    return query.get("handle") or parse_definition(query)


def parse_place(query: Mapping[str, str], *, is_subset: bool = False) -> Place:
    """Parse where a client is.

    Raises:
        RequestError: a parameter is missing or invalid.
    """
    start = _start(query, needed=not is_subset)
    live = _flag(query, "live")
    if live and not isinstance(start, Offset):
        raise RequestError("live", "can't be true when offset == -1 or now")
    handle = query.get("handle", "")
    if isinstance(start, Offset) and not handle and not is_subset:
        raise RequestError("handle", "can't be blank when offset != -1")
    sse = _flag(query, "live_sse") or _flag(query, "experimental_live_sse")
    if sse and not live:
        raise RequestError("live_sse", "can't be true unless live is also true")
    return Place(start, handle, live, sse, query.get("cursor", ""))


def parse_definition(query: Mapping[str, str]) -> Definition:
    """Parse what identifies the shape.

    Raises:
        RequestError: a parameter is missing or invalid.
    """
    schema, table = _table(query.get("table", ""))
    replica = query.get("replica", "default")
    if replica not in {"default", "full"}:
        raise RequestError("replica", "is invalid")
    kept = query.get("log", "full")
    if kept not in {"full", "changes_only"}:
        raise RequestError("log", "is invalid")
    return Definition(
        schema,
        table,
        _where("where", query.get("where"), _params(query)),
        _columns(query.get("columns")),
        cast('Literal["default", "full"]', replica),
        kept == "changes_only",
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    match query.get(name, "false"):
        case "true":
            return True
        case "false" | "":
            return False
        case _:
            raise RequestError(name, "is invalid")


def _start(query: Mapping[str, str], *, needed: bool) -> Literal["first", "now"] | Offset:
    text = query.get("offset", "")
    if not text:
        if needed:
            raise RequestError("offset", "can't be blank")
        return "now"
    if text in {"-1", "now"}:
        return "first" if text == "-1" else "now"
    offset = parse_offset(text)
    if offset is None:
        raise RequestError("offset", "has invalid format")
    return offset


def _table(text: str) -> tuple[str, str]:
    if not text:
        raise RequestError("table", "can't be blank")
    try:
        found = list(tokens(text))[:-1]
    except WhereError as error:
        raise RequestError("table", "has invalid format") from error
    names = [each.text for each in found[::2] if each.kind in {"word", "quoted"}]
    dots = [each.text for each in found[1::2]]
    if len(names) != len(found[::2]) or dots not in ([], ["."]) or len(names) != len(dots) + 1:
        raise RequestError("table", "has invalid format")
    return ("public", names[0]) if len(names) == 1 else (names[0], names[1])


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    try:
        found = list(tokens(text))[:-1]
    except WhereError as error:
        raise RequestError("columns", "has invalid format") from error
    names = [each.text for each in found[::2] if each.kind in {"word", "quoted"}]
    commas = {each.text for each in found[1::2]}
    if not names or len(names) != len(found[::2]) or commas - {","} or len(found) % 2 == 0:
        raise RequestError("columns", "has invalid format")
    return tuple(sorted(set(names)))


def _params(query: Mapping[str, str], error: str = "params") -> dict[int, str]:
    found = {
        int(match[1]): value
        for name, value in query.items()
        if (match := _PARAM.fullmatch(name)) is not None
    }
    given = sum(name.startswith("params[") for name in query)
    if given != len(found) or sorted(found) != list(range(1, len(found) + 1)):
        raise RequestError(error, "parameters must be numbered from 1 without gaps")
    return found


def _where(name: str, text: str | None, params: Mapping[int, str]) -> Node | None:
    if text is None or not text.strip():
        return None
    try:
        return parse_where(text, params, selects=name == "where")
    except WhereError as error:
        raise RequestError(name, f"At location {error.position + 14}: {error}") from error


def _subset(query: Mapping[str, str], body: bytes) -> Subset | None:
    asked = {
        name.removeprefix(_SUBSET): value
        for name, value in query.items()
        if name.startswith(_SUBSET)
    }
    given = {**asked, **_body(body)} if body else dict[str, object](asked)
    if not given:
        return None
    values = {**_params(asked, "subset"), **_values(given.get("params"))}
    where, order = given.get("where"), given.get("order_by")
    limit, offset = _count(given, "limit"), _count(given, "offset")
    if (limit is not None or offset is not None) and not order:
        raise RequestError("subset", "order_by is required with limit or offset")
    return Subset(
        _where("subset", None if where is None else str(where), values),
        () if order is None else _order(str(order)),
        limit,
        offset,
    )


def _values(params: object) -> Mapping[int, str]:
    if not params:
        return {}
    if isinstance(params, str):
        params = _json("subset", params.encode())
    if not isinstance(params, dict):
        raise RequestError("subset", "params must be an object")
    found = cast("dict[str, object]", params)
    return {
        int(match[1]): str(value)
        for number, value in found.items()
        if (match := _NUMBER.fullmatch(number)) is not None
    }


def _json(name: str, data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RequestError(name, "is not valid JSON") from error


def _body(body: bytes) -> dict[str, object]:
    found = _json("subset", body)
    if not isinstance(found, dict):
        raise RequestError("subset", "must be an object")
    given = cast("dict[str, object]", found)
    inner = given.get("subset")
    return cast("dict[str, object]", inner) if isinstance(inner, dict) else given


def _count(given: Mapping[str, object], name: str) -> int | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    match = _NUMBER.fullmatch(str(value))
    if match is None or int(match[1]) > _MOST:
        raise RequestError("subset", f"{name} must be a number from 0 to {_MOST}")
    return int(match[1])


def _order(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `column [asc|desc] [nulls first|last], …`."""
    try:
        found = list(tokens(text))
    except WhereError as error:
        raise RequestError("subset", f"order_by: {error}") from error
    parts, at = list[tuple[str, str]](), 0
    while True:
        if found[at].kind not in {"word", "quoted"}:
            raise RequestError("subset", f'order_by: syntax error at or near "{found[at].text}"')
        name, direction, at = found[at].text, "", at + 1
        if found[at].kind == "word" and found[at].text in {"asc", "desc"}:
            direction, at = f" {found[at].text}", at + 1
        words = [each.text for each in found[at : at + 2] if each.kind == "word"]
        if words in (["nulls", "first"], ["nulls", "last"]):
            direction, at = f"{direction} {' '.join(words)}", at + 2
        parts.append((name, direction))
        if found[at].kind == "end":
            return tuple(parts)
        if found[at].text != ",":
            raise RequestError("subset", f'order_by: syntax error at or near "{found[at].text}"')
        at += 1
