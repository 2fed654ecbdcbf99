"""The outbox: messages, their deliveries, and links that decide approvals."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row, dict_row

from walagent.domain.run import Claim
from walagent.errors import ConfigError
from walagent.message import Json, ToolCall
from walagent.store.queries import query
from walagent.store.sessions.tool_connections import ToolConnection

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message and the channel that it leaves by.

    Args:
        id: the same in each attempt.
        kind: webhook, email or slack.
        target, secret: those of the channel; the secret by its name.
        token: of the link that is sent with it.
    """

    id: str
    tenant: str
    channel: str
    kind: str
    target: str
    secret: str | None
    event: str
    subject: str
    body: Mapping[str, Json]
    token: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class OpenLink:
    """The call that a link shows.

    Args:
        refusal: why it cannot decide; None: it can.
    """

    refusal: str | None
    principal: str | None
    approval: int | None
    run: int | None
    agent: str | None
    tool: str | None
    risk: str | None
    arguments: Mapping[str, Json] | None
    relation: str | None
    key: str | None
    content: Mapping[str, Json] | None
    expires_at: datetime | None


async def channel_of(conn: Connection, run_id: int) -> tuple[str, str]:
    """Return the name and the kind of the channel of a delivery.

    Raises:
        ConfigError: the message was removed.
    """
    cursor = await conn.execute(
        "select c.name, c.kind from agent.outbox o"
        " join agent.channel c on c.tenant = o.tenant and c.name = o.channel"
        " where o.run_id = %(run)s",
        {"run": run_id},
    )
    row = await cursor.fetchone()
    if row is None:
        raise ConfigError(f"the message of run {run_id} was removed")
    return row[0], row[1]


async def load_delivery(conn: Connection, run_id: int) -> Delivery:
    """Read the message that a run delivers.

    Raises:
        ConfigError: it was removed.
    """
    cursor = conn.cursor(row_factory=class_row(Delivery))
    await cursor.execute(query("load_delivery"), {"run": run_id})
    found = await cursor.fetchone()
    if found is None:
        raise ConfigError(f"the message of run {run_id} was removed")
    return found


async def begin_call(
    conn: Connection, claim: Claim, seq: int, call: ToolCall, *, again: bool
) -> str:
    """Record the intent of an attempt; return the idempotency key of the delivery.

    Args:
        again: the intent is recorded already.

    Raises: as `runs.record_step`.
    """
    cursor = await conn.execute(
        "select agent_internal.begin_call(_run => %(run)s, _lease => %(lease)s, _seq => %(seq)s,"
        " _call_id => %(call)s, _name => %(name)s, _again => %(again)s)",
        {
            "run": claim.run_id,
            "lease": claim.lease,
            "seq": seq,
            "call": call.id,
            "name": call.name,
            "again": again,
        },
    )
    row = await cursor.fetchone()
    return row[0] if row else ""


async def list_deliveries(
    conn: Connection,
    *,
    channel: str | None = None,
    state: str | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """List messages with the state of their delivery, the newest first."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        query("list_deliveries"), {"channel": channel, "state": state, "limit": limit}
    )
    return await cursor.fetchall()


async def show_delivery(conn: Connection, delivery: str) -> dict[str, Any]:
    """Return a message with the state of its delivery.

    Raises:
        ConfigError: it does not exist.
    """
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query("show_delivery"), {"delivery": delivery})
    found = await cursor.fetchone()
    if found is None:
        raise ConfigError(
            f'message "{delivery}" does not exist', hint="Use walagent outbox list to list them."
        )
    return found


async def check_egress(conn: ToolConnection, delivery: Delivery, run: int) -> Mapping[str, Any]:
    """Let the tenant's rules and policies decide about the request of a webhook.

    Raises (as a PostgreSQL error): TRAMPOLINE_LOST.
    """
    request: dict[str, Json] = {
        "tenant": delivery.tenant,
        "url": delivery.target,
        "method": "POST",
        "about": {"run": run, "channel": delivery.channel},
    }
    async with conn.transaction() as transaction:
        return await transaction.call("check_egress", request)


async def open_link(conn: Connection, token: str) -> OpenLink:
    """Return what a link shows; changes nothing."""
    cursor = conn.cursor(row_factory=class_row(OpenLink))
    await cursor.execute(query("open_link"), {"token": token})
    found = await cursor.fetchone()
    assert found is not None  # noqa: S101 - the function returns one row
    return found


async def use_link(conn: Connection, token: str, *, approve: bool, reason: str) -> str | None:
    """Decide as the approver of a link; return why that was refused, None if it was not."""
    cursor = await conn.execute(
        "select agent_internal.use_link(_token => %(token)s, _approve => %(approve)s,"
        " _reason => %(reason)s)",
        {"token": token, "approve": approve, "reason": reason},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def decide_from_slack(
    conn: Connection, user: str, approval: int, digest: str, *, approve: bool
) -> str | None:
    """Decide as the principal of a Slack user; return why that was refused."""
    cursor = await conn.execute(
        "select agent_internal.decide_from_slack(_user => %(user)s, _approval => %(approval)s,"
        " _digest => %(digest)s, _approve => %(approve)s)",
        {"user": user, "approval": approval, "digest": digest, "approve": approve},
    )
    row = await cursor.fetchone()
    return row[0] if row else None
