"""Why a server lets nobody in: libpq's words in, the error that says who acts next out."""

from typing import Final, NamedTuple

from walagent.errors import LoginRefusedError

_LOGIN: Final = "check user, password, database and the server's pg_hba.conf"
_REPLICATE: Final = "give the login the right to replicate: ALTER ROLE <login> REPLICATION"
_POOLER: Final = "connect to PostgreSQL itself: a pooler such as PgBouncer cannot replicate"
_ALLOW: Final = "ALTER DATABASE <name> ALLOW_CONNECTIONS true"
_SENDERS: Final = (
    "raise max_wal_senders and restart the server, or end a reader that nobody needs: SELECT "
    "application_name, state FROM pg_stat_replication"
)


class _Door(NamedTuple):
    words: str  # of the server's or libpq's message
    sqlstate: str | None  # that the server sends with them, which libpq keeps to itself
    hint: str


# The first that is found counts.  Source: PostgreSQL, src/backend/libpq/auth.c, libpq/hba.c,
# utils/init/miscinit.c and postinit.c.
_DOORS: Final = (
    _Door("replication role", "42501", _REPLICATE),  # up to 15
    _Door("to start WAL sender", "42501", _REPLICATE),
    _Door("startup parameter", "08P01", _POOLER),
    _Door("password authentication failed", "28P01", _LOGIN),
    _Door("authentication failed", "28000", _LOGIN),
    _Door("no password supplied", None, _LOGIN),  # libpq gave up before the server could answer
    _Door("pg_hba.conf", "28000", _LOGIN),
    _Door("not permitted to log in", "28000", "let it log in again: ALTER ROLE <login> LOGIN"),
    _Door("permission denied for database", "42501", "GRANT CONNECT ON DATABASE <name> TO <login>"),
    _Door("is not currently accepting connections", "55000", _ALLOW),
    _Door("max_wal_senders", "53300", _SENDERS),
)
_MISSING: Final = (("role ", "28000"), ("database ", "3D000"))


def login_refused(words: str) -> LoginRefusedError | None:
    """Tell a login that the server refuses from a server that cannot be reached now.

    libpq gives no SQLSTATE when no connection comes about, only words, so a server that speaks
    another language is taken for one that cannot be reached.

    Args:
        words: all that libpq says; the last line is the server's where it spoke at all.
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


# What passes, and what it is called; the server has more of these than slots for everybody.
_FULL: Final = (
    "too many clients already",
    "too many connections for",
    "connection slots are reserved",
)


def sqlstate_of(words: str) -> str | None:
    """Name the SQLSTATE of a refusal that passes by itself, where the words tell it."""
    if any(part in words for part in _FULL):
        return "53300"
    if "the database system is" in words:  # starting up, shutting down, in recovery mode
        return "57P03"
    return None


def said(words: str) -> str:
    """Say in one line what libpq says in several: the first that says why."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return next((line for line in lines if "FATAL:" in line), lines[0] if lines else "")
