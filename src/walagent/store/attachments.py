"""Attachments as the reader, the workers and people need them."""

from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.attachment import Attachment
from walagent.errors import BrokenAttachmentError, WalagentError
from walagent.message import ModelSpec
from walagent.run import Claim

Connection = AsyncConnection[Any]


async def active_attachments(conn: Connection) -> list[Attachment]:
    """Load the versions in effect at the checkpoint's position."""
    cursor = await conn.execute(
        "select definition from agent.attachment_version"
        " where active_from is not null and active_until is null order by attachment_id"
    )
    return [Attachment.from_json(row[0]) for row in await cursor.fetchall()]


async def attachment_version(
    conn: Connection, attachment_id: int, version: int
) -> Attachment | None:
    """Load the version that a run is pinned to."""
    cursor = await conn.execute(
        "select definition from agent.attachment_version where attachment_id = %s and version = %s",
        [attachment_id, version],
    )
    row = await cursor.fetchone()
    return Attachment.from_json(row[0]) if row else None


async def attachment_of(conn: Connection, claim: Claim) -> Attachment:
    """Load the version that a claim is pinned to.

    Raises:
        WalagentError: it does not exist.
    """
    attachment, version = claim.attachment_id, claim.attachment_version
    found = await attachment_version(conn, attachment, version)
    if found is None:
        raise WalagentError(f"version {version} of attachment {attachment} does not exist")
    return found


async def secret_key(conn: Connection) -> bytes:
    """Read the key that signs our write-backs."""
    row = await (await conn.execute("select key from agent_internal.secret")).fetchone()
    return bytes(row[0]) if row else b""


async def pause_broken(conn: Connection, attachment_id: int, reason: str) -> bool | None:
    """Pause an attachment on the daemon's own account: none of its runs can succeed.

    Returns:
        True when it is paused by this, False when it was before, None when it is not: somebody is
        changing it in an open transaction, which is not waited for.
    """
    cursor = await conn.execute(
        "select agent_internal.pause_broken(%s, %s)", [attachment_id, reason]
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def drift_of(conn: Connection, attachment_id: int, version: int) -> str | None:
    """Say why an attachment cannot go on as it was defined; None of a version that has passed."""
    cursor = await conn.execute(
        "select agent_internal.drift_of(definition) from agent.attachment where id = %s and"
        " version = %s",
        [attachment_id, version],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def check_drift(conn: Connection, claim: Claim) -> None:
    """Raise BrokenAttachmentError if the attachment of a run, as it is now, cannot continue."""
    if not claim.attachment_id:
        return
    reason = await drift_of(conn, claim.attachment_id, claim.attachment_version)
    if reason:
        raise BrokenAttachmentError(reason)


async def pause_drifted(conn: Connection) -> list[tuple[str, str]]:
    """Pause the attachments that have lost their ground; give their names and the reasons."""
    cursor = await conn.execute("select attachment, reason from agent_internal.pause_drifted()")
    return await cursor.fetchall()


async def load_models(conn: Connection) -> dict[str, ModelSpec]:
    """Load the registry of models."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute("select * from agent.model where enabled")
    return {row["name"]: _model(row) for row in await cursor.fetchall()}


def _model(row: dict[str, Any]) -> ModelSpec:
    row.pop("enabled")
    for price in ("input_price", "cached_input_price", "cache_write_price", "output_price"):
        row[price] = None if row[price] is None else float(row[price])
    row["timeout"] = float(row.pop("timeout_seconds"))
    return ModelSpec(**row)
