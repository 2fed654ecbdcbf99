"""Built-in tools that work inside the database, each in one transaction of the worker's connection.

No code of others is executed here, so the statements need no trampoline.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.domain.run import Claim
from walagent.message import Json
from walagent.store.codecs.jsonb import to_json

Connection = AsyncConnection[Any]

_FUNCTIONS: Final = {
    "remember": b"select agent_internal.builtin_remember(%(run)s, %(arguments)s::jsonb)",
    "recall": b"select agent_internal.builtin_recall(%(run)s, %(arguments)s::jsonb)",
    "retrieve": b"select agent_internal.builtin_retrieve(%(run)s, %(arguments)s::jsonb)",
    "post_event": b"select agent_internal.builtin_post_event(%(run)s, %(arguments)s::jsonb)",
    "send_email": b"select agent_internal.builtin_send(%(run)s, 'email', %(arguments)s::jsonb)",
    "send_webhook": b"select agent_internal.builtin_send(%(run)s, 'webhook', %(arguments)s::jsonb)",
    **dict.fromkeys(
        ("propose", "vote", "task_update", "hand_over"),
        b"select agent_internal.builtin_team(%(run)s, %(tool)s, %(arguments)s::jsonb)",
    ),
}

NAMES: Final = frozenset(_FUNCTIONS)
RETRIEVING: Final = frozenset({"recall", "retrieve"})  # policies decide about what is found
# The run is no longer this worker's: lost, cancelled, or the step is recorded already.
FENCED: Final = frozenset({"WA001", "WA002", "WA004"})


@asynccontextmanager
async def acting(conn: Connection, claim: Claim) -> AsyncGenerator[None]:
    """Act as the agent of a run for the block, within the caller's transaction.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: leave the run.
    """
    await conn.execute(
        "select agent_internal.begin_builtin(_run => %(run)s, _lease => %(lease)s)",
        {"run": claim.run_id, "lease": claim.lease},
    )
    yield
    await conn.execute("select agent_internal.end_builtin()")


async def call(conn: Connection, claim: Claim, name: str, arguments: Mapping[str, Json]) -> Json:
    """Call a built-in tool; return its result."""
    given = {"run": claim.run_id, "tool": name, "arguments": to_json(dict(arguments)).decode()}
    row = await (await conn.execute(_FUNCTIONS[name], given)).fetchone()
    return row[0] if row else None


async def tenant_of(conn: Connection, run_id: int) -> str:
    """Return the tenant that the tools of a run act for."""
    cursor = await conn.execute(
        "select tenant from agent_internal.scope_of(_run => %(run)s)", {"run": run_id}
    )
    row = await cursor.fetchone()
    return str(row[0]) if row else ""
