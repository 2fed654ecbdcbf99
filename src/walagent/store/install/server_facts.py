"""Read what `walagent doctor` checks: the server, the role, the attached tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row

from walagent.store.queries import query

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server, the database, and the current role."""

    version: int  # server_version_num, such as 150020
    database: str
    role: str
    in_recovery: bool
    wal_level: str
    max_slots: int
    slots: int
    max_senders: int
    senders: int
    keep_megabytes: int  # max_slot_wal_keep_size; -1: no limit
    plugin_libraries: str  # "" if the server has no such setting, or hides it
    idle_timeout: int | None  # idle_replication_slot_timeout; 0: off, None: no such setting
    max_connections: int
    clock: float  # Unix time
    superuser: bool
    migrated: bool
    standby_slots: str | None = None  # synchronized_standby_slots; None: no such setting
    synchronous_names: str = ""  # synchronous_standby_names
    # The functions that write a logical message, and whether anyone, and this role, may call them.
    message_functions: str = ""
    anyone_may_send: bool = False
    role_may_send: bool = True


@dataclass(frozen=True, slots=True)
class AttachedTable:
    """One attachment: its table, and the role of its tools."""

    attachment: str
    relation_oid: int
    relation: str
    table_exists: bool
    owner: str | None
    schema_owner: str
    owner_may_publish: bool  # whether the schema's owner can publish the table
    run_as: str
    role_exists: bool
    role_is_superuser: bool
    reads_key: bool  # whether the role can read the key that signs calls
    may_become: bool  # whether the current role can set the role
    reads_as: str | None  # the role of its tool `query`, if it has one
    may_read_as: bool  # whether that role exists and can be set
    could_write: str | None  # the rights of that role beyond reading
    paused: bool
    paused_reason: str | None
    lost: str | None  # why it is broken
    missing_old: Sequence[str] = ()  # columns of old that its condition reads and the WAL lacks


@dataclass(frozen=True, slots=True)
class UnconfinedRole:
    """A role to which row-level security does not apply, although it should."""

    used_by: str  # daemon, owner or principal
    role: str
    principal: str
    reason: str  # SUPERUSER, BYPASSRLS, or OWNER: it is or can become the owner of the schema


@dataclass(frozen=True, slots=True)
class LoginFacts:
    """The login on whose connections code of others is executed."""

    is_role: bool
    may_log_in: bool
    attributes: Sequence[str]
    member_of: Sequence[str]
    owns: Sequence[str]
    may_create: bool  # whether the current role can create it


async def read_server(conn: Connection) -> ServerFacts:
    """Read facts about the server; does not use walagent's tables."""
    cursor = conn.cursor(row_factory=class_row(ServerFacts))
    await cursor.execute(query("server_facts"))
    facts = await cursor.fetchone()
    assert facts is not None  # noqa: S101 - a select without from returns one row
    return facts


async def missing_privileges(conn: Connection) -> list[str]:
    """Return what the daemon's role lacks, such as ``insert on agent.run``."""
    cursor = await conn.execute(query("missing_privileges"))
    return [row[0] for row in await cursor.fetchall()]


async def unconfined_roles(conn: Connection) -> list[UnconfinedRole]:
    """Return roles that row-level security does not confine."""
    cursor = conn.cursor(row_factory=class_row(UnconfinedRole))
    await cursor.execute(query("unconfined_roles"))
    return await cursor.fetchall()


async def role_troubles(conn: Connection, named: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return who else can act as walagent's roles: role, what is wrong, and what ends it.

    Args:
        named: roles of the settings.
    """
    return await (await conn.execute(query("role_troubles"), {"named": list(named)})).fetchall()


async def attached_tables(conn: Connection) -> list[AttachedTable]:
    """Return attachments with facts about their tables and roles."""
    cursor = conn.cursor(row_factory=class_row(AttachedTable))
    await cursor.execute(query("attached_tables"))
    return await cursor.fetchall()


async def read_tools_login(conn: Connection, name: str) -> LoginFacts:
    """Return facts about the login for tools."""
    cursor = conn.cursor(row_factory=class_row(LoginFacts))
    await cursor.execute(query("tools_login"), {"name": name})
    facts = await cursor.fetchone()
    assert facts is not None  # noqa: S101 - a left join of one row returns one row
    return facts


@dataclass(frozen=True, slots=True)
class WalKeeper:
    """A transaction that is open: no slot advances past its start.

    Args:
        prepared: its name, if it was prepared.
    """

    pid: int | None
    prepared: str | None
    database: str
    application: str
    age: float  # seconds


async def wal_keepers(conn: Connection, seconds: float) -> list[WalKeeper]:
    """Return transactions that have written and are open for longer than *seconds*."""
    cursor = conn.cursor(row_factory=class_row(WalKeeper))
    await cursor.execute(query("wal_keepers"), {"seconds": seconds})
    return await cursor.fetchall()


async def models_in_use(conn: Connection) -> list[str]:
    """Return the models that agents use."""
    cursor = await conn.execute(query("models_in_use"))
    return [row[0] for row in await cursor.fetchall()]
