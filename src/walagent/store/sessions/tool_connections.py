"""Connections on which code of others is executed: tools, and what their statements fire.

Their login has no privilege of its own and is a member of no role.  Every role can call the
functions of `agent_signed`; they carry out only what is signed with `agent_internal.secret`, which
this login cannot read.  What a call left in the session is discarded before the connection is used
again.
"""

import hashlib
import hmac
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from psycopg import AsyncConnection, Error, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from walagent.domain.tenant import Actor
from walagent.errors import LoginRefusedError, PreconditionError
from walagent.message import Json
from walagent.store.codecs.jsonb import to_json
from walagent.store.errors import translating
from walagent.store.sessions.connections import RENEW, Pool, connect, open_pool
from walagent.store.sessions.own_roles import check_own_role
from walagent.telemetry.mask import hide

Connection = AsyncConnection[Any]
SignedFunction = Literal[
    "admit_call",
    "call_tool",
    "check_result",
    "close_step",
    "check_egress",
    "decide_policy",
    "execute_as",
    "open_step",
    "read_as",
    "revert_run",
    "write_as",
]

# Of random(), which DISCARD ALL leaves as others have set it.
_SEED: Final = (
    "pg_catalog.setseed(pg_catalog.float8div(pg_catalog.float8(pg_catalog.hashtext("
    "pg_catalog.gen_random_uuid()::pg_catalog.text)), 2147483648::pg_catalog.float8))"
)
# DISCARD ALL without the plans, which code of others cannot change: settings first, for they can
# hide the functions that follow; last, those that each connection has.
DISCARD: Final = (
    "reset all; close all; deallocate all; unlisten *; discard temp; discard sequences;"
    f" select pg_catalog.pg_advisory_unlock_all(), {RENEW}, {_SEED}"
)
_LOGIN: Final = """
select agent_internal.tools_login(), key,
       (select oid::bigint from pg_catalog.pg_roles where rolname = current_user),
       exists (select from pg_catalog.pg_roles where rolname = agent_internal.tools_login())
  from agent_internal.secret
"""
# As agent_internal.transaction_name(), of names that code of others cannot replace.
_TRANSACTION: Final = (
    "select pg_catalog.concat(pg_catalog.pg_backend_pid(), ' ',"
    " pg_catalog.extract('epoch', pg_catalog.transaction_timestamp()))"
)
# Created or changed by another process at the same moment.
_RACES: Final = ("42710", "23505", "XX000")
_ITERATIONS: Final = 4096  # as libpq


@dataclass(frozen=True, slots=True)
class ToolsLogin:
    """The login of a database for code of others, and the key that signs its calls."""

    name: str
    key: bytes = field(repr=False)
    worker: int  # OID of the role that signs, which must be a member of the `run_as` role
    exists: bool = True
    use: str = "tools are executed"
    variable: str = "DATABASE_TOOLS_URL"  # how it is reached, if not as the worker is

    @property
    def password(self) -> str:
        """Derived, so that each worker knows it and none stores it."""
        return _signature(self.key, f"login {self.name}".encode()).hex()

    def user(self, tools_dsn: str) -> str:
        """Return the name of the role that logs in: *tools_dsn* can name another."""
        return str(conninfo_to_dict(tools_dsn).get("user") or self.name)

    def dsn(self, dsn: str, tools_dsn: str = "") -> str:
        """Return the connection string of this login.

        Args:
            dsn: of the worker, whose server and database it has.
            tools_dsn: replaces *dsn*; it can name another login.
        """
        user = self.user(tools_dsn)
        password = conninfo_to_dict(tools_dsn).get("password") or (
            self.password if user == self.name else None
        )
        if password:
            hide(str(password))
        return make_conninfo(tools_dsn or dsn, user=user, password=password)

    def signature(self, request: bytes) -> bytes:
        """Return the signature of a request, which is JSON."""
        return _signature(self.key, b"call " + request)


def _signature(key: bytes, text: bytes) -> bytes:
    """Compute a signature as agent_internal.signed() does."""
    return hashlib.sha256(key + hashlib.sha256(key + text).digest()).digest()


