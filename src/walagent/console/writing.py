"""Mutations: one statement, one transaction, as the principal."""

from collections.abc import Mapping
from typing import Final, cast

from starlette.requests import Request
from starlette.responses import Response

from walagent.console.acting import Acting
from walagent.console.guard import token_of
from walagent.console.offer import Offer
from walagent.console.sessions import act_as, other_login
from walagent.console.statements import (
    check_arguments,
    check_given,
    check_role,
    read_rows,
    statement_of,
)
from walagent.errors import WalagentError
from walagent.http.exchange import RefusedError, answer, read_object
from walagent.message import Json
from walagent.sync.role_sessions import RoleUnusableError
from walagent.telemetry.log import log

_DENIED: Final = "42501"  # insufficient_privilege
_TXID: Final = "select pg_current_xact_id()::text as txid"


class Writing:
    """Answers `/v1/mutations/NAME`."""

    def __init__(self, acting: Acting, offer: Offer) -> None:
        self._acting = acting
        self._offer = offer

    async def mutate(self, request: Request) -> Response:
        """Execute a mutation; answer with its transaction ID and its result."""
        name: str = request.path_params["name"]
        try:
            txid, result = await self._execute(request, name)
        except (RefusedError, WalagentError) as error:
            await self._audit_refusal(request, name, error)
            raise
        return answer({"txid": txid, "result": result})

    async def _execute(self, request: Request, name: str) -> tuple[str, Json]:
        declared = self._offer.mutations.get(name)
        if declared is None:
            raise RefusedError(404, f'there is no mutation "{name}"')
        token = token_of(request.scope)
        await self._acting.who(token)  # nobody else's body is read
        given = await read_object(request)
        check_given(declared, name, given)
        if declared.run_as is not None and self._offer.own is not None:
            caller, _ = await self._acting.caller(token, "post")
            return await self._offer.own.write(declared, given, caller)
        text, values = statement_of(declared, given)
        login: str | None = None
        async with self._acting.transaction(token, writes=True) as conn:
            if declared.role is not None:
                await check_role(conn, declared.role)
            if declared.as_login:
                login = await other_login(conn)
            if declared.function is not None:
                await check_arguments(conn, declared.function, name, given)
            if login is None:
                rows = await read_rows(conn, text, values)
                if not rows:
                    raise RefusedError(404, "it does not exist, or you may not see it")
                txid = str((await read_rows(conn, _TXID, {}))[0]["txid"])
                return txid, next(iter(rows[0].values()), None)
        return await self._write_as(token, login, text, values)

    async def _write_as(
        self, token: str, login: str, text: str, values: Mapping[str, str | None]
    ) -> tuple[str, Json]:
        """Execute a statement as the login of the principal; return as `Own.write`."""
        own = self._offer.own
        if own is None:
            raise RefusedError(404, "this process executes nothing as other logins")
        caller, _ = await self._acting.caller(token, "read")
        try:
            txid, row = await own.write_as(login, text, values, caller)
        except RoleUnusableError as error:
            raise RefusedError(
                403,
                f"walagent run cannot act as your login: {error}",
                _DENIED,
                error.hint or f"grant {login} to the login of walagent run, or use psql.",
            ) from error
        values_of = cast("dict[str, Json]", row or {}).values()
        return txid, next(iter(values_of), None)

    async def _audit_refusal(
        self, request: Request, name: str, error: RefusedError | WalagentError
    ) -> None:
        """Record that a principal may not do this: the transaction that was refused is gone."""
        state = error.code if isinstance(error, RefusedError) else error.sqlstate
        if state != _DENIED:
            return
        try:
            token = token_of(request.scope)
            who = await self._acting.who(token)
            async with self._acting.connection(who) as conn, conn.transaction():
                await act_as(conn, token, find=self._acting.find)
                statement = "select agent_internal.audit_refused_request(%s, %s)"
                await conn.execute(statement, (f"mutation {name}", state))
        except (RefusedError, WalagentError) as lost:
            log.warning("console.refusal_not_audited", mutation=name, error=lost)
