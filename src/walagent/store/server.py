"""What `walagent doctor` looks at: the server, our role, the attached tables."""

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row

from walagent.store.queries import query

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server, the database, and the role that we came as."""

    version: int  # as server_version_num: 150020
    database: str
    role: str
    in_recovery: bool
    wal_level: str
    max_slots: int
    slots: int
    max_senders: int
    senders: int
    keep_megabytes: int  # max_slot_wal_keep_size; -1: no limit
    plugin_libraries: str  # "" where the server has no such setting, or does not show us
    idle_timeout: int | None  # idle_replication_slot_timeout; 0: off, None: unknown to the server
    max_connections: int
    clock: float  # Unix time
    superuser: bool
    migrated: bool
    standby_slots: str | None = None  # synchronized_standby_slots; None: unknown to the server


@dataclass(frozen=True, slots=True)
class AttachedTable:
    """One attachment: its table, and the role that its tools run as."""

    attachment: str
    relation_oid: int
    relation: str
    table_exists: bool
    owner: str | None
    schema_owner: str
    owner_may_publish: bool  # whether the schema's owner may put the table into the publication
    run_as: str
    role_exists: bool
    role_is_superuser: bool
    may_become: bool  # whether we may become the role
    reads_as: str | None  # the role of its tool `query`, if it has one
    may_read_as: bool  # whether that role is there, and we may become it
    could_write: str | None  # what that role could do beside reading
    paused: bool
    paused_reason: str | None
    lost: str | None  # why it cannot go on as it was defined


async def read_server(conn: Connection) -> ServerFacts:
    """Look at the server; needs none of our tables."""
    cursor = conn.cursor(row_factory=class_row(ServerFacts))
    await cursor.execute(query("server_facts"))
    facts = await cursor.fetchone()
    assert facts is not None  # noqa: S101 - a select without from gives one row
    return facts


async def missing_privileges(conn: Connection) -> list[str]:
    """List what the daemon's role lacks, such as ``insert on agent.run``."""
    cursor = await conn.execute(query("missing_privileges"))
    return [row[0] for row in await cursor.fetchall()]


async def attached_tables(conn: Connection) -> list[AttachedTable]:
    """List attachments with what their tables and roles are like."""
    cursor = conn.cursor(row_factory=class_row(AttachedTable))
    await cursor.execute(query("attached_tables"))
    return await cursor.fetchall()


async def models_in_use(conn: Connection) -> list[str]:
    """Name the models that agents use."""
    cursor = await conn.execute(query("models_in_use"))
    return [row[0] for row in await cursor.fetchall()]
