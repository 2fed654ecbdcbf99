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

The cookie is a token; requests with it are guarded.  Bearer tokens are accepted, too.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, cast
from urllib.parse import parse_qsl

import orjson
from psycopg import AsyncClientCursor, AsyncConnection, AsyncCursor
from psycopg.sql import SQL, Identifier
from psycopg.types.string import TextLoader

from walagent.base.concurrency import first_of
from walagent.console.declared import Declared
from walagent.console.guard import (
    RefusedError,
    check,
    check_place,
    cookie_name,
    cookie_of,
    prefix_of,
)
from walagent.console.multiplex import Socket
from walagent.console.own import AS_TEXT, Caller, Own, check_complete, check_texts, text_of
from walagent.console.replies import ReplyStreams, check_reader, disconnected, reader_of
from walagent.console.sessions import (
    HOURS,
    act_as,
    acting_role,
    enter,
    exchange,
    leave,
    other_login,
    read_session,
)
from walagent.domain.tenant import Actor
from walagent.errors import DatabaseLostError, LoginRefusedError, WalagentError
from walagent.http.signed_tokens import FindIdentity
from walagent.message import Json
from walagent.runs.live_replies import LiveReplies
from walagent.store.sessions.acting import Identity, identity_of_token
from walagent.sync.asgi import Receive, Scope, Send
from walagent.sync.query import Connecting
from walagent.sync.role_sessions import RoleUnusableError
from walagent.telemetry.log import log

_MOST_BYTES: Final = 4 << 20  # of a body
# Compiling the policies of all tables that a query reads takes seconds.
_LOCAL: Final = b"set local statement_timeout = '20s'; set local jit = off"
_CONCURRENT: Final = 6  # statements; shapes need connections, too

_UNAVAILABLE: Final = 503
_DENIED: Final = "42501"  # insufficient_privilege
_STATUS: Final = {
    _DENIED: 403,
    "WA003": 409,  # the state of a run changed meanwhile
    "WA005": 409,  # another person decided
    "WA018": 401,
    "WA019": 404,
    "23505": 409,
    "55P03": 409,  # lock_not_available
    "57014": 504,  # query_canceled: it took too long
}


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


class Questions(Protocol):
    """Answers questions of principals."""

    async def check(self, conn: AsyncConnection[Any]) -> bool:
        """Check that the principal can ask; return whether as the login of this process."""
        ...

    async def answer(self, question: str, session: str, token: str | None) -> dict[str, Json]:
        """Answer a question."""
        ...


async def _no_prompt(_conn: AsyncConnection[Any], _run: int) -> dict[str, Json] | None:
    return None


class Trials(Protocol):
    """Tries attachments for principals."""

    async def check(self, conn: AsyncConnection[Any], attachment: str) -> Any:  # noqa: ANN401 - its own
        """Check that the principal may try an attachment; return what the others need."""
        ...

    async def rows(self, may: Any) -> dict[str, Json]:  # noqa: ANN401
        """Return rows to try it on."""
        ...

    async def run(
        self,
        may: Any,  # noqa: ANN401
        at: Mapping[str, str],
        draft: Mapping[str, Json],
        *,
        approved: bool,
    ) -> dict[str, Json]:
        """Try one row."""
        ...


