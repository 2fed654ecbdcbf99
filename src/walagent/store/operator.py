"""Operations of people: attach, detach, pause; decide about runs and approvals.

Each calls a function of the schema, which checks privileges; the caller translates its errors.
"""

from typing import Any, LiteralString

from psycopg import AsyncConnection

Connection = AsyncConnection[Any]


async def attach(conn: Connection, table: str, spec: str) -> int:
    """Attach an agent by a spec; return the attachment's ID."""
    return await _call(conn, "select agent.attach(%s::text, %s::text)", table, spec)


async def detach(conn: Connection, target: str) -> int:
    """Remove an attachment, or all of a table; return how many."""
    return await _call(conn, "select agent.detach(%s)", target)


async def pause(conn: Connection, attachment: str, reason: str | None) -> None:
    """Stop an attachment from starting runs."""
    await _call(conn, "select agent.pause(%s, %s)", attachment, reason)


async def resume(conn: Connection, attachment: str) -> None:
    """Let an attachment start runs again."""
    await _call(conn, "select agent.resume(%s)", attachment)


async def retry(conn: Connection, run_id: int) -> None:
    """Requeue a failed, dead or cancelled run."""
    await _call(conn, "select agent.retry(%s)", run_id)


async def cancel(conn: Connection, run_id: int, reason: str | None) -> str:
    """Cancel a run; return "cancelled", or "running" until its worker has stopped it."""
    return await _call(conn, "select agent.cancel(%s, %s)::text", run_id, reason)


async def approve(conn: Connection, approval_id: int) -> None:
    """Approve a tool call."""
    await _call(conn, "select agent.approve(%s)", approval_id)


async def reject(conn: Connection, approval_id: int, reason: str | None) -> None:
    """Reject a tool call."""
    await _call(conn, "select agent.reject(%s, %s)", approval_id, reason)


async def resolve(conn: Connection, run_id: int, *, happened: bool, note: str) -> None:
    """Resolve a tool call whose outcome is unknown."""
    await _call(conn, "select agent.resolve(%s, %s, %s)", run_id, happened, note)


async def _call(conn: Connection, statement: LiteralString, *arguments: object) -> Any:  # noqa: ANN401 - the function's result
    row = await (await conn.execute(statement, arguments)).fetchone()
    return row[0] if row else None
