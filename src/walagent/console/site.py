"""Serve the console: one page for every address, its files, and a status page without JavaScript.

The page loads nothing from elsewhere and runs no script but its own files; nothing in it is
absolute, so it works under the prefix at which the server is mounted.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import orjson

from walagent.console.files import Built, File

# As ASGI defines them, and as servers type them.
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_PREFIX: Final = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
_SAFE: Final[Headers] = [
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_FOREVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_CHECKED: Final = (b"cache-control", b"no-cache")
_VARY: Final = (b"vary", b"accept-encoding")
_HTML: Final = b"text/html; charset=utf-8"
_JSON: Final = b"application/json"


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    kind: bytes
    body: bytes
    headers: Sequence[tuple[bytes, bytes]]


class ConsoleSite:
    """The ASGI application of the console's pages and files.

    Args:
        built: what `make web` built.
        status: facts of the status page by name, read for each request.
        policy: the content security policy.
    """

    def __init__(
        self, built: Built, status: Callable[[], Mapping[str, str]], policy: str = _POLICY
    ) -> None:
        self._built = built
        self._status = status
        self._policy = (b"content-security-policy", policy.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - no request has a body
        """Answer one request."""
        if scope["type"] != "http":
            return
        reply = self._reply(scope, dict[bytes, bytes](scope["headers"]))
        headers: Headers = [(b"content-type", reply.kind), self._policy, *_SAFE, *reply.headers]
        if reply.status != _NOT_MODIFIED:
            headers.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else reply.body
        await send({"type": "http.response.body", "body": body})

    def _reply(self, scope: Scope, headers: Mapping[bytes, bytes]) -> _Reply:
        root: str = scope.get("root_path", "").rstrip("/")
        path: str = scope["path"].removeprefix(root) or "/"
        if scope["method"] not in {"GET", "HEAD"}:
            return _Reply(405, _JSON, _message("Method not allowed"), [_ALLOW])
        if path.startswith("/assets/"):
            return self._asset(path.removeprefix("/assets/"), headers)
        if path == "/status":
            return self._status_page()
        if path.startswith("/v1/") or not (path == "/" or b"text/html" in _accepted(headers)):
            return _NOT_FOUND
        return self._page(_base(root, headers))

    def _page(self, base: str) -> _Reply:
        if self._built.page is None:
            return self._status_page()
        page = self._built.page.replace('"./', f'"{base}').replace(
            'name="walagent-base" content="/"', f'name="walagent-base" content="{base}"'
        )
        return _Reply(200, _HTML, page.encode(), [_CHECKED])

    def _asset(self, name: str, headers: Mapping[bytes, bytes]) -> _Reply:
        file = self._built.files.get(name)
        if file is None:
            return _NOT_FOUND
        cache = _FOREVER if _HASHED.search(name) else _CHECKED
        more: Headers = [cache, _VARY, (b"etag", file.etag.encode())]
        if file.etag.encode() in headers.get(b"if-none-match", b""):
            return _Reply(_NOT_MODIFIED, file.kind.encode(), b"", more)
        body, encoding = _encoded(file, headers)
        return _Reply(200, file.kind.encode(), body, [*more, *encoding])

    def _status_page(self) -> _Reply:
        facts = "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
            for name, value in self._status().items()
        )
        missing = "" if self._built.page is not None else _MISSING
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>walagent status</title><h1>walagent</h1>{missing}<dl>{facts}</dl>"
            "<p>Commands: <code>walagent runs</code>, <code>walagent approvals list</code>,"
            " <code>walagent doctor</code>.</p></html>"
        )
        return _Reply(200, _HTML, page.encode(), [_NOT_STORED])


_NOT_MODIFIED: Final = 304
_ALLOW: Final = (b"allow", b"GET, HEAD")
_NOT_STORED: Final = (b"cache-control", b"no-store")
_HASHED: Final = re.compile(r"-[A-Za-z0-9_-]{8}\.[a-z0-9]+$")
_MISSING: Final = (
    "<p>The files of the console are missing from this installation. In a checkout, build them"
    " with <code>make web</code> (needs Node 20 and npm), and start walagent again.</p>"
)


def _message(text: str) -> bytes:
    return orjson.dumps({"message": text})


def _accepted(headers: Mapping[bytes, bytes]) -> bytes:
    return headers.get(b"accept", b"")


def _base(root: str, headers: Mapping[bytes, bytes]) -> str:
    """Return the path of the mount: the server's, or the one that a proxy removed."""
    if not root:
        root = headers.get(b"x-forwarded-prefix", b"").decode("latin-1").rstrip("/")
    return f"{root}/" if _PREFIX.fullmatch(root) else "/"


def _encoded(file: File, headers: Mapping[bytes, bytes]) -> tuple[bytes, Headers]:
    if b"gzip" in headers.get(b"accept-encoding", b"") and len(file.compressed) < len(file.body):
        return file.compressed, [(b"content-encoding", b"gzip")]
    return file.body, []


_NOT_FOUND: Final = _Reply(404, _JSON, _message("Not found"), [_NOT_STORED])
