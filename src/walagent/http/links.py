"""Pages on which a person decides an approval, from a link that a message brought.

A link is for one approver and one call, and decides once.  GET and HEAD change nothing, because
mail servers and chats open links to inspect them; the decision is a POST of the page's form.  The
form has a value that only the browser's cookie has, too, so no other site can send it.  The page
loads nothing and is stored nowhere; no other site is sent its address.
"""

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping
from html import escape
from typing import Final
from urllib.parse import parse_qs, urlsplit

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from walagent.domain.untrusted import visible
from walagent.errors import DatabaseLostError, LoginRefusedError
from walagent.message import Json
from walagent.store.errors import translating
from walagent.store.outbox import OpenLink, open_link, use_link
from walagent.store.sessions.connections import connect

_COOKIE: Final = "walagent_link"
_MOST_BYTES: Final = 8_192  # of a form
_CONCURRENT: Final = 4  # requests that use the database
_GONE: Final = 410
_REFUSED: Final = 403
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # after no-referrer, browsers post with the origin null
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}
_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:45rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8882;padding:.8rem}"
    "dt{font-weight:600}dd{margin:0 0 .6rem;overflow-wrap:anywhere}"
    "textarea{font:inherit;width:100%;box-sizing:border-box}"
    "button{font:inherit;padding:.4rem 1.2rem}"
)


class Links:
    """Serves the pages of links."""

    def __init__(self, dsn: Callable[[], str], public_url: str) -> None:
        """Take what requests are answered with.

        Args:
            dsn: of the database, as the daemon's role.
            public_url: where people reach this server.
        """
        self._dsn = dsn
        self._public = urlsplit(public_url)
        self._free = asyncio.Semaphore(_CONCURRENT)

    @property
    def path(self) -> str:
        """The path under which the app answers."""
        return f"{self._public.path.rstrip('/')}/approvals"

    @property
    def app(self) -> Starlette:
        """The app; GET is also HEAD."""
        return Starlette(
            routes=[
                Route("/{token}", self._show, methods=["GET"]),
                Route("/{token}", self._post, methods=["POST"]),
            ]
        )

    async def _show(self, request: Request) -> Response:
        try:
            async with self._free:
                with translating():
                    async with await connect(self._dsn(), application="walagent http") as conn:
                        link = await open_link(conn, _token(request))
        except (DatabaseLostError, LoginRefusedError):
            return _page("The database is unavailable", "Open the link again later.", 503)
        if link.refusal is not None:
            return _page("This link cannot decide", link.refusal, _GONE)
        given = request.cookies.get(_COOKIE, "")
        value = given if len(given) == 2 * 16 and given.isalnum() else secrets.token_hex(16)
        response = HTMLResponse(_decision(link, value), headers=_HEADERS)
        response.set_cookie(
            _COOKIE,
            value,
            path=request.url.path,
            secure=self._public.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response

    async def _post(self, request: Request) -> Response:
        form = await _form(request)
        if form is None or not self._is_ours(request, form):
            text = "The form was not sent by this page. Open the link again."
            return _page("Nothing was decided", text, _REFUSED)
        choice = form.get("decision")
        if choice not in {"approve", "reject"}:
            return _page("Nothing was decided", "Choose one of the buttons.", 400)
        try:
            async with self._free:
                with translating():
                    async with await connect(self._dsn(), application="walagent http") as conn:
                        refusal = await use_link(
                            conn,
                            _token(request),
                            approve=choice == "approve",
                            reason=form.get("reason", "").replace("\0", "")[:2000],
                        )
        except (DatabaseLostError, LoginRefusedError):
            return _page("Nothing was decided", "The database is unavailable. Try again.", 503)
        if refusal is not None:
            return _page("Nothing was decided", refusal, _GONE)
        return _page("Approved" if choice == "approve" else "Rejected", "The run continues.", 200)

    def _is_ours(self, request: Request, form: Mapping[str, str]) -> bool:
        """Whether a form was sent by a page of this server, in the browser that loaded it."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        ours = f"{self._public.scheme}://{self._public.netloc}"
        if (origin is not None and origin != ours) or site not in {None, "same-origin"}:
            return False
        cookie = request.cookies.get(_COOKIE, "")
        return bool(cookie) and hmac.compare_digest(
            cookie.encode(), form.get("page", "").encode(errors="replace")
        )


def _token(request: Request) -> str:
    """Return the token in the path; what can be none becomes none."""
    return str(request.path_params["token"]).replace("\0", "")


async def _form(request: Request) -> Mapping[str, str] | None:
    """Read a form; None if it is none, or too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            return None
    if kind != "application/x-www-form-urlencoded":
        return None
    try:
        fields = parse_qs(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=10)
    except ValueError:  # more fields
        return None
    return {name: values[0] for name, values in fields.items()}


def _decision(link: OpenLink, value: str) -> str:
    facts = {
        "Agent": link.agent,
        "Tool": link.tool,
        "Risk": link.risk,
        "Table": link.relation,
        "Key": link.key,
        "Run": link.run,
        "Approval": link.approval,
        "You decide as": link.principal,
        "Expires": link.expires_at and link.expires_at.isoformat(timespec="minutes"),
    }
    shown = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(visible(str(fact)))}</dd>"
        for name, fact in facts.items()
        if fact is not None
    )
    return _document(
        "Decide a tool call",
        f"<dl>{shown}</dl><h2>Arguments</h2><pre>{_json(link.arguments)}</pre>"
        f"<h2>Row</h2><pre>{_json(link.content)}</pre>"
        f'<form method="post"><input type="hidden" name="page" value="{escape(value)}">'
        # Enter in a textarea is a new line; in an input it would press the first button.
        '<p><label>Reason of a rejection, for the model<br><textarea name="reason" rows="3"'
        ' maxlength="2000"></textarea></label></p>'
        '<button name="decision" value="approve">Approve</button> '
        '<button name="decision" value="reject">Reject</button></form>',
    )


def _json(value: Json) -> str:
    return escape(visible(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()))


def _page(title: str, text: str, status: int) -> Response:
    document = _document(title, f"<p>{escape(text)}</p>")
    return HTMLResponse(document, status_code=status, headers=_HEADERS)


def _document(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>{body}</html>"
    )
