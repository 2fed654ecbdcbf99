"""The HTTP server of `examples/burn`: a session, rows that follow the database, writes, and a page.

    POST   /auth/sign-in       {username, avatar_url} → the user, and a cookie
    POST   /auth/sign-out      ends the session
    GET    /auth/user          the user of the cookie; 204 without one
    GET    /sync/VIEW          a shape of burn.VIEW, as the user
    POST   /ingest/mutations   {mutations} → {txid}: a call of burn.ingest(), as the user
    GET    /…                  the page

The cookie is a token of the user and the only thing that authenticates: what else a client claims
about itself is dropped.  All rules are in the database.
"""

import asyncio
import time
from collections.abc import Mapping
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final, cast

import orjson
from psycopg import AsyncConnection

from walagent import __version__
from walagent.config.sections import ShapeEntry
from walagent.console.api import ConsoleApi
from walagent.console.declared import Declared
from walagent.console.guard import check_place, cookie_name, cookie_of
from walagent.console.offer import Application, Engine, Offer
from walagent.errors import ConfigError, WalagentError
from walagent.http.exchange import RefusedError
from walagent.message import Json
from walagent.sync.asgi import Receive, Scope, Send
from walagent.telemetry.log import log

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
_INGEST: Final = Declared("burn", "select burn.ingest(%(mutations)s)", (), ("mutations",))
_DAYS: Final = 30  # as burn.sign_in() says
_MOST_BYTES: Final = 10_000  # of a sign-in
_NOBODY: Final = b"Unauthenticated"  # as Burn's own front end says it
_LOOK: Final = 1.0  # seconds until nobody looks again whether somebody has signed in
_TAKEN: Final = "WA019"
_UNAVAILABLE: Final = 503
_USER: Final = "select id, name, type, avatar_url from burn.users where id = %s"
_ME: Final = (
    "select id, name, type, avatar_url from burn.users where name = agent.current_principal()"
)

Headers = Mapping[bytes, bytes]


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


