"""Operations of people: attach, detach, pause; decide about runs and approvals.

Each calls a function of the schema, which checks privileges; the caller translates its errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.message import Json
from walagent.store import attachments

Connection = AsyncConnection[Any]


async def attach(conn: Connection, table: str, spec: str) -> int:
    """Attach an agent by a spec; return the attachment's ID."""
    return await _call(
        conn,
        "select agent.attach(target => %(target)s::text, spec => %(spec)s::text)",
        target=table,
        spec=spec,
    )


async def detach(conn: Connection, target: str) -> tuple[Sequence[str], Sequence[str]]:
    """Remove an attachment, or all of a table.

    Returns:
        the attachments that were removed, and those that a table of this name still has.
    """
    cursor = await conn.execute("select name, relation::text from agent.attachment order by 1")
    before = dict(await cursor.fetchall())
    await _call(conn, "select agent.detach(target => %(target)s)", target=target)
    named = await attachments.attached_to(conn, target, before)
    if target in before:
        return [target], [name for name in named if name != target]
    return named, []


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


async def retry(
    conn: Connection, run_ids: Sequence[int], *, same_version: bool = False, fresh: bool = False
) -> None:
    """Requeue failed, dead or cancelled runs: all, or none if one cannot be.

    Args:
        same_version: keep the version of the attachment, even if there is a newer one.
        fresh: show the model nothing of the steps before.
    """
    await _call(
        conn,
        "select agent.retry_runs(run_ids => %(run_ids)s, same_version => %(same_version)s,"
        " fresh => %(fresh)s)",
        run_ids=list(run_ids),
        same_version=same_version,
        fresh=fresh,
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What a fork has in the place of what the run has.

    Args:
        prompt: the system prompt.
        reply: that of the model: a text, or an object with text and calls.
        arguments: those of the call.
        newest_version: go on with the current version of the attachment.
    """

    prompt: str | None = None
    reply: Json = None
    arguments: Mapping[str, Json] | None = None
    newest_version: bool = False


async def fork(conn: Connection, run_id: int, step: int, change: Change) -> int:
    """Begin a run that goes on from a step of a run that has ended; return its ID."""
    found = await _call(
        conn,
        "select agent.fork(run_id => %(run)s, step => %(step)s, prompt => %(prompt)s,"
        " reply => %(reply)s::jsonb, arguments => %(arguments)s::jsonb,"
        " newest_version => %(newest)s)",
        run=run_id,
        step=step,
        prompt=change.prompt,
        reply=None if change.reply is None else Jsonb(change.reply),
        arguments=None if change.arguments is None else Jsonb(dict(change.arguments)),
        newest=change.newest_version,
    )
    return int(found)


async def cancel(conn: Connection, run_ids: Sequence[int], reason: str | None) -> None:
    """Cancel runs: all, or none if one has ended.  A worker stops those that are running."""
    await _call(
        conn,
        "select agent.cancel_runs(run_ids => %(run_ids)s, reason => %(reason)s)",
        run_ids=list(run_ids),
        reason=reason,
    )


async def prioritize(conn: Connection, run_ids: Sequence[int], priority: int) -> None:
    """Set the priority of runs that wait: all, or none if one does not wait."""
    await _call(
        conn,
        "select count(agent.set_priority(run_id => r.id, priority => %(priority)s))"
        " from unnest(%(run_ids)s::bigint[]) as r (id)",
        run_ids=sorted(run_ids),
        priority=priority,
    )


async def approve(conn: Connection, approval_ids: Sequence[int]) -> None:
    """Approve tool calls: all, or none if one cannot be approved."""
    await _call(conn, "select agent.approve_calls(ids => %(ids)s)", ids=list(approval_ids))


async def approve_edited(conn: Connection, approval_id: int, arguments: Mapping[str, Json]) -> None:
    """Approve a tool call with other arguments."""
    await _call(
        conn,
        "select agent.approve(id => %(id)s, arguments => %(arguments)s::jsonb)",
        id=approval_id,
        arguments=Jsonb(arguments),
    )


async def reject(conn: Connection, approval_ids: Sequence[int], reason: str | None) -> None:
    """Reject tool calls: all, or none if one cannot be rejected."""
    await _call(
        conn,
        "select agent.reject_calls(ids => %(ids)s, reason => %(reason)s)",
        ids=list(approval_ids),
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


async def answer(conn: Connection, approval: int, text: str) -> None:
    """Answer the question of an agent."""
    await conn.execute(
        "select agent.answer(%(approval)s, %(text)s)", {"approval": approval, "text": text}
    )
