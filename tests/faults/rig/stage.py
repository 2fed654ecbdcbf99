"""The scene of most tests here: tables, tools that leave traces, a scripted model, attachments.

A writer changes `item` and notes each change in `written` in the same transaction.  The agent
answers each change by noting it in `effect`, once by a tool in SQL and once by one in Python, and
by marking the row.  So `written` says what must have happened, and `effect` says what has.

Where they are attached too (ATTACH_ALL), `parcel` has rows that change their key and go again, with
`parcel_written` and `parcel_effect`; and rows of `topic` are collected, several to a run.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from walagent.config import Replication
from walagent.message import Json
from walagent.replication.bootstrap import ensure_slot
from walagent.store.tools import register_python_tools
from walagent.tools.python import find_tools
from walagent.wal.options import Plugin

Figure = Callable[..., None]  # what, value, unit: see the fixture of this name

TOOLS = "tests.faults.rig.tools"  # the module with those in Python
CREDENTIAL, KEY = "FAKE_API_KEY", "fake-key"  # the key that a fake provider takes

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

create table parcel (
    id      bigint primary key,
    thing   bigint not null unique,
    version integer not null
);
alter table parcel replica identity full;
create table parcel_written (
    seq     bigint primary key generated always as identity,
    op      text not null,
    thing   bigint not null,
    id      bigint not null,
    version integer not null
);
create table parcel_effect (
    seq     bigint primary key generated always as identity,
    thing   bigint not null,
    id      bigint not null,
    version integer not null
);
create function note_parcel(thing bigint, id bigint, version integer)
    returns text
    language sql
as $$
    insert into public.parcel_effect (thing, id, version) values (thing, id, version);
    select 'noted'
$$;
create table topic (id bigint primary key generated always as identity);
"""

# The clock of leases, retries and debounce, so that a test can let time pass.
CLOCK = """
create table clock (shift interval not null);
grant select on clock to public;  -- functions with rights of their own read it
insert into clock values ('0');
create or replace function agent_internal.now()
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
# One thing's changes follow one another, also where its key changes; those of topics in 100 ms
# become one run, which is the way of intake that is more than one statement.
ATTACH_ALL = f"""
{ATTACH}
select agent.attach('parcel', 'model=script, tools=[note_parcel], on=[insert, update, delete],
    ordering_key=[thing], bind=[thing=thing, id=id, version=version], max_attempts=50');
select agent.attach('topic', 'model=script, ordering_key=[], debounce=100ms, max_attempts=50');
"""
SCRIPT = {
    "rules": [
        {"match": '"table":"parcel"', "replies": [{"call": "note_parcel"}, "Noted."]},
        {"match": '"table":"topic"', "replies": ["Seen."]},
    ],
    "replies": [
        [{"call": "note_change"}, {"call": "note_in_python"}],
        {"call": "update_row", "arguments": {"status": "seen"}},
        "Noted.",
    ],
}
REPLIES, CALLS = 3, 3  # in each run of `item`
SHAPES = {"item": (REPLIES, CALLS), "parcel": (2, 1), "topic": (1, 0)}


@dataclass(frozen=True, slots=True)
class Place:
    """A test's own database, its slot, and its folder."""

    conn: AsyncConnection[Any]
    dsn: str
    slot: str
    folder: Path


async def set_up(place: Place, *, latency: float = 0.0, provider: str = "") -> None:
    """Make the tables, and the model `script`.

    Args:
        latency: seconds before each answer of the model.
        provider: the base URL of a server that follows the script; default: none is needed.
    """
    await place.conn.execute(SCHEMA)
    await add_model(place, "script", {})
    set_latency(place, latency)
    if provider:
        await place.conn.execute(
            "update agent.model set provider = 'openai', base_url = %s, credential = %s",
            [provider, CREDENTIAL],
        )


async def make_ready(
    place: Place,
    *,
    latency: float = 0.0,
    attach: str = ATTACH,
    plugin: Plugin = "pgoutput",
    provider: str = "",
) -> None:
    """Make the scene, the slot, and the attachment: as after `walagent init` and an attach."""
    await set_up(place, latency=latency, provider=provider)
    await register_python_tools(place.conn, find_tools([TOOLS]).values())
    await ensure_slot(place.conn, place.dsn, Replication(slot=place.slot, plugin=plugin))
    await place.conn.execute(attach.encode())


def set_latency(place: Place, seconds: float) -> None:
    """Write the model's script anew, for daemons to come."""
    script_of(place, "script").write_text(json.dumps({"latency": seconds, **SCRIPT}))


def script_of(place: Place, name: str) -> Path:
    """Where a model's script stands."""
    return place.folder / f"{name}.json"


async def add_model(place: Place, name: str, script: Mapping[str, Json] | None = None) -> None:
    """Register a scripted model; *script* is written down for a daemon to read."""
    path = script_of(place, name)
    path.write_text(json.dumps(script or {}))
    await place.conn.execute(
        "insert into agent.model (name, provider, model_id, base_url, input_price, output_price)"
        " values (%s, 'scripted', 'scripted', %s, 0, 0)",
        [name, str(path)],
    )


async def let_waits_end(conn: AsyncConnection[Any]) -> None:
    """Let every wait end while nobody works, where CLOCK is the clock: no lease runs out by it."""
    async with conn.transaction():
        await conn.execute("lock table agent_internal.queue")  # so that nobody claims
        await conn.execute(
            "update public.clock set shift = shift + interval '1 hour'"
            " where not exists (select from agent.run where state = 'running')"
        )


async def let_time_pass(conn: AsyncConnection[Any]) -> None:
    """Let every lease run out and every wait end, where CLOCK is the clock."""
    await conn.execute("update public.clock set shift = shift + interval '1 hour'")
