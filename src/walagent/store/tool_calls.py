"""Write-back transactions: tool calls as the role of their run, and what that role can see."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from walagent.domain.agent_spec import Authority
from walagent.domain.run import Claim
from walagent.message import Json, ToolCall
from walagent.store.runs import NewStep
from walagent.store.sessions.tool_connections import ToolConnection, ToolTransaction

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


async def call_tool(  # noqa: PLR0913, PLR0917 - who, which step, what, and how it may end
    conn: ToolConnection,
    claim: Claim,
    seq: int,
    call: ToolCall,
    statement: ToolStatement,
    check: Callable[[Mapping[str, Json]], None] = lambda _: None,
) -> Mapping[str, Json]:
    """Execute a SQL tool and record its result, in one statement; return the step's content.

    Args:
        check: raises if the content is refused; the transaction is then rolled back.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError, StepTakenError: leave the run.
        BrokenAttachmentError: the call failed because the attachment is broken.
        and TRAMPOLINE_LOST: see `through_trampolines`.
    """
    request: dict[str, Json] = {
        "run": claim.run_id,
        "lease": claim.lease,
        "seq": seq,
        "call": call.id,
        "name": call.name,
        "given": call.arguments,
        "run_as": statement.authority.run_as,
        "sql": statement.text,
        "arguments": statement.parameter,
        "path": statement.authority.search_path,
        "must_find": statement.must_find,
        "relation": statement.relation,
    }
    async with conn.transaction() as transaction:
        content: Mapping[str, Json] = await transaction.call("call_tool", request)
        check(content)
        return content


async def admit_call(  # noqa: PLR0913 - who, which step, what
    conn: ToolConnection, claim: Claim, seq: int, call: ToolCall, *, intent: bool, again: bool
) -> Mapping[str, Json]:
    """Check a call, and record its refusal or its intent; return what agent_signed returns.

    Args:
        intent: whether it acts outside the database.
        again: the intent is recorded already.

    Raises: as `call_tool`.
    """
    request: dict[str, Json] = {
        "run": claim.run_id,
        "lease": claim.lease,
        "seq": seq,
        "call": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "intent": intent,
        "again": again,
    }
    async with conn.transaction() as transaction:
        return await transaction.call("admit_call", request)


async def open_step(  # noqa: PLR0913, PLR0917 - who, which step, what
    conn: ToolTransaction, claim: Claim, seq: int, call: ToolCall, role: str, rest: float
) -> Mapping[str, Json]:
    """Begin a step whose statements are sent one by one; return agent_signed.open_step()'s result.

    Args:
        rest: seconds for which it may be idle before the server ends it.

    Raises: as `call_tool`.
    """
    request: dict[str, Json] = {
        "run": claim.run_id,
        "lease": claim.lease,
        "seq": seq,
        "call": call.id,
        "name": call.name,
        "given": call.arguments,
        "run_as": role,
        "rest": str(round(rest * 1000)),
    }
    return await conn.call("open_step", request)


async def close_step(conn: ToolTransaction, claim: Claim, step: NewStep, took: float) -> None:
    """Record the result of a step, in the transaction of its effects.

    Args:
        took: seconds for which this transaction has locked the run.

    Raises: as `call_tool`.
    """
    request: dict[str, Json] = {
        "run": claim.run_id,
        "lease": claim.lease,
        "seq": step.seq,
        "content": step.content,
        "took": took,
    }
    await conn.call("close_step", request)


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


async def read_as(
    conn: ToolConnection, role: str, text: str, arguments: Json, **more: Json
) -> str | None:
    """Execute a statement that reads, as *role*, and end its transaction; return its one text.

    Args:
        arguments: its $1.
        more: of the request, see agent_signed.read_as().

    Raises (as a PostgreSQL error): what the statement raises; TRAMPOLINE_LOST.
    """
    request: dict[str, Json] = {"run_as": role, "sql": text, "arguments": arguments, **more}
    async with conn.transaction(force_rollback=True) as transaction:
        return await transaction.call("read_as", request)


async def can_see(conn: ToolConnection, role: str, asked: RowQuestion) -> bool:
    """Check whether *role* can see a row.

    Raises (as a PostgreSQL error, see `store.errors`):
        BrokenAttachmentError: the table was dropped, or has another key.
    """
    if asked.text is None:
        return False
    relation = None if asked.key is None else asked.relation
    found = await read_as(conn, role, asked.text, asked.key, key=asked.key, relation=relation)
    return found in {"t", "true"}
