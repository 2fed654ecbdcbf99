"""A small scene in which every change and every answer counts, for deaths at an exact point.

What is written comes in stages; the models are objects of the test, which remember what they were
asked.  Time passes when the test lets it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from psycopg import AsyncConnection

from tests.faults.rig.inprocess import ingest, work
from tests.faults.rig.stage import CLOCK, SCHEMA, TOOLS, Place, add_model
from tests.faults.rig.waiting import fetch
from walagent.base import faults
from walagent.message import Message
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store.tools import register_python_tools
from walagent.tools.python import find_tools

OF_INTAKE = tuple(p for p in faults.POINTS if p.startswith(("frame.", "intake.")))
OF_WORKER = tuple(p for p in faults.POINTS if p not in OF_INTAKE)

# An answer that was in memory only is asked for again; one that is recorded never is.
ASKED_AGAIN = {"model.answered": 1, "run.finished": 1}
THEME = """
create table theme (id bigint primary key, version integer not null, status text);
"""
ATTACH = """
select agent.attach('item', 'model=item, tools=[note_change, note_in_python], writes=[status],
    on=[insert, update], bind=[item=id, version=version]')
"""
# Its changes are collected: this takes the way of intake that is more than one statement.
ATTACH_THEME = """
select agent.attach('theme', 'model=theme, tools=[note_change], on=[insert, update],
    bind=[item=id, version=version], debounce=1 minute')
"""
# What is written, stage by stage, and how many changes have been ingested after each.
STAGES: tuple[tuple[Sequence[str], int], ...] = (
    ((ATTACH, ATTACH_THEME), 0),
    (("insert into item values (1, 1), (2, 1)", "insert into item values (3, 1)"), 3),
    (("insert into theme values (100, 1)", "update theme set version = 2"), 5),
    (("update item set version = 2 where id < 3",), 7),
)
CHANGES = STAGES[-1][1]
INGESTED = """
select (select count(*) from agent.run) + (select count(*) from agent_internal.merged_change) >= %s
   and (select count(*) from agent.attachment_version where active_from is not null) = 2
"""
ENDED = "select not exists (select from agent.run where not agent_internal.is_final(state))"
EFFECTS = "select tool, item, version, count(*) from effect group by 1, 2, 3 order by 1, 2, 3"
EXPECTED = [
    *(("python", item, version, 1) for item, version in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1))),
    *(("sql", item, version, 1) for item, version in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1))),
    ("sql", 100, 2, 1),  # debounced: the last change is bound
]


@dataclass(frozen=True, slots=True)
class Scene:
    """A database with attachments to come, and the models that its agents ask."""

    conn: AsyncConnection
    dsn: str
    slot: str
    models: Mapping[str, ScriptedModel]

    async def is_true(self, query: str, *parameters: object) -> bool:
        """Whether *query* says so."""
        return (await fetch(self.conn, query, *parameters))[0][0]

    async def ingest(self, stage: int) -> bool:
        """Take in what the stages up to this one have brought; True when the reader died."""
        changes = STAGES[stage][1]
        return await ingest(self.dsn, self.slot, lambda: self.is_true(INGESTED, changes))

    async def work(self) -> bool:
        """Work all runs to their end; True when the worker died."""
        return await work(self.dsn, self.models, lambda: self.is_true(ENDED))

    @property
    def asked_again(self) -> int:
        """How many answers were asked for more than once."""
        requests = [r for model in self.models.values() for r in model.requests]
        asked = Counter((r.run_id, _replies(r.messages)) for r in requests)
        return sum(count - 1 for count in asked.values())


def _replies(messages: Sequence[Message]) -> int:
    return sum(message.role == "assistant" for message in messages)


async def make_scene(place: Place) -> Scene:
    """Make tables, tools, two models, a slot: and nothing attached yet."""
    conn = place.conn
    await conn.execute(SCHEMA + THEME + CLOCK)
    await register_python_tools(conn, find_tools([TOOLS]).values())
    for name in ("item", "theme"):
        await add_model(place, name)
    models = {
        "item": ScriptedModel(
            [
                [call("note_change"), call("note_in_python")],
                call("update_row", status="seen"),
                "Noted.",
            ]
        ),
        "theme": ScriptedModel([call("note_change"), "Noted."]),
    }
    scene = Scene(place.conn, place.dsn, place.slot, models)

    async def at_once() -> bool:
        return True

    await ingest(place.dsn, place.slot, at_once)  # makes slot and checkpoint
    return scene


async def take_all_in(scene: Scene, fault: ExitStack | None = None) -> int:
    """Write and ingest stage after stage; a dead reader is followed by a fresh one.

    Args:
        fault: what is armed; it fires once.

    Returns:
        how often a reader died.
    """
    deaths = 0
    for number, (statements, _) in enumerate(STAGES):
        for statement in statements:
            await scene.conn.execute(statement.encode())
        while await scene.ingest(number):
            deaths += 1
            if fault:
                fault.close()
    return deaths


async def all_is_well(scene: Scene) -> None:
    """One run a change, one effect a run, nothing left over."""
    query = "select change -> 'new' ->> 'id', state, result from agent.run order by 1"
    runs = [(str(item), "succeeded", "Noted.") for item in (1, 1, 100, 2, 2, 3)]
    assert await fetch(scene.conn, query) == runs
    assert await fetch(scene.conn, "select count(*) from agent_internal.merged_change") == [(1,)]
    assert await fetch(scene.conn, EFFECTS) == EXPECTED
    assert await fetch(scene.conn, "select distinct status from item") == [("seen",)]
    assert await fetch(scene.conn, "select * from agent.broken_invariant") == []
