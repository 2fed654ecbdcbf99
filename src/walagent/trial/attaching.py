"""Attach the agent of a trial, in its transaction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from psycopg import AsyncConnection

from walagent.apply.apply import apply_unlocked
from walagent.config import Config
from walagent.domain.attachment import Attachment
from walagent.domain.tenant import Actor
from walagent.errors import ConfigError, PreconditionError
from walagent.message import Json
from walagent.store import attachments, trials
from walagent.store.errors import MIGRATE
from walagent.store.install.migrate import migrate, plan_migration
from walagent.store.trials import only_one

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to try.

    Args:
        target: the name of an attachment, or a table.
        only_file: whether attachments of the database are left out.
        actor: who tries it; None: the login.
        draft: columns of the agent, instead of those of the database.
        frozen: the definition to execute, instead of what the attachment would be now.
    """

    target: str
    config: Config
    only_file: bool = False
    actor: Actor | None = None
    draft: Mapping[str, Json] = field(default_factory=dict[str, Json])
    frozen: Mapping[str, Json] | None = None


async def attach_for_trial(conn: Connection, wanted: Wanted) -> Attachment:
    """Attach what a file or the database says under *target*, under a name of its own.

    Raises:
        ConfigError: nothing has this name, or it cannot be attached.
        PreconditionError: the schema is that of another version, or of somebody else.
    """
    if (owner := await trials.foreign_owner(conn)) is not None:
        raise PreconditionError(
            f'role "{conn.info.user}" cannot try agents: a trial acts with the rights of the owner'
            f' of walagent\'s schema, "{owner}"',
            hint="Use its DSN; principals with the role developer try agents in the console.",
        )
    await _ensure_schema(conn)
    await trials.begin_trial(conn)
    if wanted.actor is not None:
        await trials.act(conn, wanted.actor)
    if (name := await _of_file(conn, wanted)) is not None:
        return await _attach_from_file(conn, wanted.config, name)
    found = None if wanted.only_file else await trials.find_attachment(conn, wanted.target)
    if found is None:
        known = ", ".join(wanted.config.all_attachments) or "none"
        raise ConfigError(
            f'neither the file nor the database has an agent for "{wanted.target}"',
            hint=f"Attachments of the file: {known}. Run walagent new to write a file, or use"
            " --model and --writes.",
        )
    copy = await trials.copy_attachment(conn, found, wanted.draft)
    if wanted.frozen is not None:
        await trials.freeze(conn, copy, wanted.frozen)
    return await trials.definition(conn, copy)


async def _ensure_schema(conn: Connection) -> None:
    """Create walagent's schema in the transaction, if there is none."""
    plan = await plan_migration(conn)
    if plan and not plan.is_new:
        raise PreconditionError(plan.text, hint=MIGRATE)
    if plan:
        await migrate(conn)


async def _of_file(conn: Connection, wanted: Wanted) -> str | None:
    """Return the name of an attachment of the file, or of the only one of a table, if any."""
    entries, target = wanted.config.all_attachments, wanted.target
    if target in entries:
        return target
    tables = {name: entry.table for name, entry in entries.items()}
    return only_one(target, await attachments.attached_to(conn, target, tables))


async def _attach_from_file(conn: Connection, config: Config, name: str) -> Attachment:
    entry, new = config.all_attachments[name], f"{name} (try {uuid4().hex[:8]})"
    agent = config.agents.get(entry.agent)
    agents = {} if agent is None else {new: agent.model_copy(update={"attach": ()})}
    update = {"paused": False, "backfill": False, "name": None}
    attachment = entry.model_copy(update=update | ({"agent": new} if agent else {}))
    part = config.model_copy(
        update={"agents": agents, "attachments": {new: attachment}, "budgets": {}}
    )
    await apply_unlocked(conn, part)
    return await trials.definition(conn, new)