class BurnApp:
    """The ASGI application.

    Args:
        shapes: serves `/v1/shapes/burn-VIEW` for a bearer token.
        page: sends the page.
        hosts: names of this server.
        secure: whether browsers reach it by https.
    """

    def __init__(
        self,
        engine: Engine,
        shapes: Application,
        page: Application,
        hosts: frozenset[str],
        *,
        secure: bool = False,
    ) -> None:
        self._engine = engine
        self._page = page
        self._hosts = hosts
        self._secure = "; Secure" if secure else ""
        # What acts as the user is done as for the console, of which nothing else is served.
        offer = Offer({}, {_INGEST.name: _INGEST}, hosts, __version__, secure=secure)
        self._api = ConsoleApi(engine, shapes, offer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = dict(cast("list[tuple[bytes, bytes]]", scope["headers"]))
        try:
            check_place(headers, self._hosts)
            _check_json(scope["method"], headers)
            await self._route(scope, headers, receive, send)
        except RefusedError as error:
            body = {"message": str(error), "code": error.code, "hint": error.hint}
            await _answer(send, error.status, body)
        except WalagentError as error:
            await _answer(send, *_refusal(error))

    async def _route(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        match scope["method"], path:
            case "POST", "/auth/sign-in":
                await self._sign_in(scope, receive, send)
            case "POST", "/auth/sign-out":
                await self._sign_out(scope, send)
            case "GET", "/auth/user":
                await self._user(scope, send)
            case "POST", "/ingest/mutations":
                await self._api(_as_user(scope, "/v1/mutations/burn"), receive, _own(send))
            case "GET" | "HEAD", _ if (view := path.removeprefix("/sync/")) in VIEWS:
                if headers.get(b"authorization") == _NOBODY and not cookie_of(scope):
                    await _answer_nobody(scope, send)
                    return
                await self._api(_as_user(scope, f"/v1/shapes/burn-{view}"), receive, _own(send))
            case "GET" | "HEAD", _ if not path.startswith(("/auth/", "/sync/", "/ingest/", "/v1/")):
                await self._page({**scope, "path": path, "root_path": ""}, receive, send)
            case _:
                raise RefusedError(404, "Not found")

    async def _sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = await _read(receive)
        name, avatar = given.get("username"), given.get("avatar_url")
        try:
            async with self._engine.connection() as conn, conn.transaction():
                statement = "select id, token from burn.sign_in(%s, %s, %s)"
                row = await _row(conn, statement, name, avatar, cookie_of(scope))
                user = await _row(conn, _USER, row["id"])
        except ConfigError as error:
            if error.sqlstate == _TAKEN:
                raise RefusedError(409, str(error), _TAKEN, error.hint) from error
            raise
        cookie = (
            f"{cookie_name(scope)}={row['token']}; Max-Age={_DAYS * 86_400}; HttpOnly;"
            f" SameSite=Strict; Path=/{self._secure}"
        )
        await _answer(send, 200, user, [(b"set-cookie", cookie.encode())])

    async def _sign_out(self, scope: Scope, send: Send) -> None:
        async with self._engine.connection() as conn:
            await conn.execute("select burn.sign_out(%s)", [cookie_of(scope)])
        await _answer(send, 200, {})

    async def _user(self, scope: Scope, send: Send) -> None:
        if not (token := cookie_of(scope)):
            await _answer(send, 204, None)
            return
        async with self._engine.connection() as conn, conn.transaction():
            await conn.execute("select agent.act_as(%s)", [token])
            await _answer(send, 200, await _row(conn, _ME))


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


def _check_json(method: str, headers: Headers) -> None:
    """Refuse writes that a form of another site could send.

    Raises:
        RefusedError: the content type is another one.
    """
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if method == "POST" and kind != b"application/json":
        raise RefusedError(415, "expected content-type: application/json")


def _as_user(scope: Scope, path: str) -> Scope:
    """Return the request for the console's routes, with the cookie alone to say who asks."""
    others = [each for each in scope["headers"] if each[0] != b"authorization"]
    headers = [*others, (b"x-walagent-request", b"1")]
    return {**scope, "path": path, "raw_path": path.encode(), "headers": headers}


def _own(send: Send) -> Send:
    """Let other sites read no answer, and keep the cookie, which shows whose name it is."""

    async def sending(message: Any) -> None:  # noqa: ANN401 - as ASGI defines it
        if "headers" in message:
            kept = [
                each
                for each in message["headers"]
                if each[0] != b"set-cookie" and not each[0].startswith(b"access-control")
            ]
            message = {**message, "headers": kept}
        await send(message)

    return sending


async def _read(receive: Receive) -> Mapping[str, Json]:
    """Read the body, a JSON object.

    Raises:
        RefusedError: it is something else, or too large.
    """
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MOST_BYTES:
            raise RefusedError(413, f"the body exceeds {_MOST_BYTES} bytes")
        if not message.get("more_body"):
            break
    try:
        given: Json = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(400, f"invalid JSON: {error}") from error
    if not isinstance(given, dict):
        raise RefusedError(400, "expected a JSON object")
    return cast("dict[str, Json]", given)


async def _row(conn: AsyncConnection[Any], query: str, *values: object) -> dict[str, Json]:
    """Return the only row of a query, as texts."""
    cursor = await conn.execute(query.encode(), values)
    names = [each.name for each in cursor.description or ()]
    row: tuple[Any, ...] = await cursor.fetchone() or ()
    found: dict[str, Json] = {}
    for name, value in zip(names, row, strict=False):
        found[name] = None if value is None else str(value)
    return found


def _refusal(error: WalagentError) -> tuple[int, dict[str, str]]:
    """Return status and body for an error of the database."""
    state = error.sqlstate or ""
    status = 401 if state == "WA018" else 400 if state[:2] in {"22", "23"} else _UNAVAILABLE
    if status == _UNAVAILABLE:
        log.warning("burn.request_failed", error=error)
        return status, {"message": "the database is not available", "code": state, "hint": ""}
    text = str(error).removesuffix(f" (SQLSTATE {state})")
    return status, {"message": text, "code": state, "hint": error.hint}


async def _answer_nobody(scope: Scope, send: Send) -> None:
    """Answer a shape without rows, which ends when somebody signs in.

    Burn's own front end follows rows before somebody signs in, and says so in the place of a
    bearer.  It waits for them, and after 401 would not ask again.  The server of shapes does not
    know this handle, so the first request with a cookie starts over.
    """
    is_live = b"live=true" in scope["query_string"]
    if is_live:
        await asyncio.sleep(_LOOK)
    headers = [
        (b"electric-handle", b"nobody"),
        (b"electric-offset", b"0_inf"),
        (b"electric-schema", b"{}"),
        (b"electric-cursor", str(time.time_ns()).encode()),
        (b"electric-up-to-date", b""),
    ]
    await _answer(send, 200, [{"headers": {"control": "up-to-date"}}], headers)


async def _answer(
    send: Send,
    status: int,
    body: Json | Mapping[str, Json],
    more: list[tuple[bytes, bytes]] | None = None,
) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *(more or ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    sent = b"" if body is None else orjson.dumps(body)
    await send({"type": "http.response.body", "body": sent})
