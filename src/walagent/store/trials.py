"""Trials: an attachment, its runs and what they change, in a transaction that is rolled back."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from walagent.domain.attachment import Attachment
from walagent.domain.run import Claim
from walagent.domain.tenant import Actor
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store import applying, attachments, claiming
from walagent.store.claiming import ClaimScope
from walagent.store.codecs.lossy import LossyJson
from walagent.store.queries import query
from walagent.store.sessions.connections import RENEW

Connection = AsyncConnection[Any]

_LEASE: Final = timedelta(hours=1)  # no tick expires it
_WORKER: Final = "walagent try"


async def foreign_owner(conn: Connection) -> str | None:
    """Return the owner of the schema if the login has not its rights."""
    cursor = await conn.execute(
        "select pg_catalog.pg_get_userbyid(n.nspowner)::text from pg_catalog.pg_namespace n"
        " where n.nspname = 'agent_internal' and not pg_catalog.pg_has_role(n.nspowner, 'usage')"
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def begin_trial(conn: Connection) -> None:
    """Let attachments of this transaction publish nothing."""
    await conn.execute("insert into agent_internal.trial default values")


async def act(conn: Connection, actor: Actor) -> None:
    """Act as a principal for the rest of the transaction, or until `renew_session`."""
    await conn.execute("select agent_internal.assume(%s, %s)", (actor.tenant, actor.principal))


async def find_attachment(conn: Connection, target: str) -> str | None:
    """Return the name of an attachment, or of the only one of a table; None: there is none.

    Raises:
        ConfigError: a table has several.
    """
    cursor = await conn.execute("select name, relation::text from agent.attachment")
    tables = dict(await cursor.fetchall())
    if target in tables:
        return target
    return only_one(target, await attachments.attached_to(conn, target, tables))


def only_one(table: str, names: Sequence[str]) -> str | None:
    """Return the only attachment of a table; None: it has none.

    Raises:
        ConfigError: it has several.
    """
    if len(names) > 1:
        raise ConfigError(
            f'table "{table}" has several attachments', hint=f"Name one: {', '.join(names)}."
        )
    return names[0] if names else None


async def copy_attachment(conn: Connection, name: str, draft: Mapping[str, Json]) -> str:
    """Attach the agent of an attachment again, under another name; return the name.

    The runs of the present one keep their queue: no worker waits for this transaction.

    Args:
        draft: columns of the agent that differ.
    """
    new = f"{name} (try {uuid4().hex[:8]})"
    attachment = (await applying.current(conn, "attachment"))[name]
    agent = (await applying.current(conn, "agent"))[attachment["agent"]]
    await conn.execute(
        "select set_config('walagent.search_path', search_path || ' ', true) from agent.attachment"
        " where tenant = agent.current_tenant() and name = %s",
        [name],
    )
    await applying.write(conn, "agent", new, agent)
    if draft:
        await conn.execute("select agent_internal.change_agent(%s, %s)", [new, Jsonb(draft)])
    fields = {**attachment, "agent": new, "paused": False, "backfill": False}
    # To compile a condition is to execute code of its author, so it is copied as it was compiled.
    fields |= {"condition": None, "server_filter": False}
    await applying.write(conn, "attachment", new, fields)
    await conn.execute(query("copy_condition"), {"source": name, "target": new})
    return new


async def freeze(conn: Connection, name: str, frozen: Mapping[str, Json]) -> None:
    """Give the copy of an attachment the definition of a version."""
    await conn.execute(
        "update agent.attachment_version v"
        "   set definition = %s || jsonb_build_object("
        "           'id', a.id, 'version', a.version, 'name', a.name)"
        "  from agent.attachment a"
        " where (v.attachment_id, v.version) = (a.id, a.version)"
        "   and a.tenant = agent.current_tenant() and a.name = %s",
        [Jsonb(frozen), name],
    )


async def definition(conn: Connection, name: str) -> Attachment:
    """Load an attachment that this transaction has created, and create its queue."""
    await conn.execute("set constraints agent.sync_queue immediate")
    cursor = await conn.execute(
        "select v.definition from agent.attachment a"
        " join agent.attachment_version v on (v.attachment_id, v.version) = (a.id, a.version)"
        " where a.tenant = agent.current_tenant() and a.name = %s",
        [name],
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - it was just created
    return Attachment.from_json(row[0])


async def start_run(
    conn: Connection,
    attachment: Attachment,
    run: Mapping[str, Json],
    merged: Sequence[Mapping[str, Json]] = (),
) -> Claim:
    """Insert a run and claim it.

    Args:
        merged: the later changes that debounce merged into it.
    """
    document = {
        "tenant": attachment.tenant,
        "attachment_id": attachment.id,
        "attachment_version": attachment.version,
        "max_attempts": attachment.queueing.max_attempts,
        "commit_lsn": "0/0",
        "ordinal": 0,
        **run,
    }
    await conn.execute(
        "select agent_internal.insert_runs(_generation => 0, _runs => %s)", [LossyJson([document])]
    )
    if merged:
        await conn.execute(
            "insert into agent_internal.merged_change"
            " (attachment_id, generation, commit_lsn, ordinal, run_id, change, tenant)"
            " select r.attachment_id, 0, '0/0', m.number, r.id, m.change, r.tenant"
            "   from agent.run r cross join jsonb_array_elements(%s) with ordinality"
            "        as m (change, number)"
            "  where r.attachment_id = %s",
            [LossyJson(list(merged)), attachment.id],
        )
    claims = await claiming.claim_runs(
        conn, _WORKER, 1, _LEASE, scope=ClaimScope(queue=attachment.id)
    )
    return claims[0]


async def deferred_constraints(conn: Connection) -> list[tuple[str, str]]:
    """Return schema and name of the application's constraints that are deferred initially."""
    cursor = await conn.execute(query("deferred_constraints"))
    return [(row[0], row[1]) for row in await cursor.fetchall()]


async def renew_session(conn: Connection, deferred: Sequence[tuple[str, str]]) -> None:
    """Reset role and settings, as if a transaction had begun."""
    await conn.execute("reset role")
    await conn.execute(f"reset all; select {RENEW}".encode())
    if deferred:
        names = sql.SQL(", ").join(sql.Identifier(*each) for each in deferred)
        await conn.execute(sql.SQL("set constraints {} deferred").format(names))
