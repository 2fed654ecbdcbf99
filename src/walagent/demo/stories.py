"""Read the outcome of each ticket from the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row

Connection = AsyncConnection[Any]

_STORIES = """
select ticket, subject, category, run, runs, state, steps, acted, effects, effect, ms, error
  from ticket_story
 order by ticket
"""


@dataclass(frozen=True, slots=True)
class Story:
    """A row of the view `ticket_story`."""

    ticket: int
    subject: str
    category: str | None
    run: int | None
    runs: int
    state: str | None
    steps: str  # model → update_row → refund_customer → model
    acted: Sequence[str]  # the tools with an effect, without update_row
    effects: int
    effect: str
    ms: int | None  # from the ticket's commit to the end of its run
    error: str | None

    @property
    def ended(self) -> bool:
        """Return whether its run has ended, successfully or not."""
        return self.ms is not None


async def read_stories(conn: Connection) -> list[Story]:
    """Read all tickets in the order of their numbers."""
    async with conn.cursor(row_factory=class_row(Story)) as cursor:
        await cursor.execute(_STORIES)
        return await cursor.fetchall()
