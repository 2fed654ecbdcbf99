"""The scene of most tests here: tables, tools that leave traces, a scripted model, attachments.

A writer changes `item` and notes each change in `written` in the same transaction.  The agent
answers each change by noting it in `effect`, once by a tool in SQL and once by one in Python, and
by marking the row.  So `written` says what must have happened, and `effect` says what has.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from walagent.agent.tools.python import find_tools
from walagent.app.setup import ensure_slot
from walagent.config import Replication
from walagent.message import Json
from walagent.store.tools import register_python_tools
from walagent.wal.options import Plugin

Figure = Callable[..., None]  # what, value, unit: see the fixture of this name

TOOLS = "tests.faults.rig.tools"  # the module with those in Python

SCHEMA = """
create table item (
    id      bigint primary key,
    version integer not null,
    note    text,
    status  text not null default 'new'
);
create table written (
    seq     bigint primary key generated always as identity,
    item    bigint not null,
    version integer not null
);
create table effect (
    seq     bigint primary key generated always as identity,
    tool    text not null,
    item    bigint not null,
    version integer not null
);
create function note_change(item bigint, version integer)
    returns text
    language sql
as $$
    insert into public.effect (tool, item, version) values ('sql', item, version);
    select 'noted'
$$;
"""

# The clock of leases, retries and debounce, so that a test can let time pass.
CLOCK = """
create table clock (shift interval not null);
insert into clock values ('0');
create or replace function agent.now()
    returns timestamptz
    language sql
    stable
as $$ select statement_timestamp() + (select shift from public.clock) $$;
"""

# Attempts are plenty: a kill costs every run in work one.
ATTACH = """
select agent.attach('item', 'model=script, tools=[note_change, note_in_python], writes=[status],
    on=[insert, update], bind=[item=id, version=version], max_attempts=50');
"""
SCRIPT = {
    "replies": [
        [{"call": "note_change"}, {"call": "note_in_python"}],
        {"call": "update_row", "arguments": {"status": "seen"}},
        "Noted.",
    ]
}
REPLIES, CALLS = 3, 3  # in each run of that script


@dataclass(frozen=True, slots=True)
class Place:
    """A test's own database, its slot, and its folder."""

    conn: AsyncConnection[Any]
    dsn: str
    slot: str
    folder: Path


async def set_up(place: Place, *, latency: float = 0.0) -> None:
    """Make the tables, and the model `script`.

    Args:
        latency: seconds before each answer of the model.
    """
    await place.conn.execute(SCHEMA)
    await add_model(place, "script", {})
    set_latency(place, latency)


async def make_ready(
    place: Place, *, latency: float = 0.0, attach: str = ATTACH, plugin: Plugin = "pgoutput"
) -> None:
    """Make the scene, the slot, and the attachment: as after `walagent init` and an attach."""
    await set_up(place, latency=latency)
    await register_python_tools(place.conn, find_tools([TOOLS]).values())
    await ensure_slot(place.conn, place.dsn, Replication(slot=place.slot, plugin=plugin))
    await place.conn.execute(attach.encode())


def set_latency(place: Place, seconds: float) -> None:
    """Write the model's script anew, for daemons to come."""
    _script(place, "script").write_text(json.dumps({"latency": seconds, **SCRIPT}))


def _script(place: Place, name: str) -> Path:
    return place.folder / f"{name}.json"


async def add_model(place: Place, name: str, script: Mapping[str, Json] | None = None) -> None:
    """Register a scripted model; *script* is written down for a daemon to read."""
    path = _script(place, name)
    path.write_text(json.dumps(script or {}))
    await place.conn.execute(
        "insert into agent.model (name, provider, model_id, base_url, input_price, output_price)"
        " values (%s, 'scripted', 'scripted', %s, 0, 0)",
        [name, str(path)],
    )


async def let_time_pass(conn: AsyncConnection[Any]) -> None:
    """Let every lease run out and every wait end, where CLOCK is the clock."""
    await conn.execute("update public.clock set shift = shift + interval '1 hour'")