class Reasons(Protocol):
    """Explains to principals why a row has a run, or none."""

    async def check(self, conn: AsyncConnection[Any], relation: str) -> str:
        """Check that the principal may know; return the quoted name of the table."""
        ...

    async def explain(
        self, name: str, key: str, identity: Identity, role: str | None
    ) -> dict[str, Json]:
        """Explain the runs of a row."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """What is served.

    Args:
        hosts: names of this server.
        prompt: returns the first request of a run, as the caller can see it.
        secure: whether browsers reach it by https.
        replies: what models write now.
        own: what the file adds; None: nothing.
        questions: answers questions; None: nobody can ask here.
        trials: tries agents; None: nobody can try them here.
        reasons: explains runs of a row; None: nobody can ask for them here.
    """

    queries: Mapping[str, Declared]
    mutations: Mapping[str, Declared]
    hosts: frozenset[str]
    version: str
    prompt: Callable[[AsyncConnection[Any], int], Awaitable[dict[str, Json] | None]] = _no_prompt
    secure: bool = False
    replies: ReplyStreams = field(default_factory=lambda: ReplyStreams(LiveReplies()))
    own: Own | None = None
    questions: Questions | None = None
    trials: Trials | None = None
    reasons: Reasons | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    headers: Mapping[bytes, bytes]
    query: Mapping[str, str]
    receive: Receive
    send: Send
    token: str
    root: str
    cookie: str  # its name
    scheme: str


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
        self._engine = engine
        self._find = find
        self._shapes = shapes
        self._offer = offer
        self._free = asyncio.Semaphore(_CONCURRENT)
        self._role: list[str | None] = []  # once it is known
        self._role_lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await self._multiplex(scope, receive, send)
            return
        path: str = scope["path"]
        headers = dict[bytes, bytes](scope["headers"])
        at = path.rfind("/v1/")
        route = path[at + 4 :]
        cookie = cookie_of(scope)
        is_ours = route in _ROUTES or route.startswith(("queries/", "mutations/"))
        has_bearer = b"authorization" in headers
        try:
            by_cookie = bool(cookie) and not has_bearer and route.startswith("shapes/")
            if is_ours or by_cookie:
                check(scope["method"], headers, self._offer.hosts)
            if not is_ours:
                shown = _with_token(scope, cookie) if by_cookie else scope
                await self._shapes(shown, receive, send if shown is scope else _same_origin(send))
                return
            token = _bearer(headers) or cookie
            values = dict(
                parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            )
            asked = _Request(
                scope["method"],
                route,
                headers,
                values,
                receive,
                send,
                token,
                prefix_of(scope),
                cookie_name(scope),
                scope.get("scheme", "http"),
            )
            await self._route(asked)
        except RefusedError as error:
            body: dict[str, Json] = {"message": str(error), "code": error.code, "hint": error.hint}
            is_out = error.status == _SIGNED_OUT and cookie
            gone = [_expired(cookie_name(scope), prefix_of(scope))] if is_out else []
            await _answer(send, error.status, body, gone)
        except WalagentError as error:
            await _answer(send, *_refusal(error))

    async def _multiplex(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a socket; a socket with a cookie is guarded as requests with it are."""
        headers = dict[bytes, bytes](scope["headers"])
        bearer, cookie = _bearer(headers), cookie_of(scope)
        if not scope["path"].endswith("/v1/multiplex"):
            return
        if cookie and not bearer:
            try:
                check_place(headers, self._offer.hosts)
            except RefusedError:
                return
        await Socket(self._shapes, scope, receive, send, bearer or cookie).serve()

    async def _route(self, asked: _Request) -> None:
        match asked.method, asked.path.split("/", 1):
            case "GET", ["session"]:
                await self._who(asked)
            case "POST", ["session"]:
                await self._sign_in(asked)
            case "DELETE", ["session"]:
                await self._sign_out(asked)
            case "GET", ["replies"]:
                await self._replies(asked)
            case (("GET" | "POST"), ["try"]):
                await self._try(asked)
            case (("GET" | "POST"), ["ask"]):
                await self._ask(asked)
            case "GET", ["why"]:
                await self._why(asked)
            case "GET", ["queries", name]:
                await self._query(asked, name)
            case "POST", ["mutations", name]:
                await self._mutate(asked, name)
            case _:
                raise RefusedError(405, "method not allowed")

    async def _who(self, asked: _Request) -> None:
        async with self._acting(asked, writes=False) as conn:
            session = await read_session(conn, self._offer.version)
        await _answer(asked.send, 200, asdict(session))

    async def _sign_in(self, asked: _Request) -> None:
        given = await _read(asked.receive)
        code, token = given.get("code"), given.get("token")
        check_texts({"code": text_of(code)})
        async with self._free, self._engine.connection() as conn, conn.transaction():
            if isinstance(code, str):
                session = await exchange(conn, code)
            elif isinstance(token, str):
                session = await enter(conn, token, self._find)
            else:
                raise RefusedError(400, 'expected "code" or "token"')
        log.info("console.signed_in", by="code" if isinstance(code, str) else "token")
        is_secure = (
            self._offer.secure
            or asked.scheme == "https"
            or asked.headers.get(b"x-forwarded-proto") == b"https"
        )
        cookie = (
            f"{asked.cookie}={session}; Max-Age={HOURS * 3600}; HttpOnly; SameSite=Strict;"
            f" Path={asked.root or '/'}{'; Secure' if is_secure else ''}"
        )
        await _answer(asked.send, 200, {}, [(b"set-cookie", cookie.encode())])

    async def _sign_out(self, asked: _Request) -> None:
        async with self._free, self._engine.connection() as conn, conn.transaction():
            await leave(conn, asked.token)
        await _answer(asked.send, 200, {}, [_expired(asked.cookie, asked.root)])

    async def _query(self, asked: _Request, name: str) -> None:
        if name == _PROMPT:
            await self._prompt(asked)
            return
        own = self._offer.own
        if own is not None and name in own.queries:
            caller, now = await self._caller(asked, "read")
            rows = await own.read(name, asked.query, caller)
            await _answer(asked.send, 200, {"rows": rows, "now": now})
            return
        declared = self._offer.queries.get(name)
        if declared is None:
            raise RefusedError(404, f'there is no query "{name}"')
        values = {each: asked.query.get(each, "") for each in declared.parameters}
        async with self._acting(asked, writes=False) as conn:
            rows = await _rows(conn, declared.text, values)
            now = await _rows(conn, "select now() as now", {})
        await _answer(asked.send, 200, {"rows": rows, "now": now[0]["now"]})

    async def _prompt(self, asked: _Request) -> None:
        """Answer with what the model got: no statement knows it."""
        run = asked.query.get("run", "")
        if not (run.isascii() and run.isdigit() and len(run) < _DIGITS):
            raise RefusedError(400, 'expected the number of a run in "run"')
        async with self._acting(asked, writes=False) as conn:
            found = await self._offer.prompt(conn, int(run))
        await _answer(asked.send, 200, {"rows": [] if found is None else [found]})

    async def _replies(self, asked: _Request) -> None:
        reader = reader_of(asked.query)

        async def check() -> None:
            async with self._acting(asked, writes=False) as conn:
                await check_reader(conn, reader)

        await self._offer.replies.send(reader, check, asked.receive, asked.send)

    async def _ask(self, asked: _Request) -> None:
        questions = self._offer.questions
        if questions is None:
            raise RefusedError(404, "questions are not answered here")
        given: Mapping[str, Json] = {}
        if asked.method == "POST":
            given = await _read(asked.receive)
        async with self._acting(asked, writes=False) as conn:
            is_own = await questions.check(conn)
        if asked.method == "GET":
            await _answer(asked.send, 200, {})
            return
        question, session = given.get("question"), given.get("session")
        if not (isinstance(question, str) and isinstance(session, str)):
            raise RefusedError(400, 'expected "question" and "session"')
        found = await questions.answer(question, session, None if is_own else asked.token)
        await _answer(asked.send, 200, found)

    async def _try(self, asked: _Request) -> None:
        trials = self._offer.trials
        if trials is None:
            raise RefusedError(404, "agents are not tried here")
        given: Mapping[str, Json] = asked.query
        if asked.method == "POST":
            given = await _read(asked.receive)
        attachment, at, draft = given.get("attachment"), given.get("at"), given.get("draft")
        if not isinstance(attachment, str):
            raise RefusedError(400, 'expected "attachment"')
        check_texts({"attachment": attachment})
        async with self._acting(asked, writes=False) as conn:
            may = await trials.check(conn, attachment)
        if asked.method == "GET":
            await _answer(asked.send, 200, await trials.rows(may))
            return
        if not isinstance(at, dict) or not isinstance(draft, dict | None):
            raise RefusedError(400, 'expected objects in "at" and "draft"')
        cells = cast("dict[str, Json]", at)
        key = {name: text_of(value) or "" for name, value in cells.items()}
        check_texts(key)
        changes = cast("dict[str, Json]", draft or {})
        approved = given.get("assume_approved") is True

        async def answer() -> None:
            await _answer(asked.send, 200, await trials.run(may, key, changes, approved=approved))

        # Who goes away pays for no further call of the model.
        await first_of(tried=answer(), gone=disconnected(asked.receive))

    async def _why(self, asked: _Request) -> None:
        reasons = self._offer.reasons
        if reasons is None:
            raise RefusedError(404, "rows are not explained here")
        relation, key = (asked.query.get(name, "") for name in ("relation", "key"))
        if not (relation and key):
            raise RefusedError(400, 'expected "relation" and "key"')
        check_texts({"relation": relation, "key": key})
        async with self._acting(asked, writes=False) as conn:
            name = await reasons.check(conn, relation)
            role = await self._role_of(conn)
        found = await reasons.explain(name, key, self._find(asked.token), role)
        await _answer(asked.send, 200, found)

    async def _mutate(self, asked: _Request, name: str) -> None:
        try:
            await self._execute(asked, name)
        except (RefusedError, WalagentError) as error:
            await self._audit_refusal(asked, name, error)
            raise

    async def _execute(self, asked: _Request, name: str) -> None:
        declared = self._offer.mutations.get(name)
        if declared is None:
            raise RefusedError(404, f'there is no mutation "{name}"')
        given = await _read(asked.receive)
        _check_given(declared, name, given)
        if declared.run_as is not None and self._offer.own is not None:
            caller, _ = await self._caller(asked, "post")
            txid, written = await self._offer.own.write(declared, given, caller)
            await _answer(asked.send, 200, {"txid": txid, "result": written})
            return
        text, values = _statement(declared, given)
        login: str | None = None
        txid, result = "", cast("Json", None)
        async with self._acting(asked, writes=True) as conn:
            if declared.role is not None:
                await _check_role(conn, declared.role)
            if declared.as_login:
                login = await other_login(conn)
            if declared.function is not None:
                await _check_arguments(conn, declared.function, name, given)
            if login is None:
                rows = await _rows(conn, text, values)
                if not rows:
                    raise RefusedError(404, "it does not exist, or you may not see it")
                txid = str((await _rows(conn, _TXID, {}))[0]["txid"])
                result = next(iter(rows[0].values()), None)
        if login is not None:
            txid, result = await self._write_as(asked, login, text, values)
        await _answer(asked.send, 200, {"txid": txid, "result": result})

    async def _audit_refusal(
        self, asked: _Request, name: str, error: RefusedError | WalagentError
    ) -> None:
        """Record that a principal may not do this: the transaction that was refused is gone."""
        state = error.code if isinstance(error, RefusedError) else error.sqlstate
        if state != _DENIED:
            return
        try:
            async with self._free, self._engine.connection() as conn, conn.transaction():
                await act_as(conn, asked.token, find=self._find)
                statement = "select agent_internal.audit_refused_request(%s, %s)"
                await conn.execute(statement, (f"mutation {name}", state))
        except (RefusedError, WalagentError) as lost:
            log.warning("console.refusal_not_audited", mutation=name, error=lost)

    async def _write_as(
        self, asked: _Request, login: str, text: str, values: Mapping[str, str | None]
    ) -> tuple[str, Json]:
        """Execute a statement as the login of the principal; return as `Own.write`."""
        own = self._offer.own
        if own is None:
            raise RefusedError(404, "this process executes nothing as other logins")
        caller, _ = await self._caller(asked, "read")
        try:
            txid, row = await own.write_as(login, text, values, caller)
        except RoleUnusableError as error:
            raise RefusedError(
                403,
                f"walagent run cannot act as your login: {error}",
                "42501",
                error.hint or f"grant {login} to the login of walagent run, or use psql.",
            ) from error
        values_of = cast("dict[str, Json]", row or {}).values()
        return txid, next(iter(values_of), None)

    async def _caller(self, asked: _Request, scope: str) -> tuple[Caller, Json]:
        """Return who asks, and the time.

        Raises:
            RefusedError: the token lacks the scope.
        """
        async with self._acting(asked, writes=False) as conn:
            found = await _rows(
                conn,
                "select i.tenant, i.principal::text, to_jsonb(i.scopes) as scopes, now() as now,"
                " agent.has_scope(%(scope)s) as has from agent_internal.identity() as i",
                {"scope": scope},
            )
        row = found[0]
        if row["tenant"] is None or row["principal"] is None:
            raise RefusedError(401, "nobody is signed in")
        if not row["has"]:
            raise RefusedError(403, f"the token lacks the scope {scope}", "42501")
        scopes = cast("list[str]", row["scopes"])
        actor = Actor(str(row["tenant"]), str(row["principal"]))
        return Caller(actor, tuple(scopes)), row["now"]

    @asynccontextmanager
    async def _acting(
        self, asked: _Request, *, writes: bool
    ) -> AsyncGenerator[AsyncConnection[Any]]:
        """Open a transaction of the principal who asks."""
        async with self._free, self._engine.connection() as conn:
            role = await self._role_of(conn)
            async with conn.transaction():
                if not writes:
                    await conn.execute("set transaction isolation level repeatable read read only")
                await conn.execute(_LOCAL)
                await act_as(conn, asked.token, find=self._find)
                if role is not None:
                    await conn.execute(SQL("set local role {}").format(Identifier(role)))
                yield conn

    async def _role_of(self, conn: AsyncConnection[Any]) -> str | None:
        async with self._role_lock:
            if not self._role:
                self._role.append(await acting_role(conn))
        return self._role[0]


