"""The HTTP server of `examples/burn`: a session, rows that follow the database, writes, and a page.

    POST   /auth/sign-in       {username, avatar_url} → the user, and a cookie
    POST   /auth/sign-out      ends the session
    GET    /auth/user          the user of the cookie; 204 without one
    GET    /sync/VIEW          a shape of burn.VIEW, as the user
    POST   /ingest/mutations   {mutations} → {txid}
    GET    /…                  the page

The cookie is a token of the user and the only thing that authenticates: what else a client claims
about itself is dropped.  All rules are in the database.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

import orjson
from psycopg import AsyncConnection

from walagent.config.sections import ShapeEntry
from walagent.errors import ConfigError, WalagentError
from walagent.log import log
from walagent.message import Json
from walagent.sync.app import Receive, Scope, Send
from walagent.sync.query import Connecting

_KEY: Final = ("id",)
VIEWS: Final[Mapping[str, tuple[str, ...]]] = {
    "users": _KEY,
    "threads": _KEY,
    "memberships": _KEY,
    "events": _KEY,
    "facts": _KEY,
    "page": ("view", "id"),
}
SHAPES: Final = {
    f"burn-{view}": ShapeEntry(query=f"select * from burn.{view}", key=key)  # noqa: S608 - ours
    for view, key in VIEWS.items()
}
COOKIE: Final = "walagent_session"
_DAYS: Final = 30  # as burn.sign_in() says
_UNAVAILABLE: Final = 503
_MOST_BYTES: Final = 1 << 20  # of a body
_USER: Final = "select id, name, type, avatar_url from burn.users where id = %s"
_ME: Final = (
    "select id, name, type, avatar_url from burn.users where name = agent.current_principal()"
)
_STATUS: Final = {"42501": 403, "WA018": 401, "WA019": 404, "23505": 409}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def policy(*, styles: str = "") -> str:
    """Return the content security policy: browsers load avatars from GitHub.

    Args:
        styles: sources of styles beside the files of the page.
    """
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'{styles}; connect-src 'self';"
        " img-src 'self' data: https://github.com https://avatars.githubusercontent.com;"
        " font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


class Application(Protocol):
    """An ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        ...


class Engine(Protocol):
    """Where connections of the daemon's login come from."""

    def connection(self) -> Connecting:
        """Use a connection for a while."""
        ...


class _AnswerError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message, "code": code, "hint": hint}


