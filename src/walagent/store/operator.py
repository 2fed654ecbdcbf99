"""Operations of people: attach, detach, pause; decide about runs and approvals.

Each calls a function of the schema, which checks privileges; the caller translates its errors.
"""

from typing import Any, LiteralString

from psycopg import AsyncConnection

Connection = AsyncConnection[Any]


async def attach(conn: Connection, table: str, spec: str) -> int:
    """Attach an agent by a spec; return the attachment's ID."""
    return await _call(
        conn,
        "select agent.attach(target => %(target)s::text, spec => %(spec)s::text)",
        target=table,
        spec=spec,
    )


async def detach(conn: Connection, target: str) -> int:
    """Remove an attachment, or all of a table; return how many."""
    return await _call(conn, "select agent.detach(target => %(target)s)", target=target)


async def pause(conn: Connection, attachment: str, reason: str | None) -> None:
    """Stop an attachment from starting runs."""
    await _call(
        conn,
        "select agent.pause(name => %(name)s, reason => %(reason)s)",
        name=attachment,
        reason=reason,
    )


async def resume(conn: Connection, attachment: str) -> None:
    """Let an attachment start runs again."""
    await _call(conn, "select agent.resume(name => %(name)s)", name=attachment)


async def retry(conn: Connection, run_id: int) -> None:
    """Requeue a failed, dead or cancelled run."""
    await _call(conn, "select agent.retry(run_id => %(run_id)s)", run_id=run_id)


async def cancel(conn: Connection, run_id: int, reason: str | None) -> str:
    """Cancel a run; return "cancelled", or "running" until its worker has stopped it."""
    return await _call(
        conn,
        "select agent.cancel(run_id => %(run_id)s, reason => %(reason)s)::text",
        run_id=run_id,
        reason=reason,
    )


async def approve(conn: Connection, approval_id: int) -> None:
    """Approve a tool call."""
    await _call(conn, "select agent.approve(id => %(id)s)", id=approval_id)


async def reject(conn: Connection, approval_id: int, reason: str | None) -> None:
    """Reject a tool call."""
    await _call(
        conn,
        "select agent.reject(id => %(id)s, reason => %(reason)s)",
        id=approval_id,
        reason=reason,
    )


async def resolve(conn: Connection, run_id: int, *, happened: bool, note: str) -> None:
    """Resolve a tool call whose outcome is unknown."""
    await _call(
        conn,
        "select agent.resolve(run_id => %(run_id)s, happened => %(happened)s, note => %(note)s)",
        run_id=run_id,
        happened=happened,
        note=note,
    )


async def _call(conn: Connection, statement: LiteralString, /, **arguments: object) -> Any:  # noqa: ANN401 - the function's result
    row = await (await conn.execute(statement, arguments)).fetchone()
    return row[0] if row else None
