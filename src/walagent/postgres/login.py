"""Recognize a rejected login from libpq's message, and choose the error and hint."""

from typing import Final, NamedTuple

from walagent.errors import LoginRefusedError

_LOGIN: Final = "Check user, password, database and the server's pg_hba.conf."
_REPLICATE: Final = "Grant the right to replicate: ALTER ROLE <login> REPLICATION"
_POOLER: Final = (
    "Connect to PostgreSQL directly: poolers such as PgBouncer cannot replicate, and reject a"
    " session's settings."
)
_ALLOW: Final = "ALTER DATABASE <name> ALLOW_CONNECTIONS true"
_SENDERS: Final = (
    "Raise max_wal_senders and restart the server, or end an unused reader: SELECT "
    "application_name, state FROM pg_stat_replication"
)


class _LoginRefusal(NamedTuple):
    words: str  # in the message of the server or libpq
    sqlstate: str | None  # the server's code, which libpq does not pass on
    hint: str


# The first match counts.  Source: PostgreSQL, src/backend/libpq/auth.c, libpq/hba.c,
# utils/init/miscinit.c and postinit.c.
_DOORS: Final = (
    _LoginRefusal("replication role", "42501", _REPLICATE),  # up to 15
    _LoginRefusal("to start WAL sender", "42501", _REPLICATE),
    _LoginRefusal("startup parameter", "08P01", _POOLER),
    _LoginRefusal("password authentication failed", "28P01", _LOGIN),
    _LoginRefusal("authentication failed", "28000", _LOGIN),
    _LoginRefusal("no password supplied", None, _LOGIN),  # raised by libpq
    _LoginRefusal("pg_hba.conf", "28000", _LOGIN),
    _LoginRefusal("not permitted to log in", "28000", "Allow logins: ALTER ROLE <login> LOGIN"),
    _LoginRefusal(
        "permission denied for database", "42501", "GRANT CONNECT ON DATABASE <name> TO <login>"
    ),
    _LoginRefusal("is not currently accepting connections", "55000", _ALLOW),
    _LoginRefusal("max_wal_senders", "53300", _SENDERS),
)
_MISSING: Final = (("role ", "28000"), ("database ", "3D000"))


def login_refused(words: str) -> LoginRefusedError | None:
    """Return an error if the server rejects the login; None if it cannot be reached.

    libpq returns no SQLSTATE for a failed connection, only its message, so a server with
    messages in another language counts as unreachable.

    Args:
        words: libpq's whole message; the last line is the server's, if it replied.
    """
    for door in _DOORS:
        if door.words in words:
            return _refused(words, door.sqlstate, door.hint)
    if "does not exist" in words:
        for kind, sqlstate in _MISSING:
            if f'FATAL:  {kind}"' in words:
                return _refused(words, sqlstate, _LOGIN)
    return None


def _refused(words: str, sqlstate: str | None, hint: str) -> LoginRefusedError:
    state = f" (SQLSTATE {sqlstate})" if sqlstate else ""
    return LoginRefusedError(f"{said(words)}{state}", hint=hint, sqlstate=sqlstate)


# Transient refusals, by message; the server's translations are not recognized.
_FULL: Final = (
    "too many clients already",
    "too many connections for",
    "connection slots are reserved",
)


def sqlstate_of(words: str) -> str | None:
    """Return the SQLSTATE of a transient refusal, if the message shows it."""
    if any(part in words for part in _FULL):
        return "53300"
    if "the database system is" in words:  # starting up, shutting down, in recovery mode
        return "57P03"
    return None


def said(words: str) -> str:
    """Return the first line of libpq's message that has a reason."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return next((line for line in lines if "FATAL:" in line), lines[0] if lines else "")