@dataclass(frozen=True, slots=True)
class ToolTransaction:
    """A transaction on a connection of the tools' login, and its name.

    What is signed for it can be used in no other.
    """

    conn: Connection
    login: ToolsLogin
    name: str
    actor: Actor | None = None  # as whom its code acts; None: nobody

    def sign(self, request: Mapping[str, Json]) -> dict[str, Json]:
        """Return a request and its signature, the parameters of the functions in agent_signed."""
        who = {"worker": self.login.worker, "transaction": self.name, **acting(self.actor)}
        text = to_json({**request, **who})
        return {"request": text.decode(), "signature": self.login.signature(text)}

    async def call(self, function: SignedFunction, request: Mapping[str, Json]) -> Any:  # noqa: ANN401 - SQL's
        """Call a function of agent_signed, and return its result."""
        statement = f"select agent_signed.{function}(%(request)s, %(signature)s)"
        cursor = await self.conn.execute(statement.encode(), self.sign(request))
        row = await cursor.fetchone()
        return row[0] if row else None


def acting(actor: Actor | None) -> dict[str, Json]:
    """Return what agent_internal.signed() reads of an actor."""
    if actor is None:
        return {}
    scopes = {"scopes": [*actor.scopes]} if actor.scopes else {}
    return {"tenant": actor.tenant, "agent": actor.principal, **scopes}


async def name_transaction(conn: Connection, begin: str = "") -> str:
    """Return the name of the present transaction, for which requests are signed.

    Args:
        begin: statements to execute before, in the same round trip.
    """
    cursor = await conn.execute(f"{begin}; {_TRANSACTION}".encode())
    while cursor.nextset():
        pass
    row = await cursor.fetchone()
    return row[0] if row else ""


@dataclass(frozen=True, slots=True)
class ToolConnection:
    """A connection of the tools' login.  Nothing is prepared on it by name."""

    conn: Connection
    login: ToolsLogin
    actor: Actor | None = None

    @asynccontextmanager
    async def transaction(self, *, force_rollback: bool = False) -> AsyncGenerator[ToolTransaction]:
        """Yield a transaction, in which signed functions can be called.

        It begins and gets its name in one round trip; in a transaction of the caller, it is a
        savepoint.
        """
        conn = self.conn
        if conn.info.transaction_status != TransactionStatus.IDLE:
            async with conn.transaction(force_rollback=force_rollback):
                name = await name_transaction(conn)
                yield ToolTransaction(conn, self.login, name, self.actor)
            return
        try:
            name = await name_transaction(conn, "begin")
            yield ToolTransaction(conn, self.login, name, self.actor)
        except BaseException:
            with suppress(Error):  # the session is lost, and its transaction with it
                await conn.rollback()
            raise
        await (conn.rollback() if force_rollback else conn.commit())


class ToolConnections:
    """A pool of connections of the tools' login, and that of the worker.

    Args:
        catalog: gives a connection on which statements are checked, of the worker's login; default
            one of the worker's.  It is given if all others are in one transaction, of a trial.
    """

    def __init__(
        self,
        worker: Pool,
        pool: Pool,
        login: ToolsLogin,
        catalog: Callable[[], AbstractAsyncContextManager[Connection]] | None = None,
    ) -> None:
        self.worker = worker
        self.catalog = catalog or worker.connection
        self.is_one_transaction = catalog is not None
        self._pool = pool
        self._login = login

    @asynccontextmanager
    async def connection(self, actor: Actor | None = None) -> AsyncGenerator[ToolConnection]:
        """Yield a connection whose code acts as *actor*; its session is then discarded."""
        async with self._pool.connection() as conn:
            yield ToolConnection(conn, self._login, actor)


async def read_login(conn: Connection) -> ToolsLogin:
    """Read the name of the login and the key, as the worker."""
    row = await (await conn.execute(_LOGIN)).fetchone()
    if row is None:
        raise PreconditionError("agent_internal.secret is empty", hint="Run walagent init.")
    name, key, worker, exists = row
    return ToolsLogin(name, bytes(key), worker, exists)


