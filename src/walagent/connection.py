"""Opens connections to the server: their parameters, the settings of their sessions, their errors.

What the connection string says of timeouts and keepalives counts before what is said here.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from psycopg import AsyncConnection, OperationalError
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import ProgrammingError

from walagent.errors import ConfigError, DatabaseLostError, StreamLostError
from walagent.login import login_refused, said, sqlstate_of

C = TypeVar("C", bound=AsyncConnection[Any])

# What a value looks like must not depend on the server's configuration.
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
    "tcp_user_timeout": 30_000,  # milliseconds that sent bytes may wait for an answer
}
# Seconds of silence until the server looks for us, between two looks, and how often it does: 25 in
# all, less than a lease.  Its own default is two hours, for which an open transaction holds locks.
_SERVER_KEEPALIVES: Final = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


def parameters(
    dsn: str, application: str, settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Give libpq's parameters for a connection to *dsn*, beside those that it has itself.

    Args:
        settings: of the session; RESET returns to them, and they win over the options of *dsn*.

    Raises:
        ConfigError: *dsn* is not a connection string.
    """
    try:
        given = conninfo_to_dict(dsn)
    except ProgrammingError as error:
        raise ConfigError("the connection string cannot be read") from error
    asked = given.get("options") or os.environ.get("PGOPTIONS", "")
    words = [_options(_SERVER_KEEPALIVES), str(asked), _options(settings or {})]
    return {
        **{name: value for name, value in _DEFAULTS.items() if name not in given},
        "options": " ".join(filter(None, words)),
        "application_name": application,
        "client_encoding": "UTF8",  # also where the database has none (SQL_ASCII)
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
        lost: what to raise where the server cannot be reached.
        more: parameters of psycopg or libpq.

    Raises:
        LoginRefusedError: the server does not let us in.
        DatabaseLostError, StreamLostError: it cannot be reached, or has no room for us for now.
        ConfigError: *dsn* is not a connection string.
    """
    given = {**parameters(dsn, application, settings), **more}
    try:
        return await kind.connect(dsn, autocommit=True, **given)
    except OperationalError as error:
        if (refusal := login_refused(str(error))) is not None:
            raise refusal from error
        words, state = why_refused(error)
        raise lost(f"cannot connect: {words}", sqlstate=state) from error


def why_refused(error: OperationalError) -> tuple[str, str | None]:
    """Say in one line why no connection came about, and its SQLSTATE."""
    words = str(error)
    if (refusal := login_refused(words)) is not None:
        return str(refusal), refusal.sqlstate
    state = sqlstate_of(words)
    return (f"{said(words)} (SQLSTATE {state})" if state else said(words)), state


def _options(settings: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in settings.items())
