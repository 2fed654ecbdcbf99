"""What the console's pages ask: sessions, queries that are read once, mutations, and shapes.

    GET, POST, DELETE  /v1/session            who is signed in; sign in; sign out
    GET, POST          /v1/ask                whether the principal can ask; ask a question
    GET, POST          /v1/try                rows to try an agent on; try one, and take it back
    GET                /v1/why                why a row of a table has a run, or none
    GET                /v1/queries/NAME       the rows of a query, as the principal
    POST               /v1/mutations/NAME     one statement, one transaction, as the principal
    WebSocket          /v1/multiplex          many requests for shapes
    GET                /v1/replies            what models write now, as events
    GET                /v1/shapes/NAME        with the cookie; everything else of /v1 goes on

The cookie is a token; requests with it are guarded.  Bearer tokens are accepted, too.  Shapes get
their requests as they are: routes and responses of a framework would cost each poll.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from walagent.console.acting import Acting
from walagent.console.guard import check, check_place, cookie_of
from walagent.console.multiplex import Socket, Sockets
from walagent.console.offer import Application, Engine, Offer
from walagent.console.reading import Reading
from walagent.console.signing_in import SigningIn, without_cookie
from walagent.console.writing import Writing
from walagent.errors import DatabaseLostError, LoginRefusedError, WalagentError
from walagent.http.exchange import RefusedError, refuse, refuse_route
from walagent.http.signed_tokens import FindIdentity
from walagent.store.sessions.acting import identity_of_token
from walagent.sync.asgi import Receive, Scope, Send, bearer_of
from walagent.sync.role_sessions import RoleUnusableError
from walagent.telemetry.log import log

_UNAVAILABLE: Final = 503
_SIGNED_OUT: Final = 401
_STATUS: Final = {
    "42501": 403,  # insufficient_privilege
    "WA003": 409,  # the state of a run changed meanwhile
    "WA005": 409,  # another person decided
    "WA018": 401,
    "WA019": 404,
    "23505": 409,
    "55P03": 409,  # lock_not_available
    "57014": 504,  # query_canceled: it took too long
}


class ConsoleApi:
    """The ASGI application.

    Args:
        shapes: answers everything else of /v1.
        find: finds the identity of a token.
    """

    def __init__(
        self,
        engine: Engine,
        shapes: Application,
        offer: Offer,
        find: FindIdentity = identity_of_token,
    ) -> None:
        self._shapes = shapes
        self._hosts = offer.hosts
        acting = Acting(engine, find)
        self._sockets = Sockets(shapes, acting.who)
        session, reads = SigningIn(acting, offer), Reading(acting, offer)
        self._app = Starlette(
            routes=[
                Route("/session", session.who, methods=["GET"]),
                Route("/session", session.sign_in, methods=["POST"]),
                Route("/session", session.sign_out, methods=["DELETE"]),
                Route("/replies", reads.replies, methods=["GET"]),
                Route("/try", reads.rows_to_try, methods=["GET"]),
                Route("/try", reads.try_row, methods=["POST"]),
                Route("/ask", reads.may_ask, methods=["GET"]),
                Route("/ask", reads.ask, methods=["POST"]),
                Route("/why", reads.why, methods=["GET"]),
                Route("/queries/{name:path}", reads.query, methods=["GET"]),
                Route("/mutations/{name:path}", Writing(acting, offer).mutate, methods=["POST"]),
            ],
            exception_handlers={
                RefusedError: _refuse,
                WalagentError: _fail,
                HTTPException: refuse_route,
            },
        )

    @property
    def routes(self) -> Sequence[tuple[str, frozenset[str]]]:
        """Paths below /v1, and the methods of each."""
        return [
            (each.path, frozenset(each.methods or ()))
            for each in self._app.routes
            if isinstance(each, Route)
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await self._multiplex(scope, receive, send)
            return
        path: str = scope["path"]
        at = path.rfind("/v1/")
        route = path[at + 3 :]
        headers = dict[bytes, bytes](scope["headers"])
        is_ours = route in _ROUTES or route.startswith(("/queries/", "/mutations/"))
        cookie = cookie_of(scope)
        by_cookie = bool(cookie) and b"authorization" not in headers and route[:8] == "/shapes/"
        if is_ours or by_cookie:
            try:
                check(scope["method"], headers, self._hosts)
            except RefusedError as error:
                await refuse(error)(scope, receive, send)
                return
        if is_ours:
            await self._app({**scope, "root_path": path[: at + 3]}, receive, send)
        elif by_cookie:
            await self._shapes(_with_token(scope, cookie), receive, _same_origin(send))
        else:
            await self._shapes(scope, receive, send)

    async def _multiplex(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a socket; a socket with a cookie is guarded as requests with it are."""
        bearer, cookie = bearer_of(scope), cookie_of(scope)
        if not scope["path"].endswith("/v1/multiplex"):
            return
        if cookie and not bearer:
            try:
                check_place(dict[bytes, bytes](scope["headers"]), self._hosts)
            except RefusedError:
                return
        await Socket(self._sockets, scope, receive, send, bearer or cookie).serve()


_ROUTES: Final = frozenset({"/session", "/replies", "/ask", "/try", "/why"})


async def _refuse(request: Request, error: Exception) -> Response:
    refused = cast("RefusedError", error)
    response = refuse(refused)
    if refused.status == _SIGNED_OUT and cookie_of(request.scope):
        without_cookie(response, request)
    return response


async def _fail(_: Request, error: Exception) -> Response:
    return refuse(_refusal(cast("WalagentError", error)))


def _refusal(error: WalagentError) -> RefusedError:
    """Return what an error of the database is to the page."""
    state = error.sqlstate or ""
    status = _STATUS.get(state)
    if status is None:
        lost = isinstance(error, DatabaseLostError | LoginRefusedError | RoleUnusableError)
        status = _UNAVAILABLE if lost or state[:2] in {"08", "53", "57"} else 400
    if status == _UNAVAILABLE:
        log.warning("console.request_failed", error=error)
        return RefusedError(status, "the database is not available", state)
    text = str(error).removesuffix(f" (SQLSTATE {state})")
    return RefusedError(status, text, state, error.hint)


def _with_token(scope: Scope, token: str) -> Scope:
    """Return the request with the token of the cookie in the place of the cookie."""
    others = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
    return {**scope, "headers": [*others, (b"authorization", b"Bearer " + token.encode())]}


def _same_origin(send: Send) -> Send:
    """Drop the headers that let other sites read an answer to a cookie."""

    async def sending(message: Any) -> None:  # noqa: ANN401 - as ASGI defines it
        if "headers" in message:
            kept = [e for e in message["headers"] if not e[0].startswith(b"access-control")]
            message = {**message, "headers": kept}
        await send(message)

    return sending
