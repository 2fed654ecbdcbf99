"""Open connections to the server: parameters, session settings, errors.

Timeouts and keepalives in the connection string take precedence over the defaults here.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from psycopg import AsyncConnection, OperationalError
from psycopg.conninfo import conninfo_to_dict

from walagent.errors import DatabaseLostError, StreamLostError
from walagent.postgres.dsn import check_dsn
from walagent.postgres.login import login_refused, said, sqlstate_of

C = TypeVar("C", bound=AsyncConnection[Any])

# The format of values must not depend on the server's configuration.
TEXT_FORMS: Final = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
}
_DEFAULTS: Final[Mapping[str, int]] = {
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 10,  # seconds
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds that sent bytes can stay unacknowledged
}
# Whatever a database or role sets, our statements mean the same, and live as long as they need.
# What the connection string asks for comes between the two: it can set timeouts.
LIFETIMES: Final = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
MEANINGS: Final = {
    # Each statement must see what is committed, and one that waited for a lock must continue.
    "default_transaction_isolation": r"read\ committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "row_security": "on",
    "exit_on_error": "off",
    "quote_all_identifiers": "off",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "bytea_output": "hex",
    "xmlbinary": "base64",
    "xmloption": "content",
    "gin_fuzzy_search_limit": "0",
    "default_table_access_method": "heap",
    "check_function_bodies": "on",
    "client_min_messages": "notice",
    "plan_cache_mode": "auto",
    "jit": "off",  # to compile the policies and views that a statement reads takes seconds
}
# Of what others own, no name is found that is not written with its schema.
OWN_PATH: Final = {"search_path": "pg_catalog,pg_temp"}
# The server's keepalives: seconds of silence before the first, between two, and their number; 25 s
# in all, less than a lease.  Its default is two hours, for which an open transaction holds locks.
_SERVER_KEEPALIVES: Final = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


def parameters(
    dsn: str, application: str, settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return libpq's parameters for a connection to *dsn*, in addition to its own.

    Args:
        settings: of the session; RESET restores them, and they override the options of *dsn*.

    Raises:
        ConfigError: *dsn* is not a valid connection string.
    """
    check_dsn(dsn, "the DSN")
    given = conninfo_to_dict(dsn)
    asked = given.get("options") or os.environ.get("PGOPTIONS", "")
    words = [
        _options({**_SERVER_KEEPALIVES, **LIFETIMES}),
        str(asked),
        _options({**MEANINGS, **(settings or {})}),
    ]
    return {
        **{name: value for name, value in _DEFAULTS.items() if name not in given},
        "options": " ".join(filter(None, words)),
        "application_name": application,
        "client_encoding": "UTF8",  # even if the database has no encoding (SQL_ASCII)
    }


async def open_connection(
    kind: type[C],
    dsn: str,
    application: str,
    settings: Mapping[str, str] | None = None,
    *,
    lost: type[DatabaseLostError | StreamLostError] = DatabaseLostError,
    **more: Any,  # noqa: ANN401 - psycopg's
) -> C:
    """Open a connection in autocommit mode.

    Args:
        kind: the class of the connection.
        settings: as for `parameters`.
        lost: the class of the error if the server cannot be reached.
        more: parameters of psycopg or libpq.

    Raises:
        LoginRefusedError: the server rejects the login.
        DatabaseLostError, StreamLostError: it cannot be reached, or has no free connection.
        ConfigError: *dsn* is not a valid connection string.
    """
    given = {**parameters(dsn, application, settings), **more}
    try:
        return await kind.connect(dsn, autocommit=True, **given)
    except OperationalError as error:
        if (refusal := login_refused(str(error))) is not None:
            raise refusal from error
        words, state = why_refused(error)
        raise lost(f"cannot connect: {words}", sqlstate=state) from error


def hang_up(conn: AsyncConnection[Any]) -> None:
    """Shut a connection down below libpq, which then reports it as lost to its reader."""
    with (
        suppress(OSError, OperationalError),
        socket.socket(fileno=os.dup(conn.pgconn.socket)) as wire,
    ):
        wire.shutdown(socket.SHUT_RDWR)


def why_refused(error: OperationalError) -> tuple[str, str | None]:
    """Return the reason of a failed connection in one line, and its SQLSTATE."""
    words = str(error)
    if (refusal := login_refused(words)) is not None:
        return str(refusal), refusal.sqlstate
    state = sqlstate_of(words)
    return (f"{said(words)} (SQLSTATE {state})" if state else said(words)), state


def _options(settings: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in settings.items())
