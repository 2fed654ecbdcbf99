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
