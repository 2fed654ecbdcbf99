"""Many long polls in one request: a browser has six connections for all tabs of a server.

The request has live requests of shapes; it is answered as soon as one of them is, with all that
are.  The others are cancelled, and the client sends them again with the next batch.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

from walagent.console.guard import RefusedError
from walagent.message import Json
from walagent.sync.app import Receive, Scope

MOST: Final = 50
_GRACE: Final = 0.015  # seconds for what changes in the same transaction
_HEADERS: Final = (b"content-type", b"etag", b"retry-after")


@dataclass(slots=True)
class Answer:
    """What an application answered."""

    status: int = 500
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytearray = field(default_factory=bytearray)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take a message, as ASGI's send."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {
                name.decode(): value.decode("latin-1")
                for name, value in message["headers"]
                if name.startswith(b"electric-") or name in _HEADERS
            }
        else:
            self.body += message.get("body", b"")

    def as_json(self, identifier: Json) -> dict[str, Json]:
        """Return it as one of the answers of a batch."""
        text = self.body.decode()
        return {"id": identifier, "status": self.status, "headers": self.headers, "body": text}


def scopes_of(given: Mapping[str, Json], scope: Scope, token: str) -> list[tuple[Json, Scope]]:
    """Return the requests of a batch.

    Raises:
        RefusedError: one is no request for a shape, or they are too many.
    """
    sent = given.get("requests")
    requests = cast("list[Json]", sent) if isinstance(sent, list) else []
    if not 0 < len(requests) <= MOST:
        raise RefusedError(400, f"expected 1 to {MOST} requests")
    found: list[tuple[Json, Scope]] = []
    for each in requests:
        match each:
            case {"id": int(identifier), "url": str(url)}:
                parts = urlsplit(url)
                at = parts.path.find("/v1/shapes/")
                if at < 0:
                    raise RefusedError(400, "a batch has requests for shapes alone")
                found.append((identifier, _scope(scope, parts.path[at:], parts.query, token)))
            case _:
                raise RefusedError(400, 'expected "id" and "url" of each request')
    return found


def _scope(scope: Scope, path: str, query: str, token: str) -> Scope:
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"authorization", b"Bearer " + token.encode())],
        "scheme": scope.get("scheme", "http"),
    }


async def first_answers(
    application: Any,  # noqa: ANN401 - an ASGI application
    requests: Sequence[tuple[Json, Scope]],
    receive: Receive,
) -> list[dict[str, Json]]:
    """Wait for the first answer; return those that are there shortly after.

    Args:
        receive: of the batch: its client can leave.
    """

    async def ask(identifier: Json, scope: Scope) -> dict[str, Json]:
        answer = Answer()
        await application(scope, _never, answer.send)
        return answer.as_json(identifier)

    tasks = [asyncio.create_task(ask(*each)) for each in requests]
    gone: asyncio.Task[Any] = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait([*tasks, gone], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(tasks, timeout=_GRACE)
        return [task.result() for task in tasks if task.done()]
    finally:
        for task in (*tasks, gone):
            task.cancel()
        await asyncio.wait([*tasks, gone])


async def _never() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
