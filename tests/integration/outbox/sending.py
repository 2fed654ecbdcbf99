"""A worker that delivers, with the senders of a test."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_network

from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, run_all, until, value
from walagent.message import Reply, Stop
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.outbox.sender import Sender
from walagent.outbox.webhook import Post
from walagent.runs.kinds.delivery_kind import delivery_kind
from walagent.runs.resources import Resources
from walagent.runs.worker import Worker, WorkerSettings
from walagent.store.sessions.connections import open_pool
from walagent.store.sessions.tool_connections import open_tool_connections
from walagent.tools.http import HostRules

SECRETS = {"HOOK_KEY": "a key of the hook", "BOT": "xoxb-1", "APP": "xapp-1"}
LOCAL = (ip_network("127.0.0.0/8"),)


def post(port: int, secrets: Mapping[str, str] = SECRETS) -> Post:
    """What may be sent to a server of a test."""
    rules = HostRules(frozenset({"HOOK_KEY"}), LOCAL)
    return Post({f"127.0.0.1:{port}": rules}, secrets.get)


@asynccontextmanager
async def delivering(
    dsn: str, senders: Mapping[str, Sender], public_url: str | None = None
) -> AsyncIterator[Worker]:
    """Run a worker of the kind `delivery`."""
    async with (
        open_pool(dsn, size=3, application="test") as pool,
        open_tool_connections(pool, lambda: dsn) as calls,
    ):
        kinds = {"delivery": delivery_kind(calls, senders, public_url)}
        model = ScriptedModel([Reply((), Stop.END)])
        worker = Worker(
            WorkerSettings("w", poll=0.1), Resources(pool, lambda _name, _tenant: model, kinds)
        )
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await asyncio.wait_for(task, DEADLINE)


async def channel(conn: AsyncConnection, kind: str, target: str, **columns: str) -> None:
    """Create a channel by the name of its kind."""
    given = {"kind": kind, "name": kind, "target": target, "tenant": "default", **columns}
    names, places = ", ".join(given), ", ".join(["%s"] * len(given))
    await conn.execute(
        f"insert into agent.channel ({names}) values ({places})".encode(), list(given.values())
    )


async def send(conn: AsyncConnection, to: str, text: str = "Hello.") -> str:
    """Send a message as an application does."""
    return str(
        await value(
            conn,
            "select agent.send(%s, 'A subject', jsonb_build_object('text', %s::text))::text",
            to,
            text,
        )
    )


async def ended(conn: AsyncConnection, count: int = 1) -> list[tuple[str, str | None]]:
    """Wait until so many deliveries have ended; return their states and errors, in order."""
    await until(
        conn,
        "select count(*) = %s from agent.delivery where agent_internal.is_final(state)",
        count,
    )
    cursor = await conn.execute(
        "select state::text, coalesce(error, result) from agent.delivery order by run_id"
    )
    return [(str(state), said) for state, said in await cursor.fetchall()]


async def hurry(conn: AsyncConnection) -> None:
    """Let the next attempt begin now."""
    await until(conn, "select exists (select from agent.run where state = 'waiting_retry')")
    await run_all(
        conn,
        "update agent.run set next_attempt_at = now() where state = 'waiting_retry';"
        "notify walagent_runs",
    )
