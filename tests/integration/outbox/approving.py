"""An approval that waits, and people who are notified of it."""

from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, run_all, value
from tests.helpers.queue import NOTHING, add_runs, claim
from walagent.message import ToolCall
from walagent.store import runs

CALL = ToolCall("c1", "refund_user", {"amount": 50, "reason": "<b>&\"'</b>"})


async def people(conn: AsyncConnection) -> None:
    """Ann and Ben, who approve, and an attached agent whose calls wait for them."""
    await run_all(
        conn,
        DESK
        + """
        insert into agent.principal (tenant, name, metadata)
        values ('default', 'ann', '{"slack_user": "UANN"}'), ('default', 'ben', '{}');
        insert into agent.role_grant select 'default', p, 'approver', 'me'
          from unnest('{ann,ben}'::text[]) p;
        """,
    )
    await attach(conn, "name=desk, tools=[refund_user], approve=[refund_user], bind=[ticket_id=id]")


async def notify(conn: AsyncConnection, to: str, event: str = "approval.requested") -> None:
    """Notify a channel of an event."""
    await conn.execute(
        b"insert into agent.notification (tenant, event, channel) values ('default', %s, %s)",
        [event, to],
    )


async def ask(conn: AsyncConnection, ttl: float = 3600) -> int:
    """Let a run wait for an approval; return the approval."""
    await add_runs(conn, await value(conn, "select id from agent.attachment"), None)
    (held,) = await claim(conn)
    return await runs.ask_approval(conn, held, 0, CALL, "somebody", ttl, NOTHING)


async def token(conn: AsyncConnection, principal: str = "ann") -> str:
    """Return the token of the latest link of an approver."""
    return str(
        await value(
            conn,
            "select agent_internal.link_token(l) from agent.approval_link l"
            " where principal = %s order by approval_id desc limit 1",
            principal,
        )
    )
