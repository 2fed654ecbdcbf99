"""Follow live rows from Python.

async with ShapeClient("http://127.0.0.1:8642", secret="…") as shapes:
    async for rows in shapes.rows("support_tickets", where="priority = 'high'"):
        print(len(rows))
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self, cast

import httpx2
import orjson

from walagent.base.retries import DATABASE, seconds
from walagent.errors import ConfigError, PreconditionError

_TIMEOUT: Final = 45.0  # seconds; the server answers a live request after 20
_CONFLICT: Final = 409
_SERVER: Final = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)
_LATER: Final = frozenset({429, *range(500, 600)})

Row = Mapping[str, str | None]
"""A row: each value as PostgreSQL writes it, None for NULL."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One change of a shape.

    Args:
        operation: `refetch`: forget all rows, they follow again; `current`: all changes up to now
            have arrived.
        key: identifies the row within the shape.
        value: insert: the row; update: the key and what changed; delete: the key.
    """

    operation: Literal["insert", "update", "delete", "refetch", "current"]
    key: str = ""
    value: Row | None = None


class ShapeClient:
    """Reads shapes of one server; open it with `async with`."""

    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        token: str | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        """Store the parameters.

        Args:
            url: of the server: `http://127.0.0.1:8642`.
            secret: for tables under `sync.open`.
            token: of a principal, for named shapes.
            on_wait: called with the reason when the server does not answer, once until it does;
                what it raises ends the request.

        Raises:
            ConfigError: one of them is no ASCII text, or the URL is none of a server.
        """
        if not _SERVER.match(url):
            raise ConfigError(
                f'"{url}" is not the address of a server', hint="Write it as http://HOST:PORT."
            )
        self._url = url.rstrip("/")
        self._on_wait = on_wait
        shown = token or secret or ""
        if not shown.isascii():
            raise ConfigError("secret and token must be ASCII")
        self._headers = {"prefer": "handling=strict"}
        if shown:
            self._headers["authorization"] = f"Bearer {shown}"
        self._stack = AsyncExitStack()
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        """Open connections when they are needed."""
        self._http = await self._stack.enter_async_context(
            httpx2.AsyncClient(timeout=_TIMEOUT, headers=self._headers)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self._stack.aclose()

    async def rows(
        self,
        table: str,
        **shape: Any,  # noqa: ANN401 - see `changes`
    ) -> AsyncGenerator[Mapping[str, Row]]:
        """Yield all rows by key: at first, and again whenever some have changed.

        Args:
            shape: as for `changes`.

        Raises:
            ConfigError, PreconditionError: as `changes`.
        """
        found: dict[str, Row] = {}
        is_new = True
        async for change in self.changes(table, **shape):
            match change.operation:
                case "current":
                    if is_new:
                        yield dict(found)
                    is_new = False
                    continue
                case "refetch":
                    found.clear()
                case "delete":
                    found.pop(change.key, None)
                case _:
                    found[change.key] = {**found.get(change.key, {}), **(change.value or {})}
            is_new = True

    async def changes(
        self,
        table: str = "",
        *,
        name: str = "",
        where: str | None = None,
        columns: tuple[str, ...] = (),
        params: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[RowChange]:
        """Yield the rows of a shape as inserts, then its changes as they are committed.

        It survives restarts of the server and lost connections.

        Args:
            table: `schema.table`; or
            name: of a named shape.
            where: a condition over the table's columns, with `$1` for the parameter `1`.
            params: values of the parameters of the condition, or of the named shape.

        Raises:
            ConfigError: the request is invalid.
            PreconditionError: secret or token are missing or refused.
        """
        path = f"{self._url}/v1/shapes/{name}" if name else f"{self._url}/v1/shape"
        given = dict(params or {})
        if not name:
            given = {f"params[{number}]": value for number, value in given.items()}
            given |= {"table": table, **({"where": where} if where else {})}
            if columns:
                given["columns"] = ",".join(f'"{c.replace(chr(34), chr(34) * 2)}"' for c in columns)
        place = {"offset": "-1"}
        is_current = False
        while True:
            query = {**given, **place, **({"live": "true"} if is_current else {})}
            answer = await self._get(path, query)
            if answer.status_code == _CONFLICT:
                place, is_current = {"offset": "-1"}, False
                yield RowChange("refetch")
                continue
            headers = answer.headers
            place = {"offset": headers["electric-offset"], "handle": headers["electric-handle"]}
            if "electric-cursor" in headers:
                place["cursor"] = headers["electric-cursor"]
            for message in cast("list[dict[str, Any]]", orjson.loads(answer.content)):
                if "key" in message:
                    operation = message["headers"]["operation"]
                    yield RowChange(operation, message["key"], message["value"])
            is_current = "electric-up-to-date" in headers
            if is_current:
                yield RowChange("current")

    async def _get(self, path: str, query: Mapping[str, str]) -> httpx2.Response:
        """Send a request; again, with backoff, while the server is unavailable."""
        if self._http is None:
            raise ConfigError("the client is not open", hint="Use it as: async with ShapeClient(…)")
        failures = 0
        while True:
            try:
                answer = await self._http.get(path, params=dict(query))
            except httpx2.TransportError as error:
                failures += 1
                if failures == 1 and self._on_wait is not None:
                    self._on_wait(str(error) or type(error).__name__)
                await asyncio.sleep(seconds(DATABASE, failures))
                continue
            if answer.status_code in _LATER:
                failures += 1
                await asyncio.sleep(seconds(DATABASE, failures))
                continue
            if answer.status_code == _CONFLICT or "electric-handle" in answer.headers:
                return answer
            raise _refused(answer)


def _refused(answer: httpx2.Response) -> ConfigError | PreconditionError:
    try:
        found = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        found = None
    body = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    errors = cast("dict[str, list[str]]", body.get("errors") or {})
    words = "; ".join(f"{name}: {', '.join(texts)}" for name, texts in errors.items())
    text = words or str(
        body.get("message") or f"the server answered {answer.status_code}, and is not walagent"
    )
    if answer.status_code in {401, 403}:
        return PreconditionError(text, hint="Check the secret or token, and sync in agents.yaml.")
    return ConfigError(text)
