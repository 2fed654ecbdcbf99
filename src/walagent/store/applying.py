"""Write models, agents, workflows, attachments and so on of a file; `apply.apply` decides which.

`fields` of a row are plain values by column: times in seconds, a relation as its OID.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.message import Json
from walagent.store.queries import query

Connection = AsyncConnection[Any]
Kind = Literal["model", "persona", "agent", "workflow", "attachment", "budget", "tool"]
Fields = Mapping[str, Json]

_SECONDS = ("debounce", "approval_ttl")
_WRITES = {"model": ("insert_model", "update_model"), "workflow": ("write_workflow",)}


async def lock_out_appliers(conn: Connection) -> None:
    """Lock out other appliers until the transaction ends.

    Raises (as a PostgreSQL error):
        ConflictError: another one has been at work for 10 s.
    """
    await conn.execute("select agent_internal.lock_apply()")


async def begin_applying(conn: Connection) -> None:
    """Create versions once, at the end of the transaction."""
    await conn.execute("select set_config('walagent.applying', 'on', true)")


async def current(conn: Connection, kind: Kind) -> dict[str, Fields]:
    """Load the existing rows, by name."""
    cursor = await conn.execute(query(f"applied_{kind}s"))
    return dict(await cursor.fetchall())


async def find_table(conn: Connection, name: str) -> int:
    """Return the OID of a table.

    Raises (as a PostgreSQL error):
        ConfigError: it does not exist.
    """
    cursor = await conn.execute(
        "select agent_internal.table_named(%s, agent_internal.schemas_of_caller())::oid::bigint",
        [name],
    )
    (oid,) = await cursor.fetchone() or (0,)
    return oid


async def write(conn: Connection, kind: Kind, name: str, fields: Fields) -> None:
    """Insert a row, or update its columns in *fields*; of a workflow, create a version."""
    given = {"of": kind, "name": name, "fields": _json(fields)}
    for statement in _WRITES.get(kind, ("write_row",)):
        await conn.execute(query(statement), given)


async def detach(conn: Connection, name: str) -> None:
    """Remove an attachment."""
    await conn.execute(
        "delete from agent.attachment where tenant = agent.current_tenant() and name = %(name)s",
        {"name": name},
    )


async def remove_budget(conn: Connection, name: str) -> None:
    """Remove a budget."""
    await conn.execute(
        "delete from agent.budget where tenant = agent.current_tenant() and name = %(name)s",
        {"name": name},
    )


async def agents_of_personas(conn: Connection, personas: Iterable[str]) -> list[str]:
    """Return the agents that use the latest version of one of *personas*."""
    cursor = await conn.execute(query("agents_of_personas"), {"personas": list(personas)})
    return [name for (name,) in await cursor.fetchall()]


async def touch_attachments(conn: Connection, agents: Iterable[str], but: Iterable[str]) -> None:
    """Create a new version of the attachments of changed *agents*, except those named in *but*."""
    await conn.execute(query("touch_attachments"), {"agents": list(agents), "but": list(but)})


def _json(fields: Fields) -> Jsonb:
    """Encode fields for jsonb_populate_record, which parses an interval or regclass from text."""
    row = dict(fields)
    for name in _SECONDS:
        if row.get(name) is not None:
            row[name] = f"{row[name]} seconds"
    return Jsonb(row)
