"""Rows that runs changed, for people."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.store.queries import query

Connection = AsyncConnection[Any]
Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Criteria that a change must meet, all of them; None accepts every change.

    Args:
        relation: as ``schema.table`` or ``table``, not quoted.
        key: the value of the primary key; of several columns, their JSON.
        column: that an update changed; updates of which that is not known are accepted.
        since: when it was committed; a timedelta counts from now.
    """

    agent: str | None = None
    run: int | None = None
    relation: str | None = None
    key: str | None = None
    column: str | None = None
    since: datetime | timedelta | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of `store/sql/list_changes.sql`."""
        age = self.since if isinstance(self.since, timedelta) else None
        return {
            "agent": self.agent,
            "run": self.run,
            "relation": self.relation,
            "key": self.key,
            "column": self.column,
            "since": None if age is not None else self.since,
            "age": age,
        }


async def list_changes(conn: Connection, filters: ChangeFilter, *, limit: int) -> list[Found]:
    """List the changes that *filters* accepts, the latest first."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query("list_changes"), {**filters.parameters, "limit": limit})
    return await cursor.fetchall()


async def changed_since(conn: Connection, run: int, step: int) -> int:
    """Count the changes of a run by a step and those after it, if they are in effect."""
    cursor = await conn.execute(
        "select coalesce(sum(c.rows), 0) from agent.row_change c"
        " where c.run_id = %(run)s and c.step >= %(step)s and agent_internal.in_effect(c.run_id)",
        {"run": run, "step": step},
    )
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


@dataclass(frozen=True, slots=True)
class Reversal:
    """Which runs are taken back: those that changed rows, and are in effect.

    Args:
        version: of the agent's attachment.
        since: when a change was committed; a timedelta counts from now.
    """

    agent: str | None = None
    version: int | None = None
    since: datetime | timedelta | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing selects."""
        return self == Reversal()


async def runs_to_revert(conn: Connection, which: Reversal) -> list[int]:
    """Return the runs that a reversal selects, the latest first."""
    age = which.since if isinstance(which.since, timedelta) else None
    cursor = await conn.execute(
        query("runs_to_revert"),
        {
            "agent": which.agent,
            "version": which.version,
            "since": None if age is not None else which.since,
            "age": age,
        },
    )
    return [row[0] for row in await cursor.fetchall()]


async def revert(conn: Connection, run: int, *, dry_run: bool, only_unchanged: bool) -> int:
    """Queue a run that takes a run back; return its ID.

    Raises (as a PostgreSQL error, see `store.errors`):
        ConfigError: the run cannot be taken back.
    """
    cursor = await conn.execute(
        "select agent.revert(run_id => %(run)s, dry_run => %(dry_run)s,"
        " only_unchanged => %(only_unchanged)s)",
        {"run": run, "dry_run": dry_run, "only_unchanged": only_unchanged},
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


async def reverted(conn: Connection, made: int) -> Found | None:
    """Return what a run that takes another back has done; None: it has not ended."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query("show_revert"), {"run": made})
    return await cursor.fetchone()