class BurnApp:
    """The ASGI application.

    Args:
        shapes: serves `/v1/shapes/burn-VIEW` for a bearer token.
        page: sends the page.
        hosts: names of this server beside those of loopback.
    """

    def __init__(
        self, engine: Engine, shapes: Application, page: Application, hosts: frozenset[str]
    ) -> None:
        self._engine = engine
        self._shapes = shapes
        self._page = page
        self._hosts = hosts | _LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = dict(cast("list[tuple[bytes, bytes]]", scope["headers"]))
        try:
            self._check_origin(scope["method"], headers)
            await self._route(scope, headers, receive, send)
        except _AnswerError as error:
            await _answer(send, error.status, error.body)
        except WalagentError as error:
            await _answer(send, *_refusal(error))

    async def _route(
        self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        path: str = scope["path"]
        match scope["method"], path:
            case "POST", "/auth/sign-in":
                await self._sign_in(headers, receive, send)
            case "POST", "/auth/sign-out":
                await self._sign_out(headers, send)
            case "GET", "/auth/user":
                await self._user(headers, send)
            case "POST", "/ingest/mutations":
                await self._ingest(headers, receive, send)
            case "GET" | "HEAD", _ if path.removeprefix("/sync/") in VIEWS:
                shape = _as_shape(scope, path, _token(headers))
                await self._shapes(shape, receive, _same_origin(send))
            case "GET" | "HEAD", _ if not path.startswith(("/auth/", "/sync/", "/ingest/", "/v1/")):
                await self._page({**scope, "path": path, "root_path": ""}, receive, send)
            case _:
                raise _AnswerError(404, "Not found")

    def _check_origin(self, method: str, headers: Mapping[bytes, bytes]) -> None:
        """Refuse other names of this server (DNS rebinding) and writes from other sites.

        Raises:
            _AnswerError: the request is refused.
        """
        host = headers.get(b"host", b"").decode("latin-1")
        if urlsplit(f"//{host}").hostname not in self._hosts:
            raise _AnswerError(403, f'host "{host}" is not a name of this server')
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and urlsplit(origin).netloc != host:
            raise _AnswerError(403, "requests from other sites are refused")
        kind = headers.get(b"content-type", b"").partition(b";")[0]
        if method == "POST" and kind != b"application/json":
            raise _AnswerError(415, "expected content-type: application/json")

    async def _sign_in(self, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        given = await _read(receive)
        try:
            async with self._engine.connection() as conn, conn.transaction():
                row = await _row(
                    conn,
                    "select id, token from burn.sign_in(%s, %s, %s)",
                    *map(given.get, ("username", "avatar_url")),
                    _token(headers),
                )
                user = await _row(conn, _USER, row["id"])
        except ConfigError as error:
            if error.sqlstate == "WA019":
                raise _AnswerError(409, str(error), "WA019", error.hint) from error
            raise
        cookie = (
            f"{COOKIE}={row['token']}; Max-Age={_DAYS * 86_400}; HttpOnly; SameSite=Strict; Path=/"
        )
        await _answer(send, 200, user, [(b"set-cookie", cookie.encode())])

    async def _sign_out(self, headers: Mapping[bytes, bytes], send: Send) -> None:
        async with self._engine.connection() as conn:
            await conn.execute("select burn.sign_out(%s)", [_token(headers)])
        await _answer(send, 200, {})

    async def _user(self, headers: Mapping[bytes, bytes], send: Send) -> None:
        if _token(headers) is None:
            await _answer(send, 204, None)
            return
        async with self._acting(headers) as conn:
            await _answer(send, 200, await _row(conn, _ME))

    async def _ingest(self, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        mutations = orjson.dumps((await _read(receive)).get("mutations")).decode()
        async with self._acting(headers) as conn:
            await conn.execute("select burn.ingest(%s)", [mutations])
            row = await _row(conn, "select pg_current_xact_id()::text as txid")
        await _answer(send, 200, row)

    @asynccontextmanager
    async def _acting(self, headers: Mapping[bytes, bytes]) -> AsyncGenerator[AsyncConnection[Any]]:
        """Open a transaction of the user of the cookie."""
        if not (token := _token(headers)):
            raise _AnswerError(401, "sign in first")
        async with self._engine.connection() as conn, conn.transaction():
            await conn.execute("select agent.act_as(%s)", [token])
            yield conn


class Folder:
    """The ASGI application of a page in a folder: every path that is no file is a route of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - no request has a body
        """Send a file."""
        path: str = scope["path"].replace("\0", "").lstrip("/")
        file = (self._folder / path).resolve()
        if not (file.is_relative_to(self._folder) and file.is_file()):
            accepted = dict(cast("list[tuple[bytes, bytes]]", scope["headers"])).get(b"accept", b"")
            if "." in path.rpartition("/")[2] or b"text/html" not in accepted:
                await _answer(send, 404, {"message": "Not found"})
                return
            file = self._folder / "index.html"
        body = await asyncio.to_thread(file.read_bytes)
        kind = guess_type(file.name)[0] or "application/octet-stream"
        sent = [
            (b"content-type", kind.encode()),
            (b"content-security-policy", policy(styles=" 'unsafe-inline'").encode()),
            (b"cache-control", b"no-cache"),
            (b"referrer-policy", b"no-referrer"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": sent})
        await send({"type": "http.response.body", "body": body})


def _as_shape(scope: Scope, path: str, token: str | None) -> Scope:
    """Return the request for a shape with the token of the cookie in the place of any other."""
    others = [
        (name, value)
        for name, value in scope["headers"]
        if name not in {b"authorization", b"cookie"}
    ]
    own = [(b"authorization", b"Bearer " + token.encode())] if token else []
    path = f"/v1/shapes/burn-{path.removeprefix('/sync/')}"
    return {**scope, "path": path, "raw_path": path.encode(), "headers": [*others, *own]}


def _same_origin(send: Send) -> Send:
    """Drop the headers that let other sites read an answer to a cookie."""

    async def sending(message: Any) -> None:  # noqa: ANN401 - as ASGI defines it
        if "headers" in message:
            kept = [
                each for each in message["headers"] if not each[0].startswith(b"access-control")
            ]
            message = {**message, "headers": kept}
        await send(message)

    return sending


def _token(headers: Mapping[bytes, bytes]) -> str | None:
    try:
        cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


async def _read(receive: Receive) -> Mapping[str, Json]:
    """Read the body, a JSON object.

    Raises:
        _AnswerError: it is something else, or too large.
    """
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MOST_BYTES:
            raise _AnswerError(413, f"the body exceeds {_MOST_BYTES} bytes")
        if not message.get("more_body"):
            break
    try:
        given: Json = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _AnswerError(400, f"invalid JSON: {error}") from error
    if not isinstance(given, dict):
        raise _AnswerError(400, "expected a JSON object")
    return cast("dict[str, Json]", given)


async def _row(conn: AsyncConnection[Any], query: str, *values: object) -> dict[str, Json]:
    """Return the only row of a query, as texts."""
    cursor = await conn.execute(query.encode(), values)
    names = [each.name for each in cursor.description or ()]
    values_of: tuple[Any, ...] = await cursor.fetchone() or ()
    found: dict[str, Json] = {}
    for name, value in zip(names, values_of, strict=False):
        found[name] = None if value is None else str(value)
    return found


def _refusal(error: WalagentError) -> tuple[int, dict[str, str]]:
    """Return status and body for an error of the database."""
    state = error.sqlstate or ""
    status = _STATUS.get(state, 400 if state[:2] in {"22", "23"} else _UNAVAILABLE)
    if status == _UNAVAILABLE:
        log.warning("burn.request_failed", error=error)
        return status, {"message": "the database is not available", "code": state, "hint": ""}
    text = str(error).removesuffix(f" (SQLSTATE {state})")
    return status, {"message": text, "code": state, "hint": error.hint}


async def _answer(
    send: Send,
    status: int,
    body: Mapping[str, Json] | None,
    more: list[tuple[bytes, bytes]] | None = None,
) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *(more or ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if body is None else orjson.dumps(body)})