_ROUTES: Final = frozenset({"session", "replies", "ask", "try", "why"})
_SIGNED_OUT: Final = 401
_TXID: Final = "select pg_current_xact_id()::text as txid"
_PROMPT: Final = "console.run_prompt"
_DIGITS: Final = 19  # of an int8


def _expired(name: str, root: str) -> tuple[bytes, bytes]:
    return (
        b"set-cookie",
        f"{name}=; Max-Age=0; HttpOnly; SameSite=Strict; Path={root or '/'}".encode(),
    )


async def _check_role(conn: AsyncConnection[Any], role: str) -> None:
    found = await _rows(conn, "select agent.has_role(%(role)s) as has", {"role": role})
    if not found[0]["has"]:
        raise RefusedError(
            403,
            f"this needs the role {role}",
            "42501",
            f"An admin can grant it: select agent.grant_role(NAME, '{role}');",
        )


def _check_given(declared: Declared, name: str, given: Mapping[str, Json]) -> None:
    """Check the parameters of a mutation; those of a function may have defaults.

    Raises:
        RefusedError: it does not have one that is given, or one is missing.
    """
    if unknown := given.keys() - set(declared.parameters):
        raise RefusedError(400, f'mutation "{name}" has no parameter "{min(unknown)}"')
    if declared.function is None:
        check_complete(name, declared.parameters, given)


