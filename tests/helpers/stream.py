"""A stream that a test writes itself: transactions with positions, and what is confirmed."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection

from tests.helpers.build import WHEN
from tests.helpers.database import column, value
from walagent.domain.attachment import Attachment
from walagent.domain.change import (
    Begin,
    Change,
    Commit,
    Idle,
    Item,
    Op,
    OriginMarker,
    Piece,
    Relation,
    Row,
)
from walagent.intake.conditions import Evaluator
from walagent.intake.intake import Intake
from walagent.intake.settings import IntakeSettings
from walagent.matching.registry import Registry
from walagent.message import Json
from walagent.postgres.lsn import Lsn
from walagent.replication.feed import Feed
from walagent.store import checkpoint as checkpoints
from walagent.store.attachments import secret_key
from walagent.store.role_reader import RoleReader

# What conditions are evaluated with; closed after each `take`.
_READERS = WeakKeyDictionary[Intake, RoleReader]()


class ScriptedStream:
    """Implements `feed.Stream`: gives its batches one after the other."""

    def __init__(self, confirmed: Callable[[Lsn], None] = lambda _: None) -> None:
        self.batches: deque[list[Item]] = deque()
        self.confirmed: list[Lsn] = []
        self._on_confirmed = confirmed

    async def next_batch(self) -> list[Item]:
        """Give the next batch; wait for ever when there is none."""
        if not self.batches:
            await asyncio.Event().wait()
        return self.batches.popleft()

    def confirm(self, lsn: Lsn) -> None:
        """Remember a position."""
        self._on_confirmed(lsn)
        self.confirmed.append(lsn)


def transaction(at: int, *inside: Change | OriginMarker) -> list[Item]:
    """A transaction that commits at *at* and ends ten bytes later, its changes numbered."""
    changes = 0
    items: list[Item] = [Begin(at, Lsn(at), WHEN)]
    for it in inside:
        if isinstance(it, OriginMarker):
            items.append(it)
            continue
        items.append(Piece([replace(it, commit_lsn=Lsn(at), ordinal=changes)]))
        changes += 1
    return [*items, Commit(Lsn(at), Lsn(at + 10))]


def inserted(on: Attachment, row: Row) -> Change:
    """A row inserted into an attachment's table."""
    relation = Relation(on.target.relation_oid, on.target.schema, on.target.table)
    return Change(Lsn(0), 0, Op.INSERT, relation, row, None)


def idle(at: int, *, asked: bool = False) -> Idle:
    """Nothing is in flight up to *at*."""
    return Idle(Lsn(at), asked)


async def open_checkpoint(conn: AsyncConnection, slot: str = "s", start: int = 1) -> None:
    """Begin a checkpoint at *start*, with every attachment that there is in effect."""
    await checkpoints.open_checkpoint(
        conn, slot, system_id="1", timeline=1, plugin="pgoutput", start=Lsn(start)
    )


async def intake(conn: AsyncConnection, slot: str = "s", **changes: Json) -> Intake:
    """An intake that has taken the checkpoint over."""
    checkpoint = await checkpoints.take_checkpoint(conn, slot, "r")
    definitions = await column(conn, "select definition from agent.attachment order by id")
    registry = Registry(map(Attachment.from_json, definitions))
    key = await secret_key(conn)
    settings = IntakeSettings(**changes)
    reader = RoleReader(conn)
    made = Intake(conn, Evaluator(conn, reader), checkpoint, registry, key, settings)
    _READERS[made] = reader
    return made


async def take(made: Intake, stream: ScriptedStream, *batches: Sequence[Item]) -> None:
    """Let an intake ingest batches, and confirm what it has."""
    feed = Feed(stream, [made])
    for batch in batches:
        stream.batches.append(list(batch))
        await feed.take_one()
    await _READERS[made].aclose()


async def progress(conn: AsyncConnection, slot: str = "s") -> int:
    """Where the checkpoint ends."""
    query = "select (end_lsn - '0/0')::bigint from agent.checkpoint where slot = %s"
    return int(await value(conn, query, slot))
