"""Load attachments for the reader, the workers and people."""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.errors import InvalidName
from psycopg.rows import dict_row

from walagent.domain.agent_spec import AgentSpec
from walagent.domain.attachment import Attachment
from walagent.domain.run import Claim
from walagent.errors import BrokenAttachmentError, WalagentError
from walagent.message import ModelSpec, PriceBand

Connection = AsyncConnection[Any]


async def active_attachments(conn: Connection) -> list[Attachment]:
    """Load the versions in effect at the checkpoint."""
    cursor = await conn.execute(
        "select definition from agent.attachment_version"
        " where active_from is not null and active_until is null and share is null"
        " order by attachment_id"
    )
    return [Attachment.from_json(row[0]) for row in await cursor.fetchall()]


async def active_canaries(conn: Connection) -> list[tuple[Attachment, float, bool]]:
    """Load the canaries in effect at the checkpoint: share, and whether it is a shadow."""
    cursor = await conn.execute(
        "select definition, share, shadow from agent.attachment_version"
        " where active_from is not null and active_until is null and share is not null"
        " order by attachment_id"
    )
    return [(Attachment.from_json(row[0]), row[1], row[2]) for row in await cursor.fetchall()]


async def attached_tables(conn: Connection) -> frozenset[tuple[str, str]]:
    """Return schema and name of each table that has an attachment now."""
    cursor = await conn.execute(
        "select n.nspname, c.relname from agent.attachment a"
        " join pg_catalog.pg_class c on c.oid = a.relation"
        " join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
    )
    return frozenset(await cursor.fetchall())


async def attachment_version(
    conn: Connection, attachment_id: int, version: int
) -> Attachment | None:
    """Load the version that a run uses."""
    cursor = await conn.execute(
        "select definition from agent.attachment_version where attachment_id = %(attachment)s"
        " and version = %(version)s",
        {"attachment": attachment_id, "version": version},
    )
    row = await cursor.fetchone()
    return Attachment.from_json(row[0]) if row else None


async def attachment_of(conn: Connection, claim: Claim) -> Attachment:
    """Load the version that a claimed run uses.

    Raises:
        WalagentError: it does not exist.
    """
    attachment, version = claim.attachment_id, claim.attachment_version
    found = await attachment_version(conn, attachment, version)
    if found is None:
        raise WalagentError(f"version {version} of attachment {attachment} does not exist")
    return found


async def secret_key(conn: Connection) -> bytes:
    """Read the key that signs origin markers."""
    row = await (await conn.execute("select key from agent_internal.secret")).fetchone()
    return bytes(row[0]) if row else b""


async def pause_broken(conn: Connection, attachment_id: int, reason: str) -> bool | None:
    """Pause an attachment whose runs cannot succeed.

    Returns:
        True if this call paused it, False if it was paused before, None if it is not paused: an
        open transaction is changing it, and this call does not wait.
    """
    cursor = await conn.execute(
        "select agent_internal.pause_broken(_attachment_id => %(attachment)s,"
        " _reason => %(reason)s)",
        {"attachment": attachment_id, "reason": reason},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def drift_of(conn: Connection, attachment_id: int, version: int) -> str | None:
    """Return why an attachment's definition no longer applies; None for an older version."""
    cursor = await conn.execute(
        "select agent_internal.drift_of(_definition => definition) from agent.attachment"
        " where id = %(attachment)s and version = %(version)s",
        {"attachment": attachment_id, "version": version},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def check_drift(conn: Connection, claim: Claim) -> None:
    """Raise BrokenAttachmentError if the current version of a run's attachment is broken."""
    if not claim.attachment_id:
        return
    reason = await drift_of(conn, claim.attachment_id, claim.attachment_version)
    if reason:
        raise BrokenAttachmentError(reason)


async def pause_drifted(conn: Connection) -> list[tuple[str, str]]:
    """Pause broken attachments; return their names and the reasons."""
    cursor = await conn.execute("select attachment, reason from agent_internal.pause_drifted()")
    return await cursor.fetchall()


async def cancel_detached(conn: Connection) -> None:
    """Cancel runs that became claimable after their attachment was detached while paused."""
    await conn.execute("select agent_internal.cancel_detached()")


async def agents(conn: Connection) -> list[AgentSpec]:
    """Load the agents of all attachments, each once."""
    cursor = await conn.execute(
        "select distinct on (agent) definition from agent.attachment order by agent, id"
    )
    return [AgentSpec.from_json(row[0]) for row in await cursor.fetchall()]


async def load_models(conn: Connection) -> dict[str, ModelSpec]:
    """Load the enabled models of the tenant of the caller, and the shared ones, by name.

    A tenant's own one precedes the shared one of its name, also while it is disabled.
    """
    found = {
        spec.name: spec
        for spec in await _read_models(
            conn,
            "select * from agent.model where scope in ('', agent.current_tenant()) order by scope",
        )
    }
    return {name: spec for name, spec in found.items() if spec.enabled}


async def load_registry(conn: Connection) -> dict[str, ModelSpec]:
    """Load the models of all tenants, by label, for the daemon."""
    return {spec.label: spec for spec in await _read_models(conn, "select * from agent.model")}


async def _read_models(conn: Connection, statement: LiteralString) -> list[ModelSpec]:
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(statement)
    return [_model(row) for row in await cursor.fetchall()]


def _model(row: dict[str, Any]) -> ModelSpec:
    row["tenant"] = row.pop("scope")
    prices = ("input_price", "cached_input_price", "cache_write_price", "output_price")
    for price in (*prices, "flex_factor", "batch_factor"):
        row[price] = None if row[price] is None else float(row[price])
    row["timeout"] = float(row.pop("timeout_seconds"))
    row["price_bands"] = tuple(_price_band(band) for band in row["price_bands"])
    return ModelSpec(**row)


def _price_band(raw: Mapping[str, Any]) -> PriceBand:
    def price(name: str) -> float | None:
        return None if raw.get(name) is None else float(raw[name])

    return PriceBand(
        int(raw["above"]),
        float(raw["input_price"]),
        price("cached_input_price"),
        price("cache_write_price"),
        float(raw["output_price"]),
    )


async def attached_to(conn: Connection, table: str, tables: Mapping[str, str]) -> Sequence[str]:
    """Return the attachments of a table, however it is named; names are found by search_path.

    Args:
        tables: of attachments, by name.
    """
    wanted, *others = await _relations(conn, [table, *tables.values()])
    found = zip(tables, others, strict=True)
    return sorted(name for name, oid in found if oid is not None and oid == wanted)


async def _relations(conn: Connection, names: Sequence[str]) -> list[int | None]:
    """Return the OIDs of relations by name; None: there is none, or it is no name of one."""
    found: dict[str, int | None] = {}
    for name in {*names}:
        try:
            async with conn.transaction():
                cursor = await conn.execute(
                    "select agent_internal.relation_named(%s, agent_internal.schemas_of_caller())"
                    "::oid::bigint",
                    [name],
                )
                found[name] = (await cursor.fetchone() or (None,))[0]
        except InvalidName:  # which PostgreSQL 15 raises
            found[name] = None
    return [found[name] for name in names]