async def _check_arguments(
    conn: AsyncConnection[Any], function: str, name: str, given: Mapping[str, Json]
) -> None:
    """Check that a function gets the arguments that have no default.

    Raises:
        RefusedError: one is missing.
    """
    found = await _rows(
        conn,
        "select to_jsonb(p.proargnames[1:p.pronargs - p.pronargdefaults]) as needed"
        " from pg_catalog.pg_proc p"
        " where p.pronamespace = 'agent'::regnamespace and p.proname = %(function)s",
        {"function": function},
    )
    if len(found) == 1:  # of one that does not exist, or has several forms, PostgreSQL says it
        check_complete(name, cast("list[str]", found[0]["needed"] or []), given)


def _statement(
    declared: Declared, given: Mapping[str, Json]
) -> tuple[str, Mapping[str, str | None]]:
    """Return what a mutation executes, with its values.

    A function of walagent is called by its name.  A statement of the file could reach code of
    others, such as triggers, which could take on the rights of the daemon's login.
    """
    if declared.function is None:
        return declared.text, {each: _text(given.get(each)) for each in declared.parameters}
    arguments = ", ".join(f'"{name}" => %({name})s' for name in given)
    values = {name: None if value is None else _text(value) for name, value in given.items()}
    call = f'agent."{declared.function}"({arguments})'
    return f"select to_jsonb(f) as result from {call} as f", values  # noqa: S608 - names of the file