async def ensure_login(conn: Connection, login: ToolsLogin | None = None) -> str:
    """Create a login, or set its password; return what a superuser must run instead.

    Args:
        login: None: that of tools.

    Returns:
        "" if it was done; else the statement that this role lacks the privilege for.

    Raises:
        PreconditionError: somebody else can act as the login.
    """
    login = login or await read_login(conn)
    if login.exists:
        await check_own_role(conn, login.name, logs_in=True)
    salt = _signature(login.key, f"salt {login.name}".encode())[:16]
    verifier = verifier_of(login.password, salt)
    made = sql.SQL("{} role {} login password {}").format(
        sql.SQL("alter" if login.exists else "create"),
        sql.Identifier(login.name),
        sql.Literal(verifier),
    )
    try:
        await conn.execute(made)
    except Error as error:
        if error.sqlstate in _RACES:
            return ""
        if error.sqlstate != "42501":
            raise
        return made.as_string()
    return ""


def verifier_of(password: str, salt: bytes) -> str:
    """Return what PostgreSQL stores of a password in ASCII.

    libpq would choose another salt each time, and so print another statement.

    Source: RFC 5803; PostgreSQL docs, pg_authid.
    """
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    client, server = (
        hmac.digest(salted, text, "sha256") for text in (b"Client Key", b"Server Key")
    )
    stored = hashlib.sha256(client).digest()
    salt_, stored_, server_ = (b64encode(each).decode() for each in (salt, stored, server))
    return f"SCRAM-SHA-256${_ITERATIONS}:{salt_}${stored_}:{server_}"


@asynccontextmanager
async def open_tool_connections(
    pool: Pool,
    dsn: Callable[[], str],
    *,
    tools_dsn: Callable[[], str] = lambda: "",
    idle: float | None = None,
) -> AsyncGenerator[ToolConnections]:
    """Open connections of the tools' login, beside a worker's.

    The login is created if it is missing and the worker's role may create roles.

    Args:
        dsn: returns the worker's connection string.
        tools_dsn: returns that of the tools' login, if it is set.
        idle: as for `open_pool`.

    Raises:
        PreconditionError: there is no such login, the server rejects it, or somebody else can
            act as it.
    """
    with translating():
        async with pool.connection() as conn:
            login = await read_login(conn)

    def named() -> str:
        return login.dsn(dsn(), tools_dsn())

    await _check_login(pool, login, named)
    if not tools_dsn():
        async with pool.connection() as conn:
            await check_own_role(conn, login.name, logs_in=True)
    async with open_pool(
        named,
        size=pool.max_size,
        application="walagent tools",
        idle=idle,
        discard=DISCARD,
    ) as tools:
        yield ToolConnections(pool, tools, login)


async def try_login(dsn: str) -> None:
    """Log in, and see that a pooler does not log in as another role.

    Raises:
        PreconditionError: the server rejects the login, or a pooler replaces it.
    """
    async with await connect(dsn, application="walagent tools") as conn:
        cursor = await conn.execute("select session_user::text")
        (found,) = await cursor.fetchone() or ("",)
        if found != conn.info.user:
            raise PreconditionError(
                f'the connection of login "{conn.info.user}" is one of role "{found}":'
                " a pooler replaces the user",
                hint="Remove user= from the pooler's entry for this database, or set"
                " DATABASE_TOOLS_URL to reach PostgreSQL without it.",
            )


async def _check_login(pool: Pool, login: ToolsLogin, dsn: Callable[[], str]) -> None:
    try:
        await try_login(dsn())
    except LoginRefusedError as error:
        async with pool.connection() as conn:
            await log_in(conn, login, dsn, error)


async def log_in(
    worker: Connection, login: ToolsLogin, dsn: Callable[[], str], error: LoginRefusedError
) -> None:
    """Create the login that was refused, and log in as it.

    Raises:
        PreconditionError: the worker's role may not create it, or it is refused again.
    """
    with translating():
        missing = await ensure_login(worker, login)
    if missing:
        raise _refused(login, error, missing) from error
    try:
        await try_login(dsn())
    except LoginRefusedError as again:
        raise _refused(login, again, "") from again


def _refused(login: ToolsLogin, error: LoginRefusedError, missing: str) -> PreconditionError:
    run = f"As a superuser, run: {missing}; or set" if missing else "Set"
    return PreconditionError(
        f'cannot log in as "{login.name}", as which {login.use}: {error}',
        hint=f"{run} {login.variable} to how this login reaches the database.",
        sqlstate=error.sqlstate,
    )
