"""The session of a browser: who is signed in, sign in, sign out."""

from dataclasses import asdict
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from walagent.console.acting import Acting
from walagent.console.guard import cookie_name, prefix_of, token_of
from walagent.console.offer import Offer
from walagent.console.own import check_texts, text_of
from walagent.console.sessions import HOURS, UNKNOWN_CODE, enter, exchange, leave, read_session
from walagent.http.exchange import RefusedError, answer, read_object
from walagent.telemetry.log import log

_MOST_BYTES: Final = 1 << 16  # of a body that anybody can send


class SigningIn:
    """Answers `/v1/session`."""

    def __init__(self, acting: Acting, offer: Offer) -> None:
        self._acting = acting
        self._offer = offer

    async def who(self, request: Request) -> Response:
        """Answer with the principal who is signed in."""
        async with self._acting.transaction(token_of(request.scope)) as conn:
            session = await read_session(conn, self._offer.version)
        return answer(asdict(session))

    async def sign_in(self, request: Request) -> Response:
        """Exchange a code of `walagent console`, or a token, for a cookie."""
        given = await read_object(request, _MOST_BYTES)
        code, token = given.get("code"), given.get("token")
        check_texts({"code": text_of(code)})
        if isinstance(code, str):
            share = await self._acting.share_of(code, UNKNOWN_CODE)
            async with self._acting.connection(share) as conn, conn.transaction():
                session = await exchange(conn, code)
        elif isinstance(token, str):
            share = await self._acting.share_of(token)
            async with self._acting.connection(share) as conn, conn.transaction():
                session = await enter(conn, token, self._acting.find)
        else:
            raise RefusedError(400, 'expected "code" or "token"')
        log.info("console.signed_in", by="code" if isinstance(code, str) else "token")
        response = answer({})
        response.set_cookie(
            cookie_name(request.scope),
            session,
            max_age=HOURS * 3600,
            path=prefix_of(request.scope) or "/",
            secure=self._offer.secure
            or request.url.scheme == "https"
            or request.headers.get("x-forwarded-proto") == "https",
            httponly=True,
            samesite="strict",
        )
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        token = token_of(request.scope)
        share = await self._acting.share_of(token)
        async with self._acting.connection(share) as conn, conn.transaction():
            await leave(conn, token)
        return without_cookie(answer({}), request)


def without_cookie(response: Response, request: Request) -> Response:
    """Let the browser forget its session."""
    response.set_cookie(
        cookie_name(request.scope),
        "",
        max_age=0,
        path=prefix_of(request.scope) or "/",
        httponly=True,
        samesite="strict",
    )
    return response
