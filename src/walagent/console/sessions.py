"""Sessions of the console: a session is a token that expires, kept in a cookie.

A link has a code, which is a token for five minutes that can only read.  It is exchanged once: for
a session of its principal.  So `walagent tenants tokens` lists and ends sessions, and there is no
second store of them.
"""

from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection, Error
from psycopg.sql import SQL, Identifier, Literal

from walagent.http.exchange import RefusedError
from walagent.http.signed_tokens import FindIdentity, SignedTokenError
from walagent.store.install.removal import CREATED
from walagent.store.sessions.acting import identity_of_token
from walagent.store.sessions.own_roles import check_own_role

HOURS: Final = 12
_MINUTES: Final = 5
UNKNOWN: Final = "WA018"
_ROLES: Final = ("admin", "developer", "approver", "auditor", "agent", "viewer")
ENDED: Final = "the session has ended"
UNKNOWN_CODE: Final = "the code is unknown, expired or was used"

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Session:
    """Who is signed in, and where."""

    principal: str
    tenant: str
    roles: tuple[str, ...]
    database: str
    version: str
    time_zone: str
    server_version: str
    host: str
    can_post: bool  # its token has a scope for writing in threads


@dataclass(frozen=True, slots=True)
class Code:
    """What a link has: the code, and what had to be changed for it.

    Args:
        granted: the principal that is an admin from now on; None: nothing was changed.
    """

    text: str
    granted: str | None


async def make_code(conn: Connection) -> Code:
    """Create a code for the principal of this login; call within a transaction.

    An operator's login without a principal, such as that of the embedded server, may do everything:
    it gets a principal of its name that is an admin.
    """
    made = "select code, granted from agent_internal.make_link(make_interval(mins => %s))"
    return Code(*await _one(conn, made, _MINUTES))


async def exchange(conn: Connection, code: str) -> str:
    """Exchange a code for the token of a session; call within a transaction.

    Raises:
        RefusedError: the code is unknown, expired or was used.
    """
    if "\0" in code:
        raise RefusedError(401, UNKNOWN_CODE)
    try:
        (token,) = await _one(conn, "select agent_internal.exchange_code(%s)", code)
    except Error as error:
        if error.sqlstate != UNKNOWN:
            raise
        raise RefusedError(401, UNKNOWN_CODE, UNKNOWN) from error
    return str(token)


async def enter(conn: Connection, token: str, find: FindIdentity = identity_of_token) -> str:
    """Exchange a token for that of a session with the same scopes; call within a transaction.

    The session ends with the token, if that is earlier.

    Args:
        find: finds the identity of a token.

    Raises:
        RefusedError: the token is unknown, expired or revoked.
    """
    await act_as(conn, token, find=find)
    try:
        (session,) = await _one(conn, "select agent_internal.open_session(%s)", token)
    except Error as error:
        if error.sqlstate != UNKNOWN:
            raise
        text = error.diag.message_primary or "the token cannot be used"
        raise RefusedError(401, text, UNKNOWN) from error
    return str(session)


async def leave(conn: Connection, token: str) -> None:
    """Revoke the token of a session; call within a transaction."""
    await act_as(conn, token)
    await conn.execute(
        "select agent.revoke_token(id) from agent.token"
        " where digest = sha256(convert_to(%s, 'utf8')) and purpose = 'session'",
        (token,),
    )


async def leave_all(conn: Connection) -> int:
    """Revoke all sessions and codes that this login may revoke; call within a transaction."""
    found = await conn.execute(
        "select agent.revoke_token(id) from agent.token"
        " where purpose in ('link', 'session') and revoked_at is null"
        " and (expires_at is null or expires_at > now())",
    )
    return found.rowcount


async def act_as(
    conn: Connection, token: str, message: str = "", find: FindIdentity = identity_of_token
) -> None:
    """Act as the principal of a token for the rest of the transaction.

    Args:
        find: finds the identity of a token.

    Raises:
        RefusedError: it is unknown, expired or revoked.
    """
    if not token or "\0" in token:
        raise RefusedError(401, message or "nobody is signed in")
    try:
        identity = find(token)
        await conn.execute(identity.statement, identity.parameters)
    except SignedTokenError as error:
        raise RefusedError(401, message or str(error), UNKNOWN) from error
    except Error as error:
        if error.sqlstate != UNKNOWN:
            raise
        raise RefusedError(401, message or ENDED, UNKNOWN) from error


async def read_session(conn: Connection, version: str) -> Session:
    """Describe the session of the principal that this transaction acts as."""
    row = await _one(
        conn,
        """
        select agent.current_principal()::text, agent.current_tenant(),
               array(select r from unnest(%s::text[]) r where agent.has_role(r)),
               current_database()::text, current_setting('TimeZone'),
               split_part(current_setting('server_version'), ' ', 1),
               coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'local'),
               agent.has_scope('post') or agent.has_scope('approve')
        """,
        list(_ROLES),
    )
    principal, tenant, roles, database, zone, server, host, can_post = row
    return Session(principal, tenant, tuple(roles), database, version, zone, server, host, can_post)


_LOGIN: Final = """
select r.rolsuper or r.rolbypassrls, 'walagent_console_' || d.oid,
       exists (select from pg_catalog.pg_roles o where o.rolname = 'walagent_console_' || d.oid)
  from pg_catalog.pg_roles r, pg_catalog.pg_database d
 where r.rolname = session_user and d.datname = current_database()
"""
_RACES: Final = frozenset({"42710", "23505"})  # another process has created it


async def acting_role(conn: Connection) -> str | None:
    """Return the role that reads and writes for principals; None: the login itself.

    A superuser is subject to no row-level security, so it acts as a role without attributes, which
    is created if it is missing; the principal's own roles decide what it may do.

    Raises:
        PreconditionError: somebody else can act as that role.
    """
    bypasses, name, exists = await _one(conn, _LOGIN)
    if not bypasses:
        return None
    if not exists:
        try:
            await conn.execute(SQL("create role {} nologin").format(Identifier(name)))
            await conn.execute(
                SQL("comment on role {} is {}").format(Identifier(name), Literal(CREATED))
            )
        except Error as error:
            if error.sqlstate not in _RACES:
                raise
    await check_own_role(conn, name)
    for grant in ("approver", "developer", "member", "asker"):
        await conn.execute(f"select agent.grant_{grant}(%s)".encode(), (name,))
    return str(name)


def login_statement(tenant: object, principal: object) -> str:
    """Return what the operator runs so that a principal has a login."""
    statement = SQL("update agent.principal set login = 'LOGIN' where (tenant, name) = ({}, {});")
    text = statement.format(Literal(tenant), Literal(principal)).as_string()
    return f"As the operator, run: {text}"


async def other_login(conn: Connection) -> str | None:
    """Return the login of the principal; None: it is that of this session, which acts from now on.

    What a login may do in the database is not decided by the roles of a principal.

    Raises:
        RefusedError: the principal has no login.
    """
    row = await _one(
        conn,
        "select login::text, is_own, agent.current_tenant(), agent.current_principal()::text"
        " from agent_internal.asking('')",
    )
    login, is_own, tenant, principal = row
    if login is None:
        raise RefusedError(
            403,
            f'principal "{principal}" has no login, whose privileges bound what it can change',
            "42501",
            login_statement(tenant, principal),
        )
    if not is_own:
        return str(login)
    await conn.execute("set local role none")
    return None


async def _one(conn: Connection, text: str, *values: object) -> tuple[Any, ...]:
    cursor = await conn.execute(text.encode(), values)
    return await cursor.fetchone() or ()
