"""Say which tables agents can write without being seen: what they change there is not recorded."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.doctor.finding import Finding, ok
from walagent.store.install.server_facts import AttachedTable
from walagent.store.relations.tables import unpublished_tables

Connection = AsyncConnection[Any]
_NAMED: Final = 3  # tables in one line


async def check_changes(conn: Connection, tables: Iterable[AttachedTable]) -> Sequence[Finding]:
    """Check what the roles of attachments can write, except for superusers, who can write all."""
    roles = {t.run_as for t in tables if t.role_exists and not t.role_is_superuser}
    return [recorded(await unpublished_tables(conn, sorted(roles)))]


def recorded(unpublished: Mapping[str, Sequence[str]]) -> Finding:
    """Name the tables of each role; nothing is wrong with them.

    Args:
        unpublished: tables by role.
    """
    found = [
        f'role "{role}" can write {", ".join(tables[:_NAMED])}'
        + (f" and {len(tables) - _NAMED} more" if len(tables) > _NAMED else "")
        for role, tables in unpublished.items()
    ]
    if not found:
        return ok("what agents can write is published, or they are superusers")
    return ok(
        f"{'; '.join(found)}, whose updates are not published: only what update_row does there"
        " is recorded"
    )
