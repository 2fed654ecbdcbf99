"""Never be a synchronous standby: commits of the application would wait for this reader.

The server counts each walsender whose application_name synchronous_standby_names has, logical ones
too, and `*` has all.  A reader that is counted confirms a transaction after its own checkpoint
committed, and that commit waits for the reader: nothing would commit again.

Source: PostgreSQL docs, 20.6.2 synchronous_standby_names; src/backend/replication/syncrep.c.
"""

import re
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.errors import StreamLostError

HINT: Final = (
    "Name your standbys by their application_name: alter system set synchronous_standby_names ="
    " 'standby1'; select pg_reload_conf();"
)
_COUNTED: Final = re.compile(
    r"\s*(?:(?:first|any)\s+)?\d+\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL
)
_NAME: Final = re.compile(r'"((?:[^"]|"")*)"|([^\s,()"]+)')


def is_synchronous(standby_names: str, application: str) -> bool:
    """Return whether the server counts a walsender as a synchronous standby.

    Args:
        standby_names: the value of synchronous_standby_names.
        application: the application_name of the walsender.
    """
    counted = _COUNTED.fullmatch(standby_names)
    names = (
        match[1].replace('""', '"') if match[1] is not None else match[2]
        for match in _NAME.finditer(counted[1] if counted else standby_names)
    )
    return any(name == "*" or name.lower() == application.lower() for name in names)


async def counted_as_standby(
    conn: AsyncConnection[Any], application: str
) -> StreamLostError | None:
    """Return why a reader may not stream; None if commits do not wait for it.

    Works on each kind of connection.
    """
    cursor = await conn.execute("show synchronous_standby_names")
    row = await cursor.fetchone()
    names = row[0] if row else ""
    return why_counted(names, application)


def why_counted(standby_names: str | bytes, application: str) -> StreamLostError | None:
    """Return the error of a reader that the server counts; None if it does not.

    Args:
        standby_names: the value of synchronous_standby_names; bytes: of a SQL_ASCII database.
    """
    if isinstance(standby_names, bytes):
        standby_names = standby_names.decode("latin-1")
    if not is_synchronous(standby_names, application):
        return None
    return StreamLostError(
        f"synchronous_standby_names = '{standby_names}' makes this reader (application_name"
        f' "{application}") a synchronous standby: commits would wait for it, and it for them',
        hint=HINT,
    )


async def refuse_synchronous(conn: AsyncConnection[Any], application: str) -> None:
    """Refuse to read from a server that waits for this reader.

    Raises:
        StreamLostError: until the setting names others.
    """
    if error := await counted_as_standby(conn, application):
        raise error
