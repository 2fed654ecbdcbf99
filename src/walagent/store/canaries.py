"""Canaries and shadows of attachments, for walagent's reader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from walagent.domain.run import Claim
from walagent.domain.tenant import Actor
from walagent.message import Json
from walagent.store.codecs.lossy import LossyJson

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A canary that its rule has ended.

    Args:
        reason: the clause of the rule with the figures of both versions.
    """

    attachment: str
    version: int
    reason: str


async def due_canaries(conn: Connection) -> list[int]:
    """Return the attachments with a canary whose rule is due."""
    cursor = await conn.execute("select * from agent_internal.due_canaries()")
    return [row[0] for row in await cursor.fetchall()]


async def check_canary(conn: Connection, attachment_id: int) -> RolledBack | None:
    """Roll the canary of an attachment back if its rule says so."""
    cursor = await conn.execute(
        "select attachment, version, reason"
        " from agent_internal.check_canary(_attachment_id => %(attachment)s)",
        {"attachment": attachment_id},
    )
    row = await cursor.fetchone()
    return None if row is None else RolledBack(*row)


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A change that a shadow gets, after its run.

    Args:
        attempt: counts; a claim that another one has followed stores nothing.
        attachment: its name.
        tenant: of the attachment.
        definition: of the shadow, as it was frozen.
    """

    run_id: int
    attempt: int
    evaluation: int
    attachment: str
    tenant: str
    definition: Mapping[str, Any]


async def has_shadows(conn: Connection) -> bool:
    """Return whether an attachment has a shadow."""
    cursor = await conn.execute(
        "select exists (select from agent.canary where state = 'running' and shadow)"
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def claim_shadow(conn: Connection, lease: timedelta) -> Shadowed | None:
    """Claim the next change; None: none is due."""
    cursor = await conn.execute(
        "select * from agent_internal.claim_shadow(_lease => %(lease)s)", {"lease": lease}
    )
    row = await cursor.fetchone()
    return None if row is None else Shadowed(*row)


async def end_shadowed(
    conn: Connection, claimed: Shadowed, case: Mapping[str, Json] | None, wait: timedelta
) -> bool:
    """Store what came of a change; return whether the claim was in effect.

    Args:
        case: with the columns of agent.evaluation_case; None: it is tried again after *wait*.
    """
    cursor = await conn.execute(
        "select agent_internal.end_shadowed(_run => %(run)s, _attempt => %(attempt)s,"
        " _evaluation => %(evaluation)s, _case => %(case)s, _wait => %(wait)s)",
        {
            "run": claimed.run_id,
            "attempt": claimed.attempt,
            "evaluation": claimed.evaluation,
            "case": None if case is None else LossyJson(case),
            "wait": wait,
        },
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def request_position(conn: Connection, run_id: int) -> str:
    """Let the reader write its position; return the one to which it knows what a run changed."""
    cursor = await conn.execute(
        "select pg_catalog.pg_current_wal_insert_lsn()::text,"
        " pg_catalog.pg_logical_emit_message(true, 'walagent', w.what || ' '"
        "     || agent_internal.sign_write(w.what, pg_catalog.pg_current_xact_id()))"
        " from (values (%(run)s::bigint || ' request')) as w (what)",
        {"run": run_id},
    )
    row = await cursor.fetchone()
    return str(row and row[0])


async def take_back(
    conn: Connection,
    claim: Claim,
    definition: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
) -> bool:
    """Take back in this transaction what a run changed, as the role that it had.

    Args:
        claim: of the trial: it is what writes.
        definition: of the version of the run.
        steps: of `deciders.revert_plan`.

    Returns:
        whether all of it was as the run had left it.
    """
    actor = Actor(claim.tenant, str(definition["agent"]))
    await conn.execute("select agent_internal.assume(%s, %s)", (actor.tenant, actor.principal))
    await conn.execute("select agent_internal.limit_lock_waits()")
    whole = True
    for step in steps:
        cursor = await conn.execute(
            "select agent_internal.revert_step("
            "agent_internal.trampoline_of(%s::text::name), %s, %s, %s, %s) -> 'done'",
            [
                definition["run_as"],
                definition.get("search_path") or "",
                claim.run_id,
                LossyJson(dict(definition)),
                LossyJson(step["entries"]),
            ],
        )
        row = await cursor.fetchone()
        whole = whole and row == (True,)
    # They are kept for the reader, which does not come here; the trial counts its own.
    await conn.execute("delete from agent_internal.row_before where run_id = %s", [claim.run_id])
    return whole
