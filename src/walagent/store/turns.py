"""Turns of agents in threads: whom an event concerns, what a turn is rendered from, its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg import AsyncConnection

from walagent.domain.run import Claim
from walagent.message import Json
from walagent.store.codecs.lossy import LossyJson, LossyText

Connection = AsyncConnection[Any]
EventPlace = tuple[str, str, int]  # tenant, thread and number


@dataclass(frozen=True, slots=True)
class Listeners:
    """The agents in the thread of an event, and whether an agent is its author.

    Args:
        pinned: attachment and version of the agents that have taken a turn there.
    """

    agents: tuple[str, ...]
    by_agent: bool
    pinned: Mapping[str, Sequence[int]]


async def listeners(conn: Connection, places: Mapping[int, EventPlace]) -> dict[int, Listeners]:
    """Look up the agents in the threads of events; an event that is not visible is left out."""
    cursor = await conn.execute(
        "select n, agents, by_agent, pinned"
        " from agent_internal.agents_of_events(_events => %(events)s)",
        {"events": orjson.dumps([[n, *place] for n, place in places.items()]).decode()},
    )
    return {
        n: Listeners(tuple(agents or ()), bool(by_agent), pinned or {})
        for n, agents, by_agent, pinned in await cursor.fetchall()
    }


async def look(conn: Connection, claim: Claim, size: int) -> Mapping[str, Any]:
    """Read what a turn is decided and rendered from.

    Args:
        size: bytes of the latest events.
    """
    cursor = await conn.execute(
        "select agent_internal.look_turn(_run => %(run)s, _bytes => %(size)s)",
        {"run": claim.run_id, "size": size},
    )
    row = await cursor.fetchone()
    return row[0] if row else {}


async def begin(conn: Connection, claim: Claim, content: Mapping[str, Json]) -> str | None:
    """Begin a turn: record its first step; return why it does not take place, or None.

    Raises (as PostgreSQL errors, see `store.errors`):
        LeaseLostError, RunCancelledError: leave the run.
    """
    cursor = await conn.execute(
        "select agent_internal.begin_turn(_run => %(run)s, _lease => %(lease)s,"
        " _content => %(content)s)",
        {"run": claim.run_id, "lease": claim.lease, "content": LossyJson(content)},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def end(
    conn: Connection, claim: Claim, text: str | None, seen: int, size: int | None = None
) -> None:
    """Post the answer of a turn, if it has one, in the transaction that ends its run.

    Args:
        size: bytes of events beyond which older ones are to be summarized.

    Raises (as a PostgreSQL error, see `store.errors`):
        RunCancelledError: the agent has left the thread.
    """
    await conn.execute(
        "select agent_internal.end_turn(_run => %(run)s, _text => %(text)s, _seen => %(seen)s,"
        " _bytes => %(size)s)",
        {
            "run": claim.run_id,
            "text": None if text is None else LossyText(text),
            "seen": seen,
            "size": size,
        },
    )


async def said_meanwhile(conn: Connection, claim: Claim, upto: int) -> Mapping[str, Any] | None:
    """Read whether people have said something since an event that the turn takes in.

    Returns:
        `interrupts`: whether the reply that is being written is not wanted any more.
    """
    cursor = await conn.execute(
        "select agent_internal.said_meanwhile(_run => %(run)s, _upto => %(upto)s)",
        {"run": claim.run_id, "upto": upto},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def post_cut_off(conn: Connection, claim: Claim, text: str) -> None:
    """Post what was said of a reply, in the transaction that records it."""
    await conn.execute(
        "select agent_internal.post_cut_off(_run => %(run)s, _text => %(text)s)",
        {"run": claim.run_id, "text": LossyText(text)},
    )


async def look_summary(conn: Connection, claim: Claim, size: int) -> Mapping[str, Any]:
    """Read what a summary is made from: all but the latest events."""
    cursor = await conn.execute(
        "select agent_internal.look_summary(_run => %(run)s, _bytes => %(size)s)",
        {"run": claim.run_id, "size": size},
    )
    row = await cursor.fetchone()
    return row[0] if row else {}


async def store_summary(conn: Connection, claim: Claim, text: str, upto: int) -> None:
    """Store a summary, in the transaction that ends its run."""
    await conn.execute(
        "select agent_internal.store_summary(_run => %(run)s, _text => %(text)s,"
        " _upto => %(upto)s)",
        {"run": claim.run_id, "text": LossyText(text), "upto": upto},
    )
