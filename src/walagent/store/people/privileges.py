"""What a login was denied, and what would give it the right."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege

_DENIED: Final = re.compile(r"permission denied for (table|view|sequence|function) (\S+)")


@dataclass(frozen=True, slots=True)
class DeniedRight:
    """An object that a login may not use.

    Args:
        owner: of walagent's schema; None: the object is not walagent's.
        capabilities: with a right on it that the login lacks, such as `viewer`.
    """

    name: str
    owner: str | None
    capabilities: Sequence[str]


async def denied_right(conn: AsyncConnection[Any], login: str, message: str) -> DeniedRight | None:
    """Look up what PostgreSQL's message says was denied; None: it names no object."""
    if (found := _DENIED.search(message)) is None:
        return None
    kind, name = found.groups()
    cursor = await conn.execute(
        "select owner, capabilities from agent_internal.denied_right(%s, %s, %s)",
        ("table" if kind == "view" else kind, name, login),
    )
    row = await cursor.fetchone()
    return DeniedRight(name, *row) if row else None


async def capabilities_of(conn: AsyncConnection[Any]) -> list[str]:
    """Return the capabilities of the login; none if it may not even ask."""
    try:
        cursor = await conn.execute("select agent_internal.own_capabilities()")
    except InsufficientPrivilege:
        return []
    row = await cursor.fetchone()
    return row[0] if row else []
