"""Write-back transactions: tool calls as the role of their run, and what that role can see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.agent_spec import Authority
from walagent.message import Json, ToolCall
from walagent.run import Claim

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class ToolStatement:
    """The statement of a SQL tool.

    Args:
        must_find: whether a statement without a result has failed.
        relation: OID of the table whose name agent_internal.bind_relation() inserts.
    """

    text: str
    parameter: Json
    authority: Authority
    must_find: bool = False
    relation: int | None = None


async def call_tool(
    conn: Connection, claim: Claim, seq: int, call: ToolCall, statement: ToolStatement
) -> Mapping[str, Json]:
    """Execute a SQL tool and record its result, in one statement; return the step's content.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError, StepTakenError: leave the run.
        RoleRefusedError: its role cannot be set.
        BrokenAttachmentError: the call failed because the attachment is broken.
    """
    cursor = await conn.execute(
        "select agent_internal.call_tool("
        " _run => %(run)s, _lease => %(lease)s, _seq => %(seq)s, _call_id => %(call)s,"
        " _name => %(name)s, _run_as => %(run_as)s, _sql => %(sql)s, _arguments => %(arguments)s,"
        " _path => %(path)s, _must_find => %(must_find)s, _relation => %(relation)s)",
        {
            "run": claim.run_id,
            "lease": claim.lease,
            "seq": seq,
            "call": call.id,
            "name": call.name,
            "run_as": statement.authority.run_as,
            "sql": statement.text,
            "arguments": Jsonb(statement.parameter),
            "path": statement.authority.search_path,
            "must_find": statement.must_find,
            "relation": statement.relation,
        },
    )
    row = await cursor.fetchone()
    return row[0] if row else {}


@dataclass(frozen=True, slots=True)
class WriteBegun:
    """A write-back transaction: its ID, and the idempotency key of the call."""

    transaction: str
    key: str


async def begin_write(
    conn: Connection, claim: Claim, call_id: str = "", rest: float = 60.0
) -> WriteBegun:
    """Start a write-back transaction: fence the run, and write the origin marker.

    Args:
        rest: seconds for which it may be idle before the server ends it.
    """
    cursor = await conn.execute(
        "select pg_current_xact_id()::text,"
        "       agent_internal.call_key(_run => %(run)s, _call_id => %(call)s),"
        "       set_config('idle_in_transaction_session_timeout', %(rest)s, true)"
        "  from agent_internal.begin_write(_run => %(run)s, _lease => %(lease)s)",
        {
            "rest": str(round(rest * 1000)),
            "run": claim.run_id,
            "lease": claim.lease,
            "call": call_id,
        },
    )
    row = await cursor.fetchone()
    return WriteBegun(row[0], row[1]) if row else WriteBegun("", "")


async def extend_lease(conn: Connection, claim: Claim, seconds: float) -> None:
    """Extend the lease by the time for which this transaction has locked the run."""
    await conn.execute(
        "select agent_internal.extend_lease(_run => %(run)s, _lease => %(lease)s, _by => %(by)s)",
        {"run": claim.run_id, "lease": claim.lease, "by": timedelta(seconds=seconds)},
    )


async def assume_role(conn: Connection, role: str, search_path: str) -> None:
    """Set a role for the rest of the transaction.

    Raises (as a PostgreSQL error, see `store.errors`):
        RoleRefusedError: it does not exist, or the login is not a member of it.
    """
    await conn.execute(
        "select agent_internal.assume_role(_run_as => %(role)s, _path => %(search_path)s)",
        {"role": role, "search_path": search_path},
    )


async def clean_session(conn: Connection) -> str:
    """Reset what a tool has changed in the session; return the ID of the open transaction."""
    cursor = await conn.execute(
        "select coalesce(pg_current_xact_id_if_assigned()::text, '') from"
        " agent_internal.clean_session()"
    )
    row = await cursor.fetchone()
    return row[0] if row else ""


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """The statement that checks whether a row is visible.

    Args:
        columns: that the agent sees; None: all.
        text: returns a boolean, for agent_internal.bind_relation(); None: the change has no row.
        key: the parameter of *text*.
    """

    relation: int
    columns: Sequence[str] | None
    text: str | None
    key: Mapping[str, Json] | None


async def row_visibility(conn: Connection, role: str, asked: RowQuestion) -> tuple[bool, bool]:
    """Check whether *role* can see a row, and whether row level security decided that.

    Raises (as a PostgreSQL error, see `store.errors`):
        RoleRefusedError: the role does not exist, cannot be set, or cannot read these columns.
    """
    key = None if asked.key is None else Jsonb(asked.key)
    cursor = await conn.execute(
        "select seen, row_security from agent_internal.row_visibility(_run_as => %(role)s,"
        " _relation => %(relation)s, _columns => %(columns)s, _sql => %(sql)s, _key => %(key)s)",
        {
            "role": role,
            "relation": asked.relation,
            "columns": asked.columns,
            "sql": asked.text,
            "key": key,
        },
    )
    row = await cursor.fetchone()
    return (bool(row[0]), bool(row[1])) if row else (False, True)
