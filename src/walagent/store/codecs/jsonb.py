"""Encode JSON for jsonb, which has neither NUL nor lone surrogates."""

import re
from collections.abc import Sequence
from typing import cast

import orjson

from walagent.message import Json
from walagent.store.codecs.exact import exact

# An escaped NUL, which jsonb rejects; a preceding even number of backslashes escapes itself.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_MARK = "\N{REPLACEMENT CHARACTER}"


def to_json(value: Json) -> bytes:
    """Encode JSON for jsonb: a replacement character replaces NUL and lone surrogates."""
    try:
        document = orjson.dumps(value, exact, orjson.OPT_NON_STR_KEYS)
    except TypeError:
        document = orjson.dumps(_encodable(value), exact, orjson.OPT_NON_STR_KEYS)
    if b"u0000" in document:
        document = _NUL.sub(rb"\1" + _MARK.encode(), document)
    return document


def _encodable(value: Json) -> Json:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            items = cast("dict[Json, Json]", value).items()
            return {_encodable(key): _encodable(each) for key, each in items}
        case list() | tuple():
            return [_encodable(each) for each in cast("Sequence[Json]", value)]
        case _:
            return value
