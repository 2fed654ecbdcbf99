"""Read requests, answer them and refuse them: JSON objects in, JSON objects out.

Shapes are answered without it: a poll that waits, and a stream, are ASGI messages of their own
(`sync/asgi.py`).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, cast

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from walagent.message import Json

_MOST_BYTES: Final = 4 << 20  # of a body
_HEADERS: Final = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class RefusedError(Exception):
    """An answer other than the one that was asked for.

    Args:
        code: the SQLSTATE, if the database refused.
    """

    def __init__(self, status: int, message: str, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.hint = hint


async def read_object(request: Request, most: int = _MOST_BYTES) -> Mapping[str, Json]:
    """Read the body, a JSON object of up to *most* bytes.

    Raises:
        RefusedError: it is something else, or too large.
    """
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                raise RefusedError(413, f"the body exceeds {most} bytes")
    except ClientDisconnect as error:
        raise RefusedError(400, "the body is incomplete") from error
    try:
        given: Json = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(400, f"invalid JSON: {error}") from error
    try:
        orjson.dumps(given)  # it writes less deep values than it reads
    except TypeError as error:
        raise RefusedError(400, "the body is nested too deep") from error
    if not isinstance(given, dict):
        raise RefusedError(400, "expected a JSON object")
    return cast("dict[str, Json]", given)


def answer(
    body: Mapping[str, Json], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON object that is stored nowhere."""
    return Response(
        orjson.dumps(body, default=_plain),
        status,
        {**_HEADERS, **(headers or {})},
        "application/json",
    )


def refuse(error: RefusedError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that says why a request is refused."""
    body: dict[str, Json] = {"message": str(error), "code": error.code, "hint": error.hint}
    return answer(body, error.status, headers)


async def refuse_route(_: Request, error: Exception) -> Response:
    """Answer a request for which there is no route, or not with this method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = error.detail if isinstance(error, HTTPException) else "internal error"
    return refuse(RefusedError(status, words.lower()))


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