async def _rows(
    conn: AsyncConnection[Any], text: str, values: Mapping[str, str | None]
) -> list[dict[str, Json]]:
    cursor = AsyncCursor(conn)
    for name in AS_TEXT:
        cursor.adapters.register_loader(name, TextLoader)
    # Literals, so that the planner knows them: it can use partial indexes then.
    literal = _mogrify(conn, text, values)
    await cursor.execute(literal)
    names = [each.name for each in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]


def _mogrify(conn: AsyncConnection[Any], text: str, values: Mapping[str, str | None]) -> bytes:
    check_texts(values)
    return AsyncClientCursor(conn).mogrify(text.encode(), values).encode()


def _text(value: Json) -> str:
    """Return a value as the text of a parameter."""
    return text_of(value) or ""


def _bearer(headers: Mapping[bytes, bytes]) -> str:
    kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


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


async def _read(receive: Receive) -> Mapping[str, Json]:
    """Read the body, a JSON object.

    Raises:
        RefusedError: it is something else, or too large.
    """
    body = bytearray()
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
    try:
        orjson.dumps(given)  # it writes less deep values than it reads
    except TypeError as error:
        raise RefusedError(400, "the body is nested too deep") from error
    if not isinstance(given, dict):
        raise RefusedError(400, "expected a JSON object")
    return cast("dict[str, Json]", given)


def _refusal(error: WalagentError) -> tuple[int, dict[str, Json]]:
    """Return status and body for an error of the database."""
    state = error.sqlstate or ""
    status = _STATUS.get(state)
    if status is None:
        lost = isinstance(error, DatabaseLostError | LoginRefusedError | RoleUnusableError)
        status = _UNAVAILABLE if lost or state[:2] in {"08", "53", "57"} else 400
    if status == _UNAVAILABLE:
        log.warning("console.request_failed", error=error)
        return status, {"message": "the database is not available", "code": state, "hint": ""}
    text = str(error).removesuffix(f" (SQLSTATE {state})")
    return status, {"message": text, "code": state, "hint": error.hint}


async def _answer(
    send: Send, status: int, body: Mapping[str, Json], more: list[tuple[bytes, bytes]] | None = None
) -> None:
    content = orjson.dumps(body, default=_plain)
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"content-length", str(len(content)).encode()),
        *(more or ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
