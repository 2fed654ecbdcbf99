"""Write-back transactions: tool calls as the role of their run, and what that role can see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from walagent.agent_spec import Authority
from walagent.message import Json, ToolCall
from walagent.run import Claim
from walagent.store.tool_connections import ToolConnection

Connection = AsyncConnection[Any]

TRAMPOLINE_LOST = "WA016"  # SQLSTATE: a role has none, or it was changed


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
    conn: ToolConnection, claim: Claim, seq: int, call: ToolCall, statement: ToolStatement
) -> Mapping[str, Json]:
    """Execute a SQL tool and record its result, in one statement; return the step's content.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError, StepTakenError: leave the run.
        BrokenAttachmentError: the call failed because the attachment is broken.
        and TRAMPOLINE_LOST: repeat it after `make_trampoline`.
    """
    request = conn.sign(
        {
            "run": claim.run_id,
            "lease": claim.lease,
            "seq": seq,
            "call": call.id,
            "name": call.name,
            "run_as": statement.authority.run_as,
            "sql": statement.text,
            "arguments": statement.parameter,
            "path": statement.authority.search_path,
            "must_find": statement.must_find,
            "relation": statement.relation,
        }
    )
    cursor = await conn.conn.execute(
        "select agent_internal.call_tool(%(request)s, %(signature)s)", request
    )
    row = await cursor.fetchone()
    return row[0] if row else {}


async def make_trampoline(conn: Connection, role: str) -> None:
    """Create the function through which the statements of *role* are executed, as the worker.

    Raises (as a PostgreSQL error, see `store.errors`):
        RoleRefusedError: the role does not exist, or the worker is not a member of it.
    """
    await conn.execute("select agent_internal.make_trampoline(_role => %(role)s)", {"role": role})


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


async def check_reader(conn: Connection, role: str, asked: RowQuestion) -> bool | None:
    """Check whether *role* can read what an agent is shown, as the worker.

    Returns:
        Whether policies decide which rows it sees; None: the table was dropped.

    Raises (as a PostgreSQL error, see `store.errors`):
        RoleRefusedError: the role does not exist, cannot be set, or cannot read these columns.
    """
    cursor = await conn.execute(
        "select agent_internal.check_reader(_run_as => %(role)s,"
        " _relation => %(relation)s, _columns => %(columns)s)",
        {"role": role, "relation": asked.relation, "columns": asked.columns},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def can_see(conn: ToolConnection, role: str, asked: RowQuestion) -> bool:
    """Check whether *role* can see a row.

    Raises (as a PostgreSQL error, see `store.errors`):
        BrokenAttachmentError: the table was dropped, or has another key.
    """
    if asked.text is None:
        return False
    request = conn.sign(
        {
            "run_as": role,
            "sql": asked.text,
            "arguments": asked.key,
            "key": asked.key,
            "relation": None if asked.key is None else asked.relation,
        }
    )
    cursor = await conn.conn.execute(
        "select agent_internal.read_as(%(request)s, %(signature)s)", request
    )
    row = await cursor.fetchone()
    return row is not None and row[0] in {"t", "true"}
