"""A database with walagent's schema, an agent on `ticket`, and a slot, as `walagent` makes them."""

import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench import workload
from bench.ours.parts import make_slot, open_feed
from walagent.store.install.migrate import migrate
from walagent.store.sessions.connections import connect

_SET_PRIORITY = """\
create function set_priority(ticket bigint, priority text) returns text language sql as $$
    update ticket set priority = $2 where id = $1
    returning format('ticket %s is now %s', id, $2)
$$"""
_MODEL = "insert into agent.model (name, provider, model_id, base_url, credential)"


@dataclass(frozen=True, slots=True)
class Answers:
    """Who answers the agent: a row of the registry of models."""

    provider: str
    base_url: str
    credential: str | None = None


@contextmanager
def scripted(replies: Sequence[Any], latency: float = 0.0) -> Iterator[Answers]:
    """The scripted model, which answers with these.

    Args:
        latency: seconds before each answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps({"replies": replies, "latency": latency}))
        yield Answers("scripted", str(script))


def attach(
    url: str,
    answers: Answers,
    *,
    tools: Sequence[str] = (),
    condition: str | None = None,
    also: Sequence[str] = (),
) -> None:
    """Install the schema, make the table, attach an agent to it, make the slot.

    Args:
        also: further statements, before the slot is made: the reader does not see them.
    """
    asyncio.run(_install(url))
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(workload.TICKET_TABLE)
        conn.execute(_SET_PRIORITY)
        conn.execute(
            f"{_MODEL} values ('bench', %s, 'bench', %s, %s)",
            [answers.provider, answers.base_url, answers.credential],
        )
        conn.execute(
            "select agent.attach('ticket', 'bench', system_prompt => %s, tools => %s, bind => %s,"
            " condition => %s)",
            [
                workload.SYSTEM,
                list(tools),
                json.dumps({"ticket": "id"} if tools else {}),
                condition,
            ],
        )
        for statement in also:
            conn.execute(statement.encode())
    asyncio.run(make_slot(url))


def install(url: str) -> None:
    """Install the schema, make the table and the slot, and attach nothing."""
    asyncio.run(_install(url))
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(workload.TICKET_TABLE)
    asyncio.run(make_slot(url))


async def _install(url: str) -> None:
    async with await connect(url) as conn:
        await migrate(conn)


def queue_runs(url: str, count: int, runs: int | None = None) -> None:
    """Insert tickets and ingest them, so that *count* runs wait for a worker.

    Args:
        runs: how many there are then, with those of before; None: there were none.
    """
    with psycopg.connect(url, autocommit=True) as conn:
        workload.insert_tickets(conn, count)
        asyncio.run(_ingest(url, conn, runs or count))
        conn.execute("analyze")  # as on a server that has run for a while


async def _ingest(url: str, conn: psycopg.Connection, count: int) -> None:
    async with open_feed(url) as (feed, _):
        while _runs(conn) < count:
            await feed.take_one()


def read_writes(url: str, count: int) -> None:
    """Read what runs have written, until *count* changes of theirs are recorded."""
    asyncio.run(_read_writes(url, count))


async def _read_writes(url: str, count: int) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        async with open_feed(url) as (feed, _):
            while _one(conn, "select count(*) from agent.row_change") < count:
                await feed.take_one()


def _runs(conn: psycopg.Connection) -> int:
    return _one(conn, "select count(*) from agent.run")


def _one(conn: psycopg.Connection, query: str) -> int:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
